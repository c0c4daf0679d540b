#!/usr/bin/env python3
"""Mean accepted length of the draft stages on held-out questions, bonus token included.

    python3 -m tools.tiny_model.accepted_length TEXT_CHAT CHECKPOINT [--questions N]

The backbone answers greedily; a pass takes the last decided token and a drafted block and gains
the drafted tokens that equal the backbone's, and the one after. Prints one line with the figures
of every kind and the rows of `make claims`.
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np
import torch

from tools.tiny_model import agreement, drafter, generate, train

BOS, EOS, ROW = 0, 1, 256
CLAIMS = {"tiny_dspark_dialogue": (("dialogue_en", "dialogue_ko"), 2.2),
          "tiny_dspark_structured": (("count", "json"), 3.5)}


def questions(rows, count, longest=192):
    """Documents of held-out rows cut where the answer begins -> [(kind, tokens)]."""
    found = []
    for row, weights, kinds in zip(rows.tokens, rows.weights, rows.kinds):
        starts = [*np.flatnonzero(row == BOS), len(row)]
        for start, end in zip(starts, starts[1:]):
            answer = np.flatnonzero(weights[start:end] >= train.ANSWER)
            if len(answer) and 1 < answer[0] <= longest:
                found.append((int(kinds[start]), row[start:start + answer[0]].astype(np.int64)))
    order = np.random.default_rng(3).permutation(len(found))[:count]
    return [found[i] for i in order]


@torch.no_grad()
def written(model, hasher, prompts, new_tokens):
    """The backbone's greedy answers -> tokens [P, T], [(begin, end)] of each answer."""
    begin = [len(p) for p in prompts]
    tokens = torch.full((len(prompts), max(begin) + new_tokens), model.text["engram_pad_token_id"])
    for row, prompt in enumerate(prompts):
        tokens[row, :len(prompt)] = torch.from_numpy(prompt)
    end, open_rows = list(begin), list(range(len(prompts)))
    for _ in range(new_tokens):
        if not open_rows:
            break
        part = tokens[open_rows, :max(end[r] for r in open_rows)]
        hidden = model.hidden(part, hasher.rows(part))[0].view(*part.shape, -1)
        at = torch.tensor([end[r] - 1 for r in open_rows])
        new = model.logits(hidden[torch.arange(len(open_rows)), at]).argmax(-1)
        for row, token in zip(list(open_rows), new.tolist()):
            tokens[row, end[row]] = token
            end[row] += 1
            if token == EOS:
                open_rows.remove(row)
    return tokens, list(zip(begin, end))


@torch.no_grad()
def accepted_lengths(model, hasher, tokens, answers):
    """Tokens gained by every pass of the target over its own greedy texts, per row.

    The first token of an answer comes from the prompt's pass. From then on a pass takes the last
    decided token and the draft, and gains the drafted tokens that are right and the one after.
    """
    rows = drafter.context_rows(model, model.hidden(tokens, hasher.rows(tokens))[1]
                        .view(*tokens.shape, -1))
    width, gained = model.text["sliding_window"], [[] for _ in answers]
    at = [begin for begin, _ in answers]
    while True:
        live = [r for r, (_, end) in enumerate(answers) if at[r] < end - 1]
        if not live:
            return gained
        row_of, positions = torch.tensor(live), torch.tensor([at[r] for r in live])
        cut = [drafter.windows(r, row_of, positions, width) for r in rows]
        blocks, _, _ = drafter.draft(model, tokens[row_of, positions], positions,
                             [context for context, _ in cut], cut[0][1])
        for row, block in zip(live, blocks.tolist()):
            truth = tokens[row, at[row] + 1:answers[row][1]].tolist()
            right = 0
            while right < min(len(block), len(truth)) and block[right] == truth[right]:
                right += 1
            gain = right + 1
            if gain <= len(truth):  # a pass that the text's end cuts short says nothing
                gained[row].append(gain)
            at[row] += gain


def measure(model, hasher, rows, count, new_tokens, batch=16):
    """-> {name of kind: tokens gained by each pass} on held-out questions."""
    names, gained = generate.KINDS, {}
    chosen = questions(rows, count)
    for start in range(0, len(chosen), batch):
        part = chosen[start:start + batch]
        tokens, answers = written(model, hasher, [tokens for _, tokens in part], new_tokens)
        for (kind, _), gains in zip(part, accepted_lengths(model, hasher, tokens, answers)):
            gained.setdefault(names[kind], []).extend(gains)
    return gained


def claim_rows(gained):
    for name, (kinds, goal) in CLAIMS.items():
        passes = [gain for kind in kinds for gain in gained.get(kind, [])]
        mean = float(np.mean(passes)) if passes else 0.0
        yield {"name": name, "value": round(mean, 3), "unit": "tokens a pass",
               "goal": f">= {goal}", "holds": mean >= goal, "passes": len(passes)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text_chat", help="the engine's encoder, for generate.py")
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--new-tokens", type=int, default=64, help="longest measured answer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, hasher = agreement.opened(arguments.checkpoint, exact=False)
    with tempfile.TemporaryDirectory() as folder:
        generate.write_held(arguments.text_chat, arguments.checkpoint / "tokenizer.json",
                            pathlib.Path(folder), ROW, 200)
        gained = measure(model, hasher, train.Rows(pathlib.Path(folder)), arguments.questions,
                         arguments.new_tokens)
    print("accepted", json.dumps({kind: [round(float(np.mean(gains)), 2), len(gains)]
                                  for kind, gains in sorted(gained.items()) if gains}))
    for row in claim_rows(gained):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
