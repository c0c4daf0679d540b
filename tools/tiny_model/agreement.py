#!/usr/bin/env python3
"""Teacher-forced agreement of the engine with the PyTorch model on held-out rows.

    python3 -m tools.tiny_model.agreement PROGRAM TEXT_CHAT CHECKPOINT [--tokens 2048] [--double]

PROGRAM is the `yeoul` program, TEXT_CHAT its encoder for generate.py, CHECKPOINT a folder that
export.py wrote. Both sides read the same files and round at the same points, FP8, FP4 and BF16; the
engine sums in float32 as it does when it serves (with --double in double, as the PyTorch side does: then
only the last bits of elementary functions differ). Prints the row of `make claims`.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch

from tools.tiny_model import engram_hash, generate, model as model_module, read_checkpoint

GOAL, ROW = 0.99, 512  # tokens of a held-out row


def engine_logits(program, checkpoint, tokens, accumulate):
    """-> float32 [T, V] through `yeoul logits`."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.npy"
        subprocess.run([program, "logits", "--model", checkpoint, "--accumulate", accumulate,
                        "--threads", "1", "--tokens", ",".join(map(str, tokens)), "--out", out],
                       check=True, stderr=subprocess.DEVNULL)
        return np.load(out)


@torch.no_grad()
def model_logits(model, hasher, tokens):
    batch = torch.from_numpy(tokens.astype(np.int64))[None]
    return model.logits(model.hidden(batch, hasher.rows(batch))[0]).numpy()


def opened(checkpoint, exact):
    """-> Model with the rounding of the engine (without `exact` only where there is FP8 or FP4), Hasher."""
    text, weights = read_checkpoint.read(checkpoint)
    model = model_module.Model(text, weights)
    model.sparse = model.rounding.quantised = True
    model.rounding.exact = exact
    texts = engram_hash.token_texts(pathlib.Path(checkpoint) / "tokenizer.json")
    return model, engram_hash.Hasher(text, texts)


def compare(program, checkpoint, rows, accumulate):
    """rows: arrays of token ids -> positions, equal first choices, largest logit difference."""
    model, hasher = opened(checkpoint, exact=True)
    positions, equal, largest = 0, 0, 0.0
    for row in rows:
        engine = engine_logits(program, checkpoint, row, accumulate)
        own = model_logits(model, hasher, row)
        positions += len(row)
        equal += int((engine.argmax(-1) == own.argmax(-1)).sum())
        largest = max(largest, float(np.abs(engine - own).max()))
    return positions, equal, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("text_chat")
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--double", dest="accumulate", action="store_const", const="double", default="float")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generate.write_held(arguments.text_chat, arguments.checkpoint / "tokenizer.json",
                            pathlib.Path(folder), ROW, -(-arguments.tokens // ROW))
        rows = np.load(pathlib.Path(folder) / "tokens.npy")
    positions, equal, largest = compare(arguments.program, arguments.checkpoint, rows,
                                        arguments.accumulate)
    share = equal / positions
    print(json.dumps({"name": "tiny_agreement", "value": round(share, 5), "unit": "share",
                      "goal": f">= {GOAL}", "holds": share >= GOAL, "positions": positions,
                      "largest_logit_difference": largest}))


if __name__ == "__main__":
    main()
