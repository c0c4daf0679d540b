#!/usr/bin/env python3
"""The yeoul program from outside: what it prints, writes and returns. Standard library only."""
import array
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None
CASES = "tests/golden/data/cases"
RANDOM = ("--model", "models/tiny-random")  # whose logits the reference gave


def run(*arguments, expect=0):
    """-> (stdout, stderr) of one call."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=60, check=False)
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    if done.returncode != expect:
        raise AssertionError(f"{arguments}: exit code {expect} expected, {done.returncode} found\n{out}{err}")
    return out, err


def read_npy(path):
    """-> (shape, float32 values)"""
    with open(path, "rb") as file:
        blob = file.read()
    length = int.from_bytes(blob[8:10], "little")
    header = blob[10:10 + length].decode()
    shape = tuple(int(n) for n in re.search(r"\(([^)]*)\)", header)[1].split(",") if n.strip())
    values = array.array("f")
    values.frombytes(blob[10 + length:])
    return shape, values


class MakeCheckpoint(unittest.TestCase):
    SMALL = ("--layers", "4", "--experts", "4", "--experts-per-token", "2", "--expert-width", "32",
             "--hidden", "64", "--vocab", "1000", "--context", "4096", "--engram-vocab", "50")

    def test_what_it_writes_can_be_run_and_repeats(self):
        with tempfile.TemporaryDirectory() as folder:
            one, two = folder + "/one", folder + "/two"
            out, _ = run("make-checkpoint", one, *self.SMALL, "--threads", "1")
            self.assertIn("tensors", out)
            run("make-checkpoint", two, *self.SMALL, "--threads", "2")
            self.assertEqual(sorted(os.listdir(one)), sorted(os.listdir(two)))
            for name in os.listdir(one):
                with open(f"{one}/{name}", "rb") as a, open(f"{two}/{name}", "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
            _, err = run("run", "Hello", "--model", one, "--max-tokens", "3", "--seed", "1")
            self.assertIn("3 output tokens", err)
            _, err = run("make-checkpoint", one, *self.SMALL, expect=1)
            self.assertIn("holds a checkpoint already", err)

    def test_what_does_not_fit_is_refused_before_anything_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, message in [(("--layers", "3"), "4 to 1024 expected, 3 found"),
                                     (("--hidden", "100"), "hidden_size: a multiple of 32"),
                                     (("--vocab", "100"), "275 to 16843027 ids expected, 100 found"),
                                     (("--engram-vocab", "4000000000"), "GiB needed, ")]:
                _, err = run("make-checkpoint", folder + "/new", *options, expect=1)
                self.assertIn(message, err)
                self.assertFalse(os.path.exists(folder + "/new/config.json"))


class Logits(unittest.TestCase):
    def logits(self, tokens, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logits.npy")
            run("logits", *RANDOM, "--tokens", ",".join(map(str, tokens)), "--out", path, *more)
            return read_npy(path)

    def test_double_accumulation_equals_the_reference(self):
        for case in ("len003", "len024_even"):
            with open(f"{CASES}/{case}/case.json", encoding="utf-8") as file:
                tokens = json.load(file)["tokens"]
            shape, found = self.logits(tokens, "--accumulate", "double", "--chunk", "5")
            expected_shape, expected = read_npy(f"{CASES}/{case}/logits.npy")
            self.assertEqual(shape, expected_shape)
            self.assertLessEqual(max(abs(a - b) for a, b in zip(found, expected)), 1e-5)

    def test_chunks_do_not_change_a_bit(self):
        tokens = [0] + [(7 * i) % 480 + 3 for i in range(90)]
        whole = self.logits(tokens)
        self.assertEqual(whole[0], (91, 512))
        for chunk in ("1", "7", "64"):
            self.assertEqual(self.logits(tokens, "--chunk", chunk)[1].tobytes(), whole[1].tobytes())

    def test_the_instruction_set_does_not_change_a_bit(self):
        tokens = [i * 37 % 500 for i in range(60)]
        best = self.logits(tokens)
        self.assertEqual(self.logits(tokens, "--isa", "scalar")[1].tobytes(), best[1].tobytes())
        # The refusal lists what the machine has: each of them gives the same bits too.
        refusal = run("logits", *RANDOM, "--tokens", "1", "--out", os.devnull, "--isa", "mmx", expect=1)[1]
        for isa in ("avx2", "avx512", "neon"):
            if isa in refusal:
                self.assertEqual(self.logits(tokens, "--isa", isa)[1].tobytes(), best[1].tobytes())

    def test_experts_that_take_turns_in_memory_do_not_change_a_bit(self):
        tokens = [i * 37 % 500 for i in range(40)]
        refusal = run("logits", "--tokens", ",".join(map(str, tokens)), "--out", os.devnull,
                      "--memory", "1MiB", expect=1)[1]
        least = re.search(r"--memory (\d+MiB) would fit", refusal)[1]
        self.assertRegex(refusal, r"routed experts .* at a time")
        self.assertEqual(self.logits(tokens, "--memory", least)[1].tobytes(),
                         self.logits(tokens)[1].tobytes())

    def test_the_routing_trace_names_the_experts_of_every_token_and_layer(self):
        tokens = [i * 37 % 500 for i in range(9)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            recorded = self.logits(tokens, "--chunk", "4", "--routing-trace", path)
            self.assertEqual(recorded[1].tobytes(), self.logits(tokens)[1].tobytes())
            with open(path, encoding="ascii") as file:
                lines = [[int(word) for word in line.split()] for line in file]
        self.assertEqual(sorted((line[0], line[1]) for line in lines),
                         [(position, layer) for position in range(9) for layer in range(10)])
        for line in lines:
            self.assertEqual(len(set(line[2:])), 3)
            self.assertTrue(all(0 <= expert < 12 for expert in line[2:]))
        self.assertIn("/nowhere/x", run("logits", "--tokens", "1", "--out", os.devnull,
                                        "--routing-trace", "/nowhere/x", expect=1)[1])

    def test_neither_a_profile_nor_pinned_threads_change_a_bit(self):
        tokens = [i * 41 % 500 for i in range(40)]
        plain = self.logits(tokens)[1].tobytes()
        self.assertEqual(self.logits(tokens, "--profile")[1].tobytes(), plain)
        for pin in ("on", "off"):
            for threads in ("1", "2", "5"):
                self.assertEqual(self.logits(tokens, "--pin", pin, "--threads", threads)[1].tobytes(), plain)
        self.assertIn("auto, on or off expected, maybe found",
                      run("logits", "--tokens", "1", "--out", os.devnull, "--pin", "maybe", expect=1)[1])

    def test_bad_input_is_named(self):
        self.assertIn("token ids 0 to 511 expected, 512 found",
                      run("logits", *RANDOM, "--tokens", "1,512", "--out", os.devnull, expect=1)[1])
        self.assertIn("at most 4096 tokens expected, 4097 found",
                      run("logits", *RANDOM, "--tokens", ",".join(["5"] * 4097), "--out", os.devnull, expect=1)[1])
        self.assertIn("/nowhere/x.npy", run("logits", "--tokens", "1", "--out", "/nowhere/x.npy", expect=1)[1])


class Inspect(unittest.TestCase):
    def test_prints_totals_and_plan(self):
        out, _ = run("inspect", "models/tiny-random")
        for text in ("1328", "4362743 bytes", "KV pages", "budget", "decoder from layer 6"):
            self.assertIn(text, out)
        # Without given rates it measures them.
        for rate in (r"read from memory +/ [\d.]+ GB/s", r"GFLOP +/ [\d.]+ GFLOP/s", r"[\d.]+ tok/s, limited by"):
            self.assertRegex(out, rate)

    RATES = ("--memory-gb-s", "40", "--compute-gflop-s", "400", "--disk-gb-s", "1.5", "--disk-reads-s", "60000")

    def test_predicts_speed_from_given_rates_and_names_the_limit(self):
        out, _ = run("inspect", "models/tiny-random", *self.RATES)
        again, _ = run("inspect", *RANDOM, *self.RATES)
        self.assertEqual(out.split("what goes where")[1], again.split("what goes where")[1])
        self.assertIn("the token at position 4095", out)  # 8192 asked, the context holds 4096
        self.assertRegex(out, r"reads of Engram rows +/ 60000 /s")
        weak = run("inspect", *self.RATES[:2], "--compute-gflop-s", "0.001", *self.RATES[4:])[0]
        self.assertIn("limited by products", weak)
        slow = run("inspect", *self.RATES[2:], "--memory-gb-s", "0.001", "--prompt-tokens", "100")[0]
        self.assertIn("the token at position 99", slow)
        self.assertIn("limited by memory", slow)
        times = [float(t) for t in re.findall(r"([\d.]+) ms\n", slow)]
        memory, products, experts, rows = times[:4]
        rate = float(re.search(r"([\d.]+) tok/s", slow)[1])
        self.assertAlmostEqual(rate, 1e3 / (max(memory, products) + experts + rows), delta=0.06)

    def test_the_plan_is_that_of_the_options_given(self):
        self.assertIn("  snapshots  ", run("inspect")[0])
        self.assertNotIn("  snapshots  ", run("inspect", "--no-prefix-cache")[0])

    def test_a_plan_that_does_not_fit_is_shown_with_advice(self):
        out, _ = run("inspect", "--memory", "64MiB")
        self.assertIn("--memory", out)
        self.assertIn("would fit", out)

    def test_a_folder_that_is_no_checkpoint_is_named(self):
        self.assertIn("tests/program", run("inspect", "tests/program", expect=1)[1])


class Doctor(unittest.TestCase):
    def test_measures_and_advises_in_text_and_json(self):
        out, _ = run("doctor", "--disk-seconds", "0.05")
        for text in ("memory read", "GFLOP/s", "fork and join", "1 MiB reads", "could be"):
            self.assertIn(text, out)
        found = json.loads(run("doctor", "--json", "--disk-seconds", "0.05", "--threads", "1")[0])
        self.assertEqual(found["measured"]["threads"], 1)
        self.assertGreater(found["measured"]["read_bytes_per_s"], 1e8)
        self.assertGreater(found["disk"]["bytes_per_s"], 0)
        for finding in found["findings"]:
            self.assertTrue(finding["what"] and finding["advice"])

    def test_a_folder_that_is_no_checkpoint_is_named(self):
        self.assertIn("tests/program", run("doctor", "tests/program", expect=1)[1])


class Run(unittest.TestCase):
    def test_streams_an_answer_and_closes_with_its_figures(self):
        out, err = run("run", "Hello", *RANDOM, "--max-tokens", "12", "--seed", "5")
        self.assertTrue(out.strip())
        self.assertRegex(err, r"\[\d+ prompt tokens, 12 output tokens, TTFT [\d.]+ s, [\d.]+ tok/s\]")
        self.assertEqual(run("run", "Hello", *RANDOM, "--max-tokens", "12", "--seed", "5")[0], out)

    def test_a_profile_adds_up(self):
        _, err = run("run", "Hello", *RANDOM, "--max-tokens", "9", "--seed", "5", "--profile")
        # The prompt is one step; each of the other eight tokens is one.
        self.assertRegex(err, r"1 prefill steps, \d+ rows, [\d.]+ ms a step")
        decode = err[err.index("8 decode steps, 8 rows"):]
        whole = float(re.search(r"rows, ([\d.]+) ms a step", decode)[1])
        by_op, by_layer = decode.split("  layer ", 1)
        rows = re.compile(r"^  (.{18}) *([\d.]+) +([\d.]+) +([\d.]+)%", re.M)
        for table in (by_op, by_layer):
            self.assertAlmostEqual(sum(float(row[3]) for row in rows.finditer(table)), whole, delta=0.02)
        calls = {row[1].strip(): float(row[2]) for row in rows.finditer(by_op)}
        self.assertEqual(calls["attention"], 10)  # one a layer
        self.assertEqual(calls["shared expert"], 10)
        self.assertNotIn("profile", run("run", "Hello", "--max-tokens", "2", "--seed", "5")[1])

    def test_thinking_and_values_are_checked(self):
        self.assertIn("off, low, high, max or 1 to 100 expected, much found",
                      run("run", "Hello", "--thinking", "much", expect=1)[1])
        self.assertIn("temperature", run("run", "Hello", "--temperature", "-1", expect=1)[1])

    def test_memory_that_does_not_suffice_is_refused_before_loading(self):
        self.assertIn("would fit", run("run", "Hello", "--memory", "64MiB", expect=1)[1])


class Serve(unittest.TestCase):
    def test_a_public_address_needs_keys(self):
        self.assertIn("0.0.0.0", run("serve", "--host", "0.0.0.0", "--port", "0", expect=1)[1])

    def test_version_and_help(self):
        self.assertRegex(run("--version")[0], r"^\d+\.\d+\.\d+")
        self.assertIn("serve", run("--help")[0])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
