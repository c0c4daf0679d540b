#!/usr/bin/env python3
"""Writes weights as a checkpoint in the released layout: FP8/FP4 codes, ue8m0 scales, shards.

    python3 -m tools.tiny_model.export STATE.pt TOKENIZER.json OUT
"""
import argparse
import json
import pathlib
import shutil
import struct

import torch

from tools.tiny_model import config, parameters, quantize as q


def stored(name, value, storage):
    """-> [(name, dtype tag, tensor of codes)]."""
    value = value.detach().float()
    if storage == "f32":
        return [(name, "F32", value)]
    if storage == "bf16":
        return [(name, "BF16", value.to(torch.bfloat16))]
    scale_name = name.removesuffix("weight") + "scale"
    if storage == "fp8":
        scale = q.tile_scales(value)
        return [(name, "F8_E4M3", q.e4m3_codes(value / q.spread_tiles(scale, value.shape))),
                (scale_name, "F8_E8M0", q.scale_codes(scale))]
    if storage == "table":
        scale = q.group_scales(value, 448)
        return [(name, "F8_E4M3", q.e4m3_codes(value / scale.repeat_interleave(32, -1))),
                (scale_name, "F8_E8M0", q.scale_codes(scale))]
    scale = q.group_scales(value, 6)
    return [(name, "I8", q.e2m1_codes(value / scale.repeat_interleave(32, -1))),
            (scale_name, "F8_E8M0", q.scale_codes(scale))]


def tensors(weights, kinds):
    result = []
    for name, kind in kinds.items():
        if ".experts." in name:
            for expert, value in enumerate(weights[name]):
                single = name.replace(".experts.", f".experts.{expert}.") + ".weight"
                result += stored(single, value, kind.storage)
        else:
            result += stored(name, weights[name], kind.storage)
    return result


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def write_shard(path, entries):
    """One safetensors file -> bytes of its tensors."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tag, tensor in entries:
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": tag, "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, tensor in entries:
            file.write(raw(tensor))
    return offset


def shard_of(name):
    """Engram tables apart, as in the release; the rest together (it is small)."""
    return 1 if ".engram." in name else 0


def write_checkpoint(weights, text, tokenizer, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    kinds = parameters.backbone_kinds(text)
    if text["num_nextn_predict_layers"]:
        kinds |= parameters.draft_kinds(text)
    shards = [[], []]
    for entry in tensors(weights, kinds):
        shards[shard_of(entry[0])].append(entry)
    total, places = 0, {}
    for number, entries in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        total += write_shard(out / file, entries)
        places |= {name: file for name, _, _ in entries}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    for name, content in (("model.safetensors.index.json", index),
                          ("config.json", config.file_config(text))):
        (out / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    shutil.copyfile(tokenizer, out / "tokenizer.json")
    return total


def without_draft(text):
    """The configuration of a backbone whose draft stages are not trained yet."""
    return dict(text, num_nextn_predict_layers=0,
                compress_ratios=text["compress_ratios"][:text["num_hidden_layers"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    state = torch.load(arguments.state)
    text = state["text"] if "mtp.0.attn_norm.weight" in state["weights"] else (
        without_draft(state["text"]))
    total = write_checkpoint(state["weights"], text, arguments.tokenizer, arguments.out)
    print(f"{total} bytes of tensors in {arguments.out}")


if __name__ == "__main__":
    main()
