#!/usr/bin/env python3
"""Compares our tokenizer token for token with the reference library (PyPI tokenizers).

    python3 tools/text/compare_tokenizer.py TEXT_ENCODE_PROGRAM [--megabytes 21] [--seed 1] [--json]

Every document is encoded twice: as plain text (the reference: a copy of the vocabulary without its
added tokens) and with markers. Exit code 1 at the first kind of text with a mismatch; the first
mismatches are printed.
"""
import argparse
import json
import struct
import subprocess
import sys

import python_packages

VOCABULARY = python_packages.ROOT / "build/vocabulary/tokenizer.json"


def reference(markers):
    from tokenizers import Tokenizer
    document = json.loads(VOCABULARY.read_text())
    if not markers:
        document["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(document, ensure_ascii=False))


def our_ids(program, mode, documents):
    data = b"".join(struct.pack("=I", len(d)) + d for d in (t.encode() for t in documents))
    out = subprocess.run([program, VOCABULARY, mode], input=data, stdout=subprocess.PIPE,
                         check=True).stdout
    answers, at = [], 0
    for _ in documents:
        (count,) = struct.unpack_from("=I", out, at)
        answers.append(list(struct.unpack_from(f"={count}i", out, at + 4)))
        at += 4 + 4 * count
    return answers


def show(kind, mode, text, ours, theirs):
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b),
                 min(len(ours), len(theirs)))
    print(f"MISMATCH in {kind} ({mode}) at token {first}: ours {ours[first:first + 8]}, "
          f"reference {theirs[first:first + 8]}; document begins {text[:60]!r}")


def main():
    python_packages.reenter()
    import corpus
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--megabytes", type=int, default=21)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one line for make claims")
    options = parser.parse_args()
    kinds = corpus.build(VOCABULARY, options.megabytes, options.seed)
    sizes = {kind: sum(len(d.encode()) for d in documents) for kind, documents in kinds}
    wrong = dict.fromkeys(sizes, 0)
    for mode in ("text", "markers"):
        library = reference(mode == "markers")
        ours = iter(our_ids(options.program, mode, [d for _, ds in kinds for d in ds]))
        for kind, documents in kinds:
            for start in range(0, len(documents), 256):
                batch = documents[start:start + 256]
                encodings = library.encode_batch_fast(batch, add_special_tokens=False)
                for text, mine, encoding in zip(batch, ours, encodings):
                    if mine == encoding.ids:
                        continue
                    wrong[kind] += 1
                    if sum(wrong.values()) <= 10:
                        show(kind, mode, text, mine, encoding.ids)
    total, mismatches = sum(sizes.values()), sum(wrong.values())
    if not options.json:
        for kind, documents in kinds:
            print(f"{kind:30} {sizes[kind] / 1e6:7.2f} MB  {len(documents):5} documents  "
                  f"{wrong[kind]} mismatches")
    holds = mismatches == 0 and total >= options.megabytes * 1_000_000
    if options.json:
        print(json.dumps({"name": "tokenizer_mismatches", "value": mismatches,
                          "unit": f"documents, {total / 1e6:.1f} MB compared",
                          "goal": "0 over >= 20 MB", "holds": holds and total >= 20_000_000}))
    else:
        print(f"{total / 1e6:.2f} MB in all, {mismatches} mismatches")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
