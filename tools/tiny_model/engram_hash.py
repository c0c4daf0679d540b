"""Addresses of the Engram tables: token map, primes, multipliers, n-gram hashes.

src/model/engram_hash.cc is the engine's copy of the rules; tests/tiny_model/reference_test.py
holds this one to the reference's logits.
"""
import json
import re
import unicodedata

import numpy as np
import torch

from tools.tiny_model.tokenizer_training import byte_alphabet


def token_texts(tokenizer_path):
    """Per id: (vocabulary string, text it stands for; U+FFFD where bytes are incomplete)."""
    with open(tokenizer_path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    added = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    strings = {i: string for string, i in tokenizer["model"]["vocab"].items()} | added
    to_byte = {character: byte for byte, character in byte_alphabet().items()}
    texts = []
    for i in range(max(strings) + 1):
        string = strings[i]
        text = string if i in added else bytes(map(to_byte.get, string)).decode(errors="replace")
        texts.append((string, text))
    return texts


def normalised(text):
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    text = "".join(c for c in text if unicodedata.category(c)[0] != "M").lower()
    text = re.sub(r"[ \t\r\n]+", " ", text)
    return text if text == " " else text.strip()


def token_map(texts):
    """-> (compressed id per token id, number of compressed ids)."""
    ids = {}
    return [ids.setdefault(string if "\ufffd" in text else normalised(text) or text, len(ids))
            for string, text in texts], len(ids)


def primes(text):
    """[Engram layer][order][head]: ascending primes from engram_vocab_size, none used twice."""
    found, candidate, result = set(), 0, []
    for _ in text["engram_layer_ids"]:
        layer = []
        for _ in range(text["engram_max_ngram_size"] - 1):
            row, candidate = [], text["engram_vocab_size"]
            while len(row) < text["engram_n_heads"]:
                is_prime = all(candidate % d for d in range(2, int(candidate**0.5) + 1))
                if is_prime and candidate not in found:
                    found.add(candidate)
                    row.append(candidate)
                candidate += 1
            layer.append(row)
        result.append(layer)
    return result


class Hasher:
    """Table rows of every position of whole sequences of text."""

    def __init__(self, text, texts):
        mapping, compressed = token_map(texts)
        self.map = torch.tensor(mapping)
        self.order = text["engram_max_ngram_size"]
        bound = max(1, (np.iinfo(np.int64).max // compressed) // 2)
        self.multipliers = [
            [int(v) * 2 + 1 for v in np.random.default_rng(10007 * layer).integers(
                0, bound, self.order, dtype=np.int64)] for layer in text["engram_layer_ids"]]
        self.primes = primes(text)
        self.pad = mapping[text["engram_pad_token_id"]]

    def rows(self, tokens):
        """tokens [B, T] -> one [B, T, columns] per Engram layer, rows of that layer's table."""
        shifted = [self.map[tokens]]
        for _ in range(self.order - 1):
            older = torch.full_like(shifted[-1], self.pad)
            older[:, 1:] = shifted[-1][:, :-1]
            shifted.append(older)
        result = []
        for multipliers, layer in zip(self.multipliers, self.primes):
            code, columns, offset = shifted[0] * multipliers[0], [], 0
            for order, row in enumerate(layer, 1):
                code = code ^ (shifted[order] * multipliers[order])
                for prime in row:
                    columns.append(code % prime + offset)
                    offset += prime
            result.append(torch.stack(columns, -1))
        return result
