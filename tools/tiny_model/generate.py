#!/usr/bin/env python3
"""Writes training rows: documents in the chat format, packed one behind the other.

    python3 -m tools.tiny_model.generate TEXT_CHAT TOKENIZER OUT --length 256 --rows 4000 --seed 1
        [--mix early|main|late] [--split train|held] [--text TEXT_JSONL]

TEXT_CHAT is the engine's own encoder (the test program text_chat), so that what is trained is what
is served. OUT/tokens.npy uint16 [rows, length]; weights.npy uint8 [rows, length], tenths of the
loss of predicting that token (1 in prompts, 10 in answers, 40 for what is recalled and for the
arguments of tool calls); kinds.npy
uint8 [rows, length], the position in KINDS. With --text (what running_text.py wrote) one document
in a hundred is a passage, without a marker of the chat but begin and end. Equal arguments give
equal files.
"""
import argparse
import itertools
import json
import pathlib
import random
import subprocess
import tempfile

import numpy as np

from tools.tiny_model import dialogues, running_text
from tools.tiny_model.document import Document, conversation, message

KINDS = [*dialogues.KINDS, "text"]
TEXT_SHARE = 0.01  # of the documents
PROMPT, ANSWER, VALUE = 1, 10, 40
BATCH = 256  # documents for one exchange with the encoder
WAITING = 128  # documents to choose from when a row has little room left


class Encoder:
    """The engine's encoder behind a pipe, which starts anew for every batch. Both sides read one
    private copy: a tokenizer trained again meanwhile must not give ids of two vocabularies."""

    def __init__(self, program, tokenizer):
        text = pathlib.Path(tokenizer).read_bytes()
        self.copy = tempfile.NamedTemporaryFile(suffix=".json")  # lives as long as the encoder
        self.copy.write(text)
        self.copy.flush()
        data = json.loads(text)
        self.vocab = data["model"]["vocab"]
        self.markers = {token["content"]: token["id"] for token in data["added_tokens"]}
        self.command = [str(program), self.copy.name]

    def encode(self, conversations):
        lines = "\n".join(json.dumps(c, ensure_ascii=False) for c in conversations) + "\n"
        done = subprocess.run(self.command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        for answer in answers:
            if "error" in answer:
                raise ValueError(answer["error"])
        return [answer["ids"] for answer in answers]

    def word_ids(self, words):
        """Ids of the words that are single tokens, in both spellings."""
        from tools.tiny_model.tokenizer_training import byte_alphabet
        alphabet = byte_alphabet()
        spelled = ["".join(alphabet[byte] for byte in text.encode()) for word in words
                   for text in (word, " " + word)]
        return {self.vocab[entry] for entry in spelled if entry in self.vocab}


def weights_of(ids, value_ids, encoder):
    assistant, end = encoder.markers["<｜Assistant｜>"], encoder.markers["<｜end▁of▁sentence｜>"]
    weights, answering, previous = [], False, None
    for token in ids:
        if answering and previous != assistant:
            weights.append(VALUE if token in value_ids else ANSWER)
        else:  # the marker behind <Assistant> is the prompt's choice
            weights.append(PROMPT)
        answering = token == assistant or (answering and token != end)
        previous = token
    return weights


def draw(rng, arguments, passages):
    if passages and rng.random() < TEXT_SHARE:
        return Document("text", conversation([message("user", rng.choice(passages))]))
    return dialogues.draw(rng, arguments.split, arguments.length, arguments.mix)


def running_ids(ids, encoder):
    """A question's text alone: begin, <User>, text, <Assistant>, </think> -> begin, text, end."""
    return [ids[0], *ids[2:-2], encoder.markers["<｜end▁of▁sentence｜>"]]


def documents(rng, encoder, arguments):
    """-> ids, weights, kind of one document after the other, without end."""
    passages = running_text.load(arguments.text, arguments.split) if arguments.text else []
    while True:
        drawn = [draw(rng, arguments, passages) for _ in range(BATCH)]
        for document, ids in zip(drawn, encoder.encode([d.conversation for d in drawn])):
            if document.kind == "text":
                ids = running_ids(ids, encoder)
                yield ids, [PROMPT] + [ANSWER] * (len(ids) - 1), KINDS.index("text")
                continue
            weighs = document.kind == "recall" or document.kind.startswith("tools_")
            values = encoder.word_ids(document.values) if weighs else set()
            ids = ids[:-2]  # without the header of a next answer
            yield ids, weights_of(ids, values, encoder), KINDS.index(document.kind)


def pack(stream, rows, length):
    """The oldest waiting document that still fits goes next, so that answers, which stand at the
    end, are not cut off. Where none fits, the beginning of the shortest fills the row. What is
    longer than a row is left out."""
    tokens = np.zeros((rows, length), np.uint16)
    weights, kinds = np.zeros((rows, length), np.uint8), np.zeros((rows, length), np.uint8)
    fitting = (document for document in stream if len(document[0]) <= length)
    waiting = list(itertools.islice(fitting, WAITING))
    for row in range(rows):
        at = 0
        while at < length:
            room = length - at
            chosen = next((document for document in waiting if len(document[0]) <= room), None)
            chosen = chosen or min(waiting, key=lambda document: len(document[0]))
            waiting.remove(chosen)
            waiting.append(next(fitting))
            ids, loss, kind = chosen
            end = min(at + len(ids), length)
            tokens[row, at:end], weights[row, at:end], kinds[row, at:end] = ids[:room], loss[:room], kind
            at = end
    return tokens, weights, kinds


def write(arguments):
    """Writes the three arrays of rows. -> share of the tokens per kind."""
    rng = random.Random(f"{arguments.split} {arguments.mix} {arguments.length} {arguments.seed}")
    encoder = Encoder(arguments.text_chat, arguments.tokenizer)
    arrays = pack(documents(rng, encoder, arguments), arguments.rows, arguments.length)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, array in zip(("tokens", "weights", "kinds"), arrays):
        np.save(arguments.out / f"{name}.npy", array)
    return np.bincount(arrays[2].ravel(), minlength=len(KINDS)) / arrays[2].size


def write_held(text_chat, tokenizer, out, length, rows):
    """Held-out rows to measure a checkpoint on, the same at every call."""
    write(argparse.Namespace(text_chat=text_chat, tokenizer=tokenizer, out=out, length=length,
                             rows=rows, seed=1, mix="main", split="held", text=None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text_chat", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--length", type=int, required=True, help="tokens of a row")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--mix", choices=dialogues.MIXES, default="main")
    parser.add_argument("--split", choices=("train", "held"), default="train")
    parser.add_argument("--text", type=pathlib.Path, help="passages that running_text.py wrote")
    arguments = parser.parse_args()
    share = write(arguments)
    print(arguments.out, ", ".join(f"{kind} {part:.0%}" for kind, part in zip(KINDS, share)))


if __name__ == "__main__":
    main()
