#!/usr/bin/env python3
"""The PyTorch model against the stored logits of the reference: every rounding point, bit for bit.

    python3 tests/tiny_model/reference_test.py
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

    def test_the_window_in_blocks_gives_the_heads_and_gradients_of_the_whole_window(self):
        generator = torch.Generator().manual_seed(4)
        reach = self.model.text["sliding_window"]
        length, rows = 4 * reach, 2 * reach
        shapes = ((2, length, 3, 32), (2, length, 32), (2, rows, 32))
        heads, window, far = (torch.randn(s, generator=generator) for s in shapes)
        sink = torch.randn(3, generator=generator)
        visible = (torch.arange(rows) < (torch.arange(length)[:, None] + 1) // 2)[None]
        self.model.rounding = model.Rounding()
        whole = model.Model(dict(self.model.text), self.model.weights)
        whole.attend_blocked = None  # must not be needed where T is no multiple of the window
        for given, seen in ((far, visible), (None, None)):
            results = []
            for cut, own in ((0, self.model), (1, whole)):
                inputs = [heads[:, :length - cut].clone().requires_grad_(),
                          window[:, :length - cut].clone().requires_grad_()]
                o, weights = own.attend(*inputs, given,
                                        None if seen is None else seen[:, :length - cut], sink)
                o[:, :length - 1].sin().sum().backward()
                results.append([o[:, :length - 1], *(i.grad[:, :length - 1] for i in inputs)])
                if given is not None:
                    results[-1].append(weights[:, :length - 1, :, -rows:])
            for blocked, plain in zip(*results):
                torch.testing.assert_close(blocked, plain, rtol=1e-4, atol=1e-5)

    def test_the_comparison_notices_a_missing_quantisation(self):
        case = json.loads((CASES / "len037_candidates" / "case.json").read_text())
        tokens = torch.tensor([case["tokens"]])
        exact = self.logits(tokens, model.Rounding(quantised=True, exact=True))
        self.assertGreater(np.abs(exact - self.logits(tokens, model.Rounding())).max(), 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
