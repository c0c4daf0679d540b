#!/usr/bin/env python3
"""Trains the DSpark stages on a finished backbone, which stays as it is.

    python3 -m tools.tiny_model.drafter DATA RUN --minutes 25

Reads RUN/state.pt, writes RUN/draft.pt (resumable, every two minutes) and RUN/complete.pt, the
weights of backbone and stages together, which export.py takes. The stages learn the backbone's
own distribution (not the text) after every answer position of the rows; the confidence head
learns whether the draft's token is the backbone's, and is scaled at the end so that it says this
best on held-out rows. accepted_length.py measures the result.

Shapes: A anchors (blocks drafted at once), S block size, W window, D head_dim, d hidden.
"""
import argparse
import dataclasses
import json
import math
import os
import pathlib
import time

import numpy as np
import torch

from tools.tiny_model import (engram_hash, model as model_module, optimiser, parameters,
                              read_checkpoint, train)

MUON_RATE, ADAM_RATE, DECAY, WARM_STEPS, FALL_FROM = 0.02, 3e-3, 0.01, 30, 0.5
ANCHORS = 256             # blocks of one step
POOL_ROWS = 32            # rows whose backbone states are held, a new row replacing the oldest
LATER = 0.85              # loss weight of each block position relative to the one before it
SAVE_SECONDS, REPORT_STEPS = 120, 20


def context_rows(model, taps):
    """taps [B, T, 3d] of the backbone -> per stage the rows [B, T, D] its blocks attend to."""
    main = model.normalise(model.quantised_linear(taps, "mtp.0.main_proj"), "mtp.0.main_norm")
    table = model_module.rope_table(torch.arange(taps.shape[1]), model.window_frequencies)
    return [model.window_rows(main, f"mtp.{stage}.attn.", table)
            for stage in range(model.text["num_nextn_predict_layers"])]


def windows(rows, row_of, positions, width):
    """rows [B, T, D] -> [A, W, D] before each anchor's position; which of them exist [A, W]."""
    slots = positions[:, None] - torch.arange(width, 0, -1)
    return rows[row_of[:, None], slots.clamp(min=0)], slots >= 0


def block_attention(model, heads, keys, mask, sink):
    """heads [A, S, H, D], keys [A, W+S, D], mask [A, W+S] -> [A, S, H, D]."""
    anchors, size, count, width = heads.shape
    flat = heads.reshape(anchors, size * count, width)
    mask = mask[:, None].expand(-1, size, -1)
    if model.rounding.exact:
        window = model.text["sliding_window"]
        # the release's ring order (position mod window) decides nothing while the window is 64
        slots = torch.arange(window + size).expand(mask.shape)
        return model.attend_exactly(flat, keys, mask, slots, sink, heads.shape)[0]
    z = (flat * width**-0.5) @ keys.transpose(1, 2)
    bias = torch.where(mask, 0.0, -math.inf)[:, :, None]
    weights = model_module.attention_weights(z.view(anchors, size, count, -1) + bias, sink)
    return (weights.reshape(anchors, size * count, -1) @ keys).view(heads.shape)


def block_hidden(model, last, positions, contexts, exists):
    """last [A] decided tokens at positions [A], contexts per stage [A, W, D] -> z [A, S, d]."""
    t = model.text
    size, width = t["dspark_block_size"], t["head_dim"]
    tokens = torch.full((len(last), size), t["dspark_noise_token_id"])
    tokens[:, 0] = last
    embedded = torch.nn.functional.embedding(tokens.flatten(), model.weight("embed.weight"))
    x, pre = model.start(embedded)
    places = (positions[:, None] + torch.arange(size)).flatten()
    table = model_module.rope_table(places, model.window_frequencies)
    mask = torch.cat((exists, torch.ones(len(last), size, dtype=torch.bool)), 1)

    def attend(u, stage):
        p = f"mtp.{stage}.attn."
        _, heads = model.queries(u[None], p, table)
        own = model.window_rows(u[None], p, table).view(len(last), size, width)
        o = block_attention(model, heads.view(len(last), size, -1, width),
                            torch.cat((contexts[stage], own), 1), mask,
                            model.weights[p + "attn_sink"])
        o = model.rotated(o.view(1, len(places), -1, width),
                          [table[0][:, None], -table[1][:, None]])
        return model.output(o, p)[0]

    for stage in range(t["num_nextn_predict_layers"]):
        x, pre = model.block(x, pre, f"mtp.{stage}.", lambda u, stage=stage: attend(u, stage),
                             t["dspark_num_experts_per_tok"])
    if model.rounding.exact:
        z = model.bf16(model_module.collapse(x.double(), pre.double()).float())
    else:
        z = model_module.collapse(x, pre)
    return z.view(len(last), size, -1)


def last_stage(model):
    return f"mtp.{model.text['num_nextn_predict_layers'] - 1}."


def draft_logits(model, z, before):
    """z [..., d], before [...] the token in front of each -> logits [..., V], confidence [...]."""
    p = last_stage(model)
    code = torch.nn.functional.embedding(before, model.weight(p + "markov_head.embed.weight"))
    logits = (model.logits(model.normalise(z, p + "norm"))
              + model.product(code, model.weight(p + "markov_head.head.weight")))
    both = torch.cat((z.detach(), code.detach()), -1)
    return logits, model.product(both, model.weight(p + "confidence_head.proj.weight"))[..., 0]


@torch.no_grad()
def draft(model, last, positions, contexts, exists):
    """Greedy blocks -> tokens [A, S], confidence logits [A, S], logits [A, S, V]."""
    z = block_hidden(model, last, positions, contexts, exists)
    before, tokens, confidences, all_logits = last, [], [], []
    for place in range(z.shape[1]):
        logits, confidence = draft_logits(model, z[:, place], before)
        before = logits.argmax(-1)
        tokens.append(before)
        confidences.append(confidence)
        all_logits.append(logits)
    return torch.stack(tokens, 1), torch.stack(confidences, 1), torch.stack(all_logits, 1)


class Pool:
    """Rows with the backbone's states over them; each call to refresh replaces the oldest."""

    def __init__(self, model, hasher, rows, at=0):
        self.model, self.hasher, self.rows, self.read = model, hasher, rows, at
        self.tokens = self.weights = self.kinds = self.hidden = self.taps = None
        self.refresh(POOL_ROWS)

    @torch.no_grad()
    def refresh(self, count):
        tokens, weights, kinds = self.rows.batch(self.read, count)
        self.read += count
        hidden, taps, _ = self.model.hidden(tokens, self.hasher.rows(tokens))
        new = (tokens, weights, torch.from_numpy(kinds.astype(np.int64)),
               hidden.view(*tokens.shape, -1), taps.view(*tokens.shape, -1))
        if self.tokens is not None:
            old = (self.tokens, self.weights, self.kinds, self.hidden, self.taps)
            new = [torch.cat((o[count:], n)) for o, n in zip(old, new)]
        self.tokens, self.weights, self.kinds, self.hidden, self.taps = new

    def anchors(self, count, generator):
        """-> rows [A], positions [A] whose next token is one of an answer. A kind of document is
        met as often as the root of its share: most answer tokens are recall's, the lists and
        objects where drafting gains most are few."""
        size = self.model.text["dspark_block_size"]
        usable = self.weights[:, 2:self.tokens.shape[1] - size + 1] >= train.ANSWER
        row_of, at = usable.nonzero().unbind(1)
        kinds = self.kinds[row_of, at + 2]
        share = torch.bincount(kinds).float().rsqrt()[kinds]
        pick = torch.multinomial(share, count, replacement=True, generator=generator)
        return row_of[pick], at[pick] + 1


@dataclasses.dataclass
class Drafted:
    """Blocks along the text of the rows, [A, S] each but the logits [A, S, V]."""
    logits: torch.Tensor      # of the draft
    wanted: torch.Tensor      # of the backbone
    confidence: torch.Tensor  # logits that the drafted token is the backbone's
    right: torch.Tensor       # 1 where it is
    share: torch.Tensor       # of the loss; a block counts as far as the answer goes


def drafted(model, pool, row_of, positions):
    """Teacher-forced blocks behind the tokens at `positions` of the pool's rows."""
    t = model.text
    size, width = t["dspark_block_size"], t["sliding_window"]
    contexts, exists = [], None
    for rows in context_rows(model, pool.taps):
        context, exists = windows(rows, row_of, positions, width)
        contexts.append(context)
    places = positions[:, None] + torch.arange(size)
    before = pool.tokens[row_of[:, None], places]
    z = block_hidden(model, before[:, 0], positions, contexts, exists)
    logits, confidence = draft_logits(model, z, before)
    with torch.no_grad():
        wanted = model.logits(pool.hidden[row_of[:, None], places])
        answer = pool.weights[row_of[:, None], places + 1] >= train.ANSWER
        share = answer.int().cumprod(1) * LATER**torch.arange(size)
        share = share / share.sum()
        right = (logits.argmax(-1) == wanted.argmax(-1)).float()
    return Drafted(logits, wanted, confidence, right, share)


def losses(model, pool, row_of, positions):
    """-> loss of the draft's distribution, of the confidence, share of draft tokens right."""
    d = drafted(model, pool, row_of, positions)
    each = torch.nn.functional.cross_entropy(d.logits.flatten(0, 1),
                                             torch.softmax(d.wanted, -1).flatten(0, 1),
                                             reduction="none").view(d.share.shape)
    belief = torch.nn.functional.binary_cross_entropy_with_logits(d.confidence, d.right,
                                                                  reduction="none")
    return (each * d.share).sum(), (belief * d.share).sum(), (d.right * d.share).sum()


@torch.no_grad()
def confidence_scale(model, pool, generator):
    """Factor of the confidence logits under which they say held-out tokens best: a temperature
    that is folded into the head, so that nothing outside the checkpoint is needed."""
    d = drafted(model, pool, *pool.anchors(4 * ANCHORS, generator))
    def loss(scale):
        each = torch.nn.functional.binary_cross_entropy_with_logits(d.confidence * scale, d.right,
                                                                    reduction="none")
        return (each * d.share).sum().item()
    return min((2.0**(step / 16) for step in range(-48, 49)), key=loss)


def draft_of(checkpoint, text):
    """A first state with the stages of a checkpoint, whose backbone this one grew from."""
    kinds = parameters.draft_kinds(text)
    _, weights = read_checkpoint.read(checkpoint)
    return {"weights": {name: weights[name] for name in kinds}, "step": 0, "elapsed": 0.0, "read": 0}


def first_draft(text, backbone, seed):
    weights = parameters.draw(parameters.draft_kinds(text), seed)
    parameters.stabilise_streams(weights, text)
    weights[f"mtp.{text['num_nextn_predict_layers'] - 1}.norm.weight"].copy_(
        backbone["norm.weight"])
    return {"weights": weights, "step": 0, "elapsed": 0.0, "read": 0}


class Trainer:
    def __init__(self, backbone, draft_state, hasher, rows, seconds):
        self.state, self.seconds = draft_state, seconds
        self.learned = [n for n in draft_state["weights"] if "gate.bias" not in n]
        for name in self.learned:
            draft_state["weights"][name].requires_grad_(True)
        self.model = model_module.Model(backbone["text"],
                                        backbone["weights"] | draft_state["weights"])
        self.model.sparse = self.model.rounding.quantised = True
        weights = draft_state["weights"]
        first, second = optimiser.moments(weights, self.learned)
        draft_state.setdefault("first", first)
        draft_state.setdefault("second", second)
        self.optimiser = optimiser.Optimiser(weights, self.learned, draft_state["first"],
                                             draft_state["second"])
        self.pool = Pool(self.model, hasher, rows, draft_state["read"])
        self.generator = torch.Generator().manual_seed(draft_state["step"])

    def step(self):
        state, weights = self.state, self.state["weights"]
        if state["step"] % 2:
            self.pool.refresh(max(1, POOL_ROWS // 16))
        self.model.loads.clear()
        loss, belief, right = losses(self.model, self.pool,
                                     *self.pool.anchors(ANCHORS, self.generator))
        (loss + belief).backward()
        grads = {n: weights[n].grad if weights[n].grad is not None
                 else torch.zeros_like(weights[n]) for n in self.learned}
        norm = math.sqrt(sum(g.square().sum().item() for g in grads.values()))
        for grad in grads.values():
            grad.mul_(min(1.0, 1.0 / (norm + 1e-6)))
        share = state["elapsed"] / self.seconds
        fall = 1 - (1 - train.LAST_SHARE) * max(0.0, (share - FALL_FROM) / (1 - FALL_FROM))
        rate = min(1, (state["step"] + 1) / WARM_STEPS) * fall
        self.optimiser.step(grads, state["step"] + 1, MUON_RATE * rate, ADAM_RATE * rate, DECAY)
        with torch.no_grad():
            for prefix, load in self.model.loads.items():
                if prefix.startswith("mtp."):
                    load = load.float()
                    weights[prefix + "gate.bias"].add_(0.002 * torch.sign(load.mean() - load))
        for name in self.learned:
            weights[name].grad = None
        state["step"] += 1
        state["read"] = self.pool.read
        return loss.item(), belief.item(), right.item()

    def go(self, run, stop_after):
        saved, figures = time.monotonic(), []
        while self.state["elapsed"] < self.seconds and self.state["step"] != stop_after:
            start = time.monotonic()
            figures.append(self.step())
            self.state["elapsed"] += time.monotonic() - start
            if self.state["step"] % REPORT_STEPS == 0:
                loss, belief, right = np.mean(figures, 0)
                report(run, step=self.state["step"], minutes=round(self.state["elapsed"] / 60, 2),
                       loss=round(loss, 4), confidence_loss=round(belief, 4),
                       right=round(right, 3))
                figures = []
            if time.monotonic() - saved > SAVE_SECONDS:
                save(run / "draft.pt", self.state)
                saved = time.monotonic()
        save(run / "draft.pt", self.state)


def save(path, state):
    torch.save({k: {n: v.detach() for n, v in value.items()} if isinstance(value, dict)
                else value for k, value in state.items()}, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def report(run, **figures):
    with open(run / "draft.jsonl", "a", encoding="utf-8") as log:
        log.write(json.dumps(figures) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, required=True, help="time over all calls")
    parser.add_argument("--rows", default="T512", help="folder of rows to learn from")
    parser.add_argument("--stop-after", type=int, default=-1, help="steps over all calls")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-fuse", dest="fuse", action="store_false",
                        help="without compiled parts (short runs)")
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--go-on-from", type=pathlib.Path, metavar="CHECKPOINT",
                        help="stages to start with, in the released layout")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.fuse:
        model_module.fuse()
    backbone = torch.load(arguments.run / "state.pt")
    path = arguments.run / "draft.pt"
    if path.exists():
        state = torch.load(path)
    elif arguments.go_on_from:
        state = draft_of(arguments.go_on_from, backbone["text"])
    else:
        state = first_draft(backbone["text"], backbone["weights"], arguments.seed)
    hasher = engram_hash.Hasher(backbone["text"],
                                engram_hash.token_texts(arguments.data / "tokenizer.json"))
    rows = train.Rows(arguments.data / "train" / arguments.rows)
    trainer = Trainer(backbone, state, hasher, rows, arguments.minutes * 60)
    trainer.go(arguments.run, arguments.stop_after)
    held = Pool(trainer.model, hasher, train.Rows(arguments.data / "held" / arguments.rows))
    scale = confidence_scale(trainer.model, held, trainer.generator)
    report(arguments.run, step=state["step"], confidence_scale=round(scale, 3))
    weights = {n: v.detach() for n, v in trainer.model.weights.items()}
    weights[last_stage(trainer.model) + "confidence_head.proj.weight"].mul_(scale)
    torch.save({"text": backbone["text"], "weights": weights}, arguments.run / "complete.pt")


if __name__ == "__main__":
    main()
