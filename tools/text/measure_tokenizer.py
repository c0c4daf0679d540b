#!/usr/bin/env python3
"""Puts 6 MB of Korean, English and code together and measures our tokenizer on it.

    python3 tools/text/measure_tokenizer.py TOKENIZER_SPEED_PROGRAM
"""
import random
import subprocess
import sys
import tempfile

import python_packages

VOCABULARY = python_packages.ROOT / "build/vocabulary/tokenizer.json"
KINDS = {"korean sentences", "korean words", "english and other languages", "code, whole files",
         "code, line by line"}


def main():
    python_packages.reenter()
    import corpus
    documents = [d for kind, documents in corpus.build(VOCABULARY, 10, seed=3) if kind in KINDS
                 for d in documents]
    random.Random(3).shuffle(documents)
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write("\n".join(documents).encode())
        file.flush()
        return subprocess.run([sys.argv[1], VOCABULARY, file.name]).returncode


if __name__ == "__main__":
    sys.exit(main())
