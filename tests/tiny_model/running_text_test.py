#!/usr/bin/env python3
"""Running text for the small checkpoint: what is taken from the package, and how it becomes rows.

    python3 tests/tiny_model/running_text_test.py TEXT_CHAT
"""
import json
import pathlib
import random
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.tiny_model import generate, running_text  # noqa: E402

TEXT_CHAT = None
TOKENIZER = ROOT / "models/tiny-random/tokenizer.json"
PAGE = """<html><head><title>not this</title></head><body><h1>nor this</h1>
<header><h2>First words</h2><p>Whereas one,</p><p>and <i>two</i>,</p></header>
<article data-number="7"><h2>Article 7</h2><p>All are
   equal.</p></article>
<article data-number="8"><h2>empty</h2></article></body></html>"""


class Package(unittest.TestCase):
    def test_passages_are_the_paragraphs_of_the_preamble_and_of_each_article(self):
        self.assertEqual(running_text.passages_of(PAGE),
                         [(0, "Whereas one,\nand two,"), (7, "All are equal.")])

    def test_another_package_is_refused(self):
        with self.assertRaisesRegex(ValueError, "SHA-256"):
            running_text.read_package(b"something else")


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "text.jsonl"
        rows = [{"language": language, "passage": number, "text": f"{words} {number}."}
                for language, words in (("en", "Everyone has the right"), ("ko", "모든 사람은 권리를 가진다"))
                for number in range(40)]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def test_a_passage_is_held_out_in_both_languages_or_in_none(self):
        train, held = (running_text.load(self.path, split) for split in ("train", "held"))
        numbers = [{text.split()[-1] for text in texts} for texts in (train, held)]
        self.assertEqual((len(train) + len(held), len(numbers[0] | numbers[1])), (80, 40))
        self.assertFalse(numbers[0] & numbers[1])
        self.assertEqual(len(held), 2 * len(numbers[1]))
        self.assertTrue(held)

    def test_a_passage_is_trained_on_as_begin_text_and_end(self):
        encoder = generate.Encoder(TEXT_CHAT, TOKENIZER)
        arguments = types.SimpleNamespace(text=self.path, split="train", length=200, mix="main")
        stream = generate.documents(random.Random(1), encoder, arguments)
        ids, weights, kind = next(d for d in stream if generate.KINDS[d[2]] == "text")
        entries = {i: entry for entry, i in encoder.vocab.items()}
        from tools.tiny_model.tokenizer_training import byte_alphabet
        byte_of = {spelled: byte for byte, spelled in byte_alphabet().items()}
        text = bytes(byte_of[c] for i in ids[1:-1] for c in entries[i]).decode()
        self.assertIn(text, running_text.load(self.path, "train"))
        self.assertEqual((ids[0], ids[-1]), (encoder.markers["<｜begin▁of▁sentence｜>"],
                                             encoder.markers["<｜end▁of▁sentence｜>"]))
        self.assertEqual(weights, [generate.PROMPT] + [generate.ANSWER] * (len(ids) - 1))


if __name__ == "__main__":
    TEXT_CHAT = sys.argv.pop(1)
    unittest.main()
