#!/usr/bin/env python3
"""Trains the backbone from rows that generate.py wrote.

    python3 -m tools.tiny_model.train DATA RUN --minutes 100 [--workers 2]
    python3 -m tools.tiny_model.train DATA RUN --minutes 30 --go-on-from CHECKPOINT --rows T768

Each worker is a process of one thread with its own rows; gradients are averaged through shared
memory and each worker steps its share of the parameters. (Two threads in one process meet a
thousand times a step, which a busy machine makes many times slower.) RUN keeps state.pt (written
every four minutes and at the end; a second call goes on from it) and log.jsonl. `--minutes` is
the training time over all calls. With --go-on-from a RUN without a state starts with the weights of
a checkpoint in the released layout; --rows trains on that one folder of rows with selected rows
and FP8/FP4 throughout, as the last stage of a whole run does, at GO_ON_RATE of the rates.
"""
import argparse
import json
import os
import pathlib
import time

import numpy as np
import torch

from tools.tiny_model import (config, engram_hash, model as model_module, optimiser, parameters,
                              read_checkpoint)

MUON_RATE, ADAM_RATE, LAST_SHARE, WARM_STEPS, DECAY = 0.02, 3e-3, 0.05, 60, 0.01
WORKER_TOKENS = 3072
SAVE_SECONDS, REPORT_STEPS, TEST_STEPS = 240, 20, 100
# Share of the time at which a stage begins, and its rows.
STAGES = [(0.0, "T128"), (0.10, "T256"), (0.25, "T512"), (0.45, "T1024"), (0.85, "T768")]
SPARSE_FROM, QUANTISED_FROM, FALL_FROM = 0.5, 0.7, 0.6
GO_ON_RATE = 0.5  # the weights are good already: a full step would unlearn
INDEX_LOSS_EVERY, INDEX_LOSS_FROM = 4, 0.15  # steps, while attention is dense; share of the time
ANSWER, RECALLED = 10, 40  # loss weights the data gives to answers and to recalled values


class Rows:
    """One folder of rows, read in a fixed shuffled order without end."""

    def __init__(self, folder):
        self.tokens, self.weights, self.kinds = (
            np.load(folder / f"{name}.npy", mmap_mode="r")
            for name in ("tokens", "weights", "kinds"))
        self.order = np.random.default_rng(7).permutation(len(self.tokens))

    def batch(self, at, rows):
        take = self.order[(at + np.arange(rows)) % len(self.order)]
        return (torch.from_numpy(self.tokens[take].astype(np.int64)),
                torch.from_numpy(self.weights[take].astype(np.float32)), self.kinds[take])


def weighted_loss(model, tokens, weights, engram_rows):
    """-> mean loss of the weighted predictions, Selection."""
    hidden, _, selection = model.hidden(tokens, engram_rows)
    hidden = hidden.view(*tokens.shape, -1)[:, :-1].flatten(0, 1)
    weights, targets = weights[:, 1:].flatten(), tokens[:, 1:].flatten()
    kept = weights.nonzero()[:, 0]
    losses = torch.nn.functional.cross_entropy(model.logits(hidden[kept]), targets[kept],
                                               reduction="none")
    return (losses * weights[kept]).sum() / weights.sum(), selection


def first_seen(tokens):
    """tokens [B, T] -> distance of each token to the first equal one of its row."""
    same = tokens[:, :, None] == tokens[:, None]
    return np.arange(tokens.shape[1]) - same.argmax(-1)


@torch.no_grad()
def held_scores(model, hasher, rows, count):
    """Share of answers predicted right by kind, and of recalled values by distance of the fact."""
    right, parts = [], rows.batch(0, count)
    step = max(1, WORKER_TOKENS // parts[0].shape[1])
    for at in range(0, count, step):
        tokens = parts[0][at:at + step]
        hidden, _, _ = model.hidden(tokens, hasher.rows(tokens))
        right.append(model.logits(hidden).argmax(-1).view(tokens.shape)[:, :-1] == tokens[:, 1:])
    right = torch.cat(right).numpy()
    weights, kinds = parts[1].numpy()[:, 1:], parts[2][:, 1:]
    scores = {f"kind_{kind}": mean(right, (kinds == kind) & (weights >= ANSWER))
              for kind in np.unique(kinds)}
    distance = first_seen(parts[0].numpy())[:, 1:]
    for low, high in ((1, 60), (60, 125), (125, 250), (250, 500), (500, 1000), (1000, 2000)):
        mask = (weights >= RECALLED) & (distance >= low) & (distance < high)
        scores[f"recall_{high}"] = mean(right, mask)
    return {name: score for name, score in scores.items() if score}


def mean(right, mask):
    return [round(float(right[mask].mean()), 3), int(mask.sum())] if mask.any() else None


class Shared:
    """What all workers see: weights, moments, one gradient set per worker."""

    def __init__(self, state, workers):
        self.weights = {n: v.clone().share_memory_() for n, v in state["weights"].items()}
        self.learned = [n for n in self.weights if "gate.bias" not in n]
        self.first, self.second = optimiser.moments(self.weights, self.learned)
        for own, saved in ((self.first, state.get("first", {})),
                           (self.second, state.get("second", {}))):
            for name, value in own.items():
                value.share_memory_()
                if name in saved:
                    value.copy_(saved[name])
        self.grads = [{n: torch.zeros_like(self.weights[n]).share_memory_() for n in self.learned}
                      for _ in range(workers)]
        self.loads = torch.zeros(workers, 64, 64).share_memory_()
        self.figures = torch.zeros(workers, 4, dtype=torch.float64).share_memory_()


def first_state(data, seed, **changes):
    texts = engram_hash.token_texts(data / "tokenizer.json")
    text = config.with_engram(config.text_config(len(texts), **changes), texts)
    weights = parameters.draw(parameters.backbone_kinds(text), seed)
    parameters.stabilise_streams(weights, text)
    frequencies = model_module.rope_frequencies(text["qk_rope_head_dim"], text["rope_theta"])
    parameters.look_back(weights, text, frequencies)
    return {"text": text, "weights": weights, "step": 0, "elapsed": 0.0, "tokens": 0, "read": {}}


def state_of(checkpoint, data, changes):
    """A first state with the backbone of a checkpoint; `changes` replaces fields of its config
    that no weight depends on."""
    text, weights = read_checkpoint.read(checkpoint)
    tokenizers = [engram_hash.token_texts(folder / "tokenizer.json") for folder in (checkpoint, data)]
    if tokenizers[0] != tokenizers[1]:
        raise SystemExit(f"{data}/tokenizer.json is not the tokenizer of {checkpoint}")
    kinds = parameters.backbone_kinds(text)
    return {"text": text | changes, "weights": {name: weights[name] for name in kinds},
            "step": 0, "elapsed": 0.0, "tokens": 0, "read": {}}


class Worker:
    def __init__(self, rank, arguments, state, shared, barrier):
        self.rank, self.workers, self.barrier = rank, arguments.workers, barrier
        self.rows = arguments.rows
        self.data, self.run, self.seconds = arguments.data, arguments.run, arguments.minutes * 60
        self.shared, self.state, self.stop_after = shared, state, arguments.stop_after
        self.hasher = engram_hash.Hasher(state["text"],
                                         engram_hash.token_texts(self.data / "tokenizer.json"))
        self.local = {n: v.detach().requires_grad_(n in shared.learned)
                      for n, v in shared.weights.items()}
        self.model = model_module.Model(state["text"], self.local)
        owned = optimiser.shares(shared.weights, shared.learned, self.workers)[rank]
        self.optimiser = optimiser.Optimiser(shared.weights, owned, shared.first, shared.second)

    def share(self):
        return self.state["elapsed"] / self.seconds

    def stage(self):
        """The folder of rows that is read now."""
        return self.rows or [stage for begin, stage in STAGES if begin <= self.share()
                             and (self.data / "train" / stage).exists()][-1]

    def rates(self):
        share = self.share()
        fall = 1 - (1 - LAST_SHARE) * max(0.0, (share - FALL_FROM) / (1 - FALL_FROM))
        warm = min(1, (self.state["step"] + 1) / WARM_STEPS)
        return warm * fall * (GO_ON_RATE if self.rows else 1)

    def backward(self, rows, name):
        state, model = self.state, self.model
        count = WORKER_TOKENS // rows.tokens.shape[1]
        at = state["read"].get(name, 0) + self.rank * count
        tokens, weights, _ = rows.batch(at, count)
        state["read"][name] = state["read"].get(name, 0) + self.workers * count
        state["tokens"] += self.workers * tokens.numel()
        share = 1.0 if self.rows else self.share()
        model.sparse = share >= SPARSE_FROM
        model.rounding.quantised = share >= QUANTISED_FROM
        model.index_loss = model.sparse or (share >= INDEX_LOSS_FROM
                                            and state["step"] % INDEX_LOSS_EVERY == 0)
        loss, selection = weighted_loss(model, tokens, weights, self.hasher.rows(tokens))
        index_loss = sum(selection.losses) if selection.losses else None
        (loss if index_loss is None else loss + index_loss).backward()
        figures = self.shared.figures[self.rank]
        figures[0] = loss.item()
        figures[1] = index_loss.item() if index_loss is not None else float("nan")

    def publish_gradients(self):
        for name, grad in self.shared.grads[self.rank].items():
            own = self.local[name].grad
            if own is None:
                grad.zero_()
            else:
                grad.copy_(own)
                self.local[name].grad = None
        for index, load in enumerate(self.model.loads.values()):
            self.shared.loads[self.rank, index, :len(load)] = load

    def update(self):
        """Averages the owned gradients, clips by the norm over all, steps."""
        grads, square = {}, 0.0
        for name in (*self.optimiser.matrices, *self.optimiser.others):
            grads[name] = sum(part[name] for part in self.shared.grads) / self.workers
            square += grads[name].square().sum().item()
        self.shared.figures[self.rank, 2] = square
        self.barrier.wait()
        norm = self.shared.figures[:, 2].sum().sqrt().item()
        for grad in grads.values():
            grad.mul_(min(1.0, 1.0 / (norm + 1e-6)))
        rate = self.rates()
        self.optimiser.step(grads, self.state["step"] + 1, MUON_RATE * rate, ADAM_RATE * rate,
                            DECAY)
        if self.rank == 0:
            self.balance()
        return norm

    def balance(self, step=0.002):
        """Moves each expert's bias towards equal loads."""
        loads = self.shared.loads.sum(0)
        for index, prefix in enumerate(self.model.loads):
            bias = self.shared.weights[prefix + "gate.bias"]
            load = loads[index, :len(bias)]
            bias.add_(step * torch.sign(load.mean() - load))

    def save(self):
        new = self.run / "state.new"
        torch.save(dict(self.state, weights=self.shared.weights, first=self.shared.first,
                        second=self.shared.second), new)
        os.replace(new, self.run / "state.pt")  # a cut leaves the old state whole

    def report(self, **figures):
        line = json.dumps({"step": self.state["step"],
                           "minutes": round(self.state["elapsed"] / 60, 2),
                           "tokens": self.state["tokens"], **figures})
        with open(self.run / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(line + "\n")

    def go(self):
        opened, saved, history = {}, time.monotonic(), []
        while self.state["elapsed"] < self.seconds and self.state["step"] != self.stop_after:
            start, tokens = time.monotonic(), self.state["tokens"]
            name = self.stage()
            if name not in opened:
                opened[name] = (Rows(self.data / "train" / name), Rows(self.data / "held" / name))
            self.backward(opened[name][0], name)
            self.publish_gradients()
            self.barrier.wait()
            norm = self.update()
            self.state["step"] += 1
            self.shared.figures[0, 3] += 0 if self.rank else time.monotonic() - start
            self.barrier.wait()
            seconds = self.shared.figures[0, 3].item()  # one clock, so that stages change together
            history.append((*self.shared.figures[:, 0].tolist(), norm,
                            (self.state["tokens"] - tokens) / (seconds - self.state["elapsed"]),
                            self.shared.figures[0, 1].item()))
            self.state["elapsed"] = seconds
            if self.rank == 0:
                history = self.watch(history, name, opened)
                if time.monotonic() - saved > SAVE_SECONDS:
                    self.save()
                    saved = time.monotonic()
        self.barrier.wait()
        if self.rank == 0:
            self.save()

    def watch(self, history, name, opened):
        if self.state["step"] % REPORT_STEPS == 0:
            table = np.array(history)
            self.report(rows=name, loss=round(float(table[:, :self.workers].mean()), 4),
                        norm=round(float(np.median(table[:, self.workers])), 3),
                        tokens_s=round(float(np.median(table[:, self.workers + 1]))),
                        index_loss=round(float(np.nanmean(table[:, -1])), 4)
                        if not np.isnan(table[:, -1]).all() else None)
            history = []
        if self.state["step"] % TEST_STEPS == 0:
            count = max(8, 12288 // opened[name][1].tokens.shape[1])
            self.report(rows=name, held=held_scores(self.model, self.hasher, opened[name][1],
                                                    count))
        return history


def work(rank, arguments, state, shared, barrier):
    torch.set_num_threads(1)
    if arguments.fuse:
        model_module.fuse()
    worker = Worker(rank, arguments, state, shared, barrier)
    shared.figures[0, 3] = state["elapsed"]
    barrier.wait()
    worker.go()


def begin(arguments):
    changes = {"sliding_window": arguments.window} if arguments.window else {}
    if arguments.go_on_from:
        return state_of(arguments.go_on_from, arguments.data, changes)
    return first_state(arguments.data, arguments.seed, **changes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, required=True, help="time over all calls")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-after", type=int, default=-1, help="steps over all calls")
    parser.add_argument("--no-fuse", dest="fuse", action="store_false",
                        help="without compiled parts (short runs)")
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--go-on-from", type=pathlib.Path, metavar="CHECKPOINT",
                        help="weights to start with, in the released layout")
    parser.add_argument("--rows", help="folder of rows for the whole run, instead of the stages")
    parser.add_argument("--window", type=int, help="sliding_window, instead of the checkpoint's")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.run.mkdir(parents=True, exist_ok=True)
    path = arguments.run / "state.pt"
    state = torch.load(path) if path.exists() else begin(arguments)
    shared = Shared(state, arguments.workers)
    context = torch.multiprocessing.get_context("fork")
    barrier = context.Barrier(arguments.workers)
    state = {k: v for k, v in state.items() if k not in ("weights", "first", "second")}
    processes = [context.Process(target=work, args=(r, arguments, state, shared, barrier))
                 for r in range(arguments.workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(max(abs(process.exitcode) for process in processes))


if __name__ == "__main__":
    main()
