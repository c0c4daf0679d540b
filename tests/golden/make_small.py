#!/usr/bin/env python3
"""Writes tests/golden/data/small.safetensors with the reference implementation.

usage: make_small.py ORACLE_FOLDER CHECKPOINT OUT

CHECKPOINT is what ORACLE_FOLDER/make_checkpoint.py small writes. For prompts of 70 and 160 tokens
(several slot blocks, a candidate pool near its cut): the prompt, a checksum and the 20 best logits of
every position, all logits of the last one, and 6 greedy tokens with their logits' checksums.
"""
import sys

import numpy as np

oracle_folder, checkpoint, out = sys.argv[1:4]
sys.path.insert(0, oracle_folder)
import oracle
import st_io
from model import Model

GREEDY = 6


def checksum(rows):
    rows = rows.astype(np.float64)
    return np.stack([rows.sum(-1), np.square(rows).sum(-1)], -1).astype(np.float32)


model = Model(checkpoint)
arrays = {}
for count in (70, 160):
    rng = np.random.default_rng(count)
    tokens = [int(t) for t in rng.integers(3, 4000, count)]
    state, logits, _ = oracle.prefill(model, tokens)
    best = np.argsort(-logits, -1, kind="stable")[:, :20]
    steps = oracle.greedy(model, state, logits[-1], GREEDY, draft=False)
    name = f"len{count:03d}."
    arrays |= {
        name + "tokens": np.array(tokens, np.int32),
        name + "checksum": checksum(logits),
        name + "top20_ids": best.astype(np.int32),
        name + "top20_logits": np.take_along_axis(logits, best, -1).astype(np.float32),
        name + "last_logits": logits[-1].astype(np.float32),
        name + "greedy": np.array([step["token"] for step in steps], np.int32),
        name + "greedy_checksum": checksum(np.stack([step["logits"] for step in steps])),
    }
st_io.write_arrays(out, {k: np.ascontiguousarray(v) for k, v in arrays.items()})
