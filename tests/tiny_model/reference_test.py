#!/usr/bin/env python3
"""The PyTorch model against the stored logits of the reference: every rounding point, bit for bit.

    YEOUL_TORCH_PYTHON tests/tiny_model/reference_test.py
"""
import json
import pathlib
import sys
import unittest

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.tiny_model import engram_hash, model, read_checkpoint  # noqa: E402

CHECKPOINT = ROOT / "models" / "tiny-random"
CASES = ROOT / "tests" / "golden" / "data" / "cases"


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text, weights = read_checkpoint.read(CHECKPOINT)
        cls.hasher = engram_hash.Hasher(text,
                                        engram_hash.token_texts(CHECKPOINT / "tokenizer.json"))
        cls.model = model.Model(text, weights)
        cls.model.sparse = True

    @torch.no_grad()
    def logits(self, tokens, rounding):
        self.model.rounding = rounding
        hidden, _, _ = self.model.hidden(tokens, self.hasher.rows(tokens))
        return self.model.logits(hidden).numpy()

    def test_exact_rounding_gives_the_reference_logits_bit_for_bit(self):
        checked = 0
        for folder in sorted(CASES.glob("len*")):
            case = json.loads((folder / "case.json").read_text())
            tokens = torch.tensor([case["tokens"]])
            expected = np.load(folder / "logits.npy")
            own = self.logits(tokens, model.Rounding(quantised=True, exact=True))
            with self.subTest(folder.name):
                np.testing.assert_array_equal(own[-len(expected):], expected)
            checked += len(expected)
        self.assertGreater(checked, 100)

    def test_the_comparison_notices_a_missing_quantisation(self):
        case = json.loads((CASES / "len037_candidates" / "case.json").read_text())
        tokens = torch.tensor([case["tokens"]])
        exact = self.logits(tokens, model.Rounding(quantised=True, exact=True))
        self.assertGreater(np.abs(exact - self.logits(tokens, model.Rounding())).max(), 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
