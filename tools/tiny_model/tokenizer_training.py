#!/usr/bin/env python3
"""Trains the tokenizer of the small checkpoint: byte-level BPE behind the release's split patterns.

    python3 -m tools.tiny_model.tokenizer_training OUT/tokenizer.json [--size 4096] [--seed 1]
        [--text TEXT_JSONL]

ids 0..2 begin, end, padding; 3..258 the bytes; then merges; the last 16 the other markers under
the names they have in the release. Digits never merge: numbers are spelled digit by digit.
"""
import argparse
import json
import pathlib
import random
import re

from tools.tiny_model import dialogues, running_text, words

FIRST_MARKERS = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
LAST_MARKERS = ["<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜",
                "<｜latest_reminder｜>", "<｜System｜>", "<｜deepseek_image｜>"]
LAST_IDS = 16  # the rest are placeholders, the first of them the draft stages' noise token
SPLITS = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
          r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
          r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def byte_alphabet():
    """byte -> the character it is written as (GPT-2's table)."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in keep]
    return {byte: chr(byte) for byte in keep} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def training_text(seed, passages):
    """Lines of what the model will read, without digits."""
    rng = random.Random(seed)
    lines = []
    for word in words.single_tokens():  # often enough to become one token in either spelling
        lines += [f" {word}", word] * 400
    for _ in range(12000):
        document = dialogues.draw(rng, "train", length=700)
        for message in document.conversation["messages"]:
            lines += [*message["content"], message.get("reasoning", "")]
            lines += [call["arguments"] for call in message.get("tool_calls", [])]
        for tool in document.conversation.get("tools", []):
            lines.append(json.dumps(tool, ensure_ascii=False))
    lines += passages
    lines += [FORMAT_TEXT] * 200
    return [re.sub(r"\d", "", line) for line in lines]


# The wording of the chat format (docs/chat_format.md), so that its words are whole tokens.
FORMAT_TEXT = """Reasoning Effort: (range -, the higher the value, the more thorough the reasoning)
## Tools You have access to a set of tools to help answer the user's question. You can invoke tools by writing a block like the following:
invoke name= parameter string="true" false calls tool_result TOOL_NAME PARAMETER_NAME PARAMETER_VALUE
String parameters should be specified as is and set For all other types (numbers, booleans, arrays, objects), pass the value in JSON format
If thinking_mode is enabled (triggered by), you MUST output your complete reasoning inside BEFORE any tool calls or final response.
Otherwise, output directly after with tool calls or final response. Available Tool Schemas
You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
## Response Format: You MUST strictly adhere to the following schema to reply: {"type": "object", "properties": {"description": "integer", "required": []}}"""


def train(size, seed, passages):
    """-> merges as pairs of entries, in rank order."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    merges = size - len(FIRST_MARKERS) - 256 - LAST_IDS
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, show_progress=False,
                                  initial_alphabet=list(byte_alphabet().values()))
    tokenizer.train_from_iterator(training_text(seed, passages), trainer)
    found = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in found]


def tokenizer_json(merges, size):
    split = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
             for pattern in SPLITS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    alphabet = byte_alphabet()
    entries = [alphabet[byte] for byte in range(256)] + [left + right for left, right in merges]
    vocab = {entry: len(FIRST_MARKERS) + i for i, entry in enumerate(entries)}
    placeholders = [f"<|place_holder_{i}|>" for i in range(LAST_IDS - len(LAST_MARKERS))]
    markers = list(enumerate(FIRST_MARKERS))
    markers += list(enumerate(LAST_MARKERS + placeholders, size - LAST_IDS))
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text not in ("<think>", "</think>")}
             for i, text in markers]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": vocab, "merges": [f"{left} {right}" for left, right in merges]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": []},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, byte_level]},
            "post_processor": None, "decoder": byte_level, "model": model}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=4096, help="ids, markers included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=pathlib.Path, help="passages that running_text.py wrote")
    arguments = parser.parse_args()
    passages = running_text.load(arguments.text, "train") if arguments.text else []
    merges = train(arguments.size, arguments.seed, passages)
    expected = arguments.size - len(FIRST_MARKERS) - 256 - LAST_IDS
    if len(merges) < expected:  # the text ran out of pairs: a smaller vocabulary, a multiple of 64
        arguments.size = (arguments.size - (expected - len(merges))) // 64 * 64
        merges = merges[:arguments.size - len(FIRST_MARKERS) - 256 - LAST_IDS]
    entries = {left + right for left, right in merges}
    alphabet = byte_alphabet()
    for word in words.single_tokens():
        for text in (word, " " + word):
            if "".join(alphabet[byte] for byte in text.encode()) not in entries:
                raise ValueError(f"{text!r} did not become one token; the model could not recall it in one step")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(tokenizer_json(merges, arguments.size), ensure_ascii=False) + "\n",
                             encoding="utf-8")
    print(f"{arguments.out}: {arguments.size} ids, {len(merges)} merges")


if __name__ == "__main__":
    main()
