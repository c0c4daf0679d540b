#!/usr/bin/env python3
"""The PyTorch side of the small checkpoint: equal to the engine, repeatable, resumable.

    python3 tests/tiny_model/model_test.py YEOUL

The determinism test of the training: one thread, a few steps, stopped and resumed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.tiny_model import (accepted_length, agreement, config, drafter,  # noqa: E402
                              engram_hash, export, model, parameters, quantize,
                              read_checkpoint, train)

YEOUL = None
TOKENIZER = ROOT / "models" / "tiny-random" / "tokenizer.json"
SMALL = {"hidden_size": 64, "head_dim": 64, "qk_rope_head_dim": 16, "q_lora_rank": 32,
         "o_lora_rank": 32, "moe_intermediate_size": 32, "engram_vocab_size": 101,
         "index_topk": 16, "candidate_topk_blocks": 4, "index_head_dim": 32,
         "dspark_markov_rank": 32}


def random_model(texts, seed=3):
    """Random weights with every structural part in use."""
    text = config.with_engram(config.text_config(len(texts), **SMALL), texts)
    weights = parameters.draw(parameters.backbone_kinds(text) | parameters.draft_kinds(text), seed)
    parameters.stabilise_streams(weights, text)
    generator = torch.Generator().manual_seed(seed)
    for name, value in weights.items():
        if name.endswith(("attn_sink", "gate.bias")):
            value.copy_(0.3 * torch.randn(value.shape, generator=generator))
    return text, weights


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.texts = engram_hash.token_texts(TOKENIZER)
        cls.text, cls.weights = random_model(cls.texts)
        cls.checkpoint = root / "checkpoint"
        export.write_checkpoint(cls.weights, cls.text, TOKENIZER, cls.checkpoint)
        cls.tokens = np.random.default_rng(1).integers(3, len(cls.texts) - 8, 200)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_engine_computes_the_logits_of_the_model_that_was_exported(self):
        positions, equal, largest = agreement.compare(YEOUL, self.checkpoint, [self.tokens], "double")
        self.assertEqual(positions, len(self.tokens))
        # One BF16 ulp of a hidden value that an exponential's last bit decided moves a logit by
        # about 0.01; a wrong mask, rotation or selection moves thousands by more than 0.3.
        self.assertLess(largest, 0.05)
        self.assertGreaterEqual(equal / positions, 0.98)

    def test_a_changed_weight_is_seen(self):
        weights = dict(self.weights)
        name = "layers.4.attn.compressor.wkv.weight"
        weights[name] = weights[name].roll(1, 0)
        own, hasher = agreement.opened(self.checkpoint, True)
        changed = model.Model(self.text, weights)
        changed.rounding, changed.sparse = own.rounding, True
        difference = (agreement.model_logits(own, hasher, self.tokens)
                      - agreement.model_logits(changed, hasher, self.tokens))
        self.assertGreater(np.abs(difference).max(), 0.3)

    def test_rounding_what_was_read_changes_no_value(self):
        text, weights = read_checkpoint.read(self.checkpoint)
        again = self.checkpoint.parent / "again"
        export.write_checkpoint(weights, text, TOKENIZER, again)
        self.assertEqual(text, self.text)
        for name, value in read_checkpoint.read(again)[1].items():
            self.assertTrue(torch.equal(value, weights[name]), name)
            drift, largest = (value - self.weights[name]).abs().max(), value.abs().max()
            self.assertLessEqual(drift, largest / 5.9, name)  # half an FP4 step, between 4 and 6

    @torch.no_grad()
    def test_a_block_is_drafted_from_rows_before_it_and_its_first_token_alone(self):
        own, hasher = agreement.opened(self.checkpoint, True)
        at = torch.tensor([100, 20])
        tokens = torch.from_numpy(self.tokens).expand(2, -1).clone()
        width, size = self.text["sliding_window"], self.text["dspark_block_size"]

        def blocks():
            taps = own.hidden(tokens, hasher.rows(tokens))[1].view(*tokens.shape, -1)
            cut = [drafter.windows(rows, torch.arange(2), at, width)
                   for rows in drafter.context_rows(own, taps)]
            return drafter.draft(own, tokens[torch.arange(2), at], at, [c for c, _ in cut],
                                 cut[0][1])
        chosen, confidence, logits = blocks()
        self.assertEqual(chosen.shape, (2, size))
        tokens[0, 101:] = 5
        tokens[1, 21:] = 5
        self.assertTrue(all(torch.equal(a, b) for a, b in
                            zip((chosen, confidence, logits), blocks())))
        tokens[0, 99] = tokens[0, 99] - 1
        self.assertFalse(torch.equal(logits[0], blocks()[2][0]))


    def test_a_pass_gains_the_right_tokens_and_one_more(self):
        own, hasher = agreement.opened(self.checkpoint, False)
        tokens = torch.from_numpy(self.tokens[:60])[None]
        for right, gains in ((0, [1] * 12), (2, [3] * 4), (5, [6] * 2)):
            def draft(model, last, positions, contexts, exists, right=right):
                after = positions[:, None] + torch.arange(1, 6)
                block = tokens[0, after.clamp(max=59)]
                block[:, right:] += 1
                return block, None, None
            with unittest.mock.patch.object(drafter, "draft", draft):
                # token 40 comes from the prompt's pass, 41 to 52 from drafted ones
                found = accepted_length.accepted_lengths(own, hasher, tokens, [(40, 53)])
            self.assertEqual(found, [gains])

    def test_questions_end_where_the_answer_begins(self):
        class Rows:
            tokens = np.array([[0, 7, 8, 9, 1, 0, 5, 6, 1]])
            weights = np.array([[1, 1, 1, 10, 10, 1, 1, 1, 1]])
            kinds = np.array([[2, 2, 2, 2, 2, 3, 3, 3, 3]])
        (kind, tokens), = accepted_length.questions(Rows, 10)
        self.assertEqual((kind, tokens.tolist()), (2, [0, 7, 8]))


class Formats(unittest.TestCase):
    def test_codes_and_values_of_e4m3_are_each_others_inverse(self):
        codes = torch.arange(256)
        numbers = codes[(codes & 127) != 127]
        values = quantize.E4M3_VALUES[numbers]
        self.assertEqual(values.abs().max(), 448)
        self.assertTrue(torch.equal(quantize.e4m3_codes(values), numbers.to(torch.uint8)))

    def test_e4m3_rounds_to_the_nearest_value_and_halves_to_the_even_code(self):
        values = quantize.E4M3_VALUES[:127].double()
        between = (values[1:] + values[:-1]) / 2
        even = torch.where(torch.arange(126) % 2 == 0, values[:-1], values[1:]).float()
        for sign in (1, -1):
            for rounding in (quantize.e4m3, quantize.e4m3_spelled_out):
                self.assertTrue(torch.equal(rounding(sign * between.float()), sign * even))
                for near, nearest in ((1 - 1e-6, values[:-1]), (1 + 1e-6, values[1:])):
                    found = rounding((sign * between * near).float())
                    self.assertTrue(torch.equal(found, sign * nearest.float()))
        self.assertEqual(quantize.e4m3(torch.tensor([1e9]))[0], 448)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = pathlib.Path(cls.folder.name) / "data"
        cls.data.mkdir()
        shutil.copyfile(TOKENIZER, cls.data / "tokenizer.json")
        rng = np.random.default_rng(2)
        for split in ("train", "held"):
            rows = cls.data / split / "T128"
            rows.mkdir(parents=True)
            np.save(rows / "tokens.npy", rng.integers(0, 200, (24, 128)).astype(np.uint16))
            np.save(rows / "weights.npy", np.full((24, 128), train.ANSWER, np.uint8))
            np.save(rows / "kinds.npy", np.zeros((24, 128), np.uint8))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, module, run, *arguments):
        """A call with few rows; fusing is off, the schedule stays at its start."""
        code = (f"import functools; from tools.tiny_model import train, drafter\n"
                f"train.first_state = functools.partial(train.first_state, **{SMALL})\n"
                f"train.WORKER_TOKENS, drafter.POOL_ROWS, drafter.ANCHORS = 256, 4, 8\n"
                f"{module}.main()")
        subprocess.run([sys.executable, "-c", code, str(self.data), str(run), "--minutes", "1e6",
                        *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, OMP_NUM_THREADS="1"))

    def trained(self, *stops):
        run = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        for stop in stops:
            self.run_program("train", run, "--no-fuse", "--workers", "1", "--stop-after", str(stop))
        return run, torch.load(run / "state.pt")

    def assert_equal_weights(self, one, other):
        for name, value in one["weights"].items():
            self.assertTrue(torch.equal(value, other["weights"][name]), name)

    def test_two_runs_and_a_resumed_run_give_the_same_bits(self):
        _, whole = self.trained(3)
        _, again = self.trained(3)
        run, resumed = self.trained(1, 3)
        self.assert_equal_weights(whole, again)
        self.assert_equal_weights(whole, resumed)
        first = train.first_state(self.data, 20261201, **SMALL)["weights"]
        self.assertFalse(torch.equal(first["head.weight"], whole["weights"]["head.weight"]))
        self.run_program("drafter", run, "--rows", "T128", "--no-fuse", "--threads", "1",
                         "--stop-after", "2")
        complete = torch.load(run / "complete.pt")
        self.assert_equal_weights(resumed, complete)  # the backbone stays as it was
        self.assertIn("mtp.2.markov_head.head.weight", complete["weights"])

    def test_a_run_goes_on_from_the_weights_of_a_checkpoint(self):
        checkpoint = pathlib.Path(self.folder.name) / "checkpoint"
        own, weights = random_model(engram_hash.token_texts(TOKENIZER))
        export.write_checkpoint(weights, own, TOKENIZER, checkpoint)
        text, stored = read_checkpoint.read(checkpoint)
        run = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        options = ["--go-on-from", str(checkpoint), "--no-fuse", "--workers", "1", "--rows", "T128"]
        self.run_program("train", run, *options, "--window", "64", "--stop-after", "0")
        state = torch.load(run / "state.pt")
        self.assertEqual(state["text"], text | {"sliding_window": 64})
        self.assert_equal_weights(state, {"weights": stored})
        self.run_program("train", run, *options, "--stop-after", "1")
        self.assertFalse(torch.equal(torch.load(run / "state.pt")["weights"]["head.weight"],
                                     stored["head.weight"]))
        self.run_program("drafter", run, "--rows", "T128", "--no-fuse", "--threads", "1",
                         "--go-on-from", str(checkpoint), "--stop-after", "0")
        stages = torch.load(run / "draft.pt")
        self.assertIn("mtp.0.main_proj.weight", stages["weights"])
        self.assert_equal_weights(stages, {"weights": stored})

    def test_a_checkpoint_with_another_tokenizer_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "is not the tokenizer of"):
            train.state_of(ROOT / "models" / "yeoul-tiny", self.data, {})


if __name__ == "__main__":
    YEOUL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    torch.set_num_threads(1)
    unittest.main()
