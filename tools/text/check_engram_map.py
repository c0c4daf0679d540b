#!/usr/bin/env python3
"""Checks our Engram token map of the V4.1 vocabulary against the release's figures.

    python3 tools/text/check_engram_map.py TEXT_ENGRAM_MAP_PROGRAM [--json]

99,092 classes and the SHA-256 of the map as little-endian int32 (model.md section 4.1). When they
differ, the first tokens are printed whose class is not that of the reference library's normalisers.
"""
import argparse
import hashlib
import json
import re
import struct
import subprocess
import sys

import python_packages

VOCABULARY = python_packages.ROOT / "build/vocabulary/tokenizer.json"
CLASSES = 99092
SHA256 = "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481"


def reference_map():
    """The map by the reference library: its normalisers and its decoder."""
    from tokenizers import Tokenizer, normalizers
    steps = [normalizers.NFKC(), normalizers.NFD(), normalizers.StripAccents(),
             normalizers.Lowercase()]
    tokenizer = Tokenizer.from_file(str(VOCABULARY))
    spellings = {t["id"]: t["content"] for t in json.loads(VOCABULARY.read_text())["added_tokens"]}
    classes, out = {}, []
    for token in range(tokenizer.get_vocab_size()):
        text = spellings.get(token) or tokenizer.decode([token], skip_special_tokens=False)
        if "\ufffd" in text:
            key = tokenizer.id_to_token(token)
        else:
            key = text
            for step in steps:
                key = step.normalize_str(key)
            key = re.sub(r"[ \t\r\n]+", " ", key)
            key = (key if key == " " else key.strip()) or text
        out.append((classes.setdefault(key, len(classes)), text))
    return out


def main():
    python_packages.reenter()
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--json", action="store_true", help="print one line for make claims")
    options = parser.parse_args()
    data = subprocess.run([options.program, VOCABULARY], stdout=subprocess.PIPE, check=True).stdout
    ours = struct.unpack(f"<{len(data) // 4}i", data)
    digest = hashlib.sha256(data).hexdigest()
    holds = len(set(ours)) == CLASSES and digest == SHA256
    if options.json:
        print(json.dumps({"name": "engram_classes", "value": len(set(ours)), "unit": "classes",
                          "goal": f"{CLASSES}, SHA-256 {SHA256[:8]}", "holds": holds}))
        return 0 if holds else 1
    print(f"{len(ours)} tokens, {len(set(ours))} classes, SHA-256 {digest}")
    if not holds:
        wrong = [(i, text, mine, theirs) for i, (mine, (theirs, text))
                 in enumerate(zip(ours, reference_map())) if mine != theirs]
        for token, text, mine, theirs in wrong[:20]:
            print(f"token {token} {text!r}: class {mine}, reference {theirs}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
