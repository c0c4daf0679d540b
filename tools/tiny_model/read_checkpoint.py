"""A checkpoint in the released layout -> weights by the names of parameters.py.

Rounding the values again gives the same codes, so a Model with quantised rounding computes with
exactly what the files hold.
"""
import json
import pathlib
import struct

import numpy as np
import torch

from tools.tiny_model import config, parameters, quantize

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F8_E4M3": torch.uint8,
         "F8_E8M0": torch.uint8, "I8": torch.uint8}
FP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def read_shard(path):
    """-> {name: tensor of codes}."""
    data = np.fromfile(path, np.uint8)
    size, = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8:8 + size].tobytes())
    header.pop("__metadata__", None)
    codes = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        part = torch.from_numpy(data[begin:end].copy())
        codes[name] = part.view(TYPES[entry["dtype"]]).view(entry["shape"])
    return codes


def value(codes, name, storage):
    """The float32 values of one stored tensor."""
    code = codes[name]
    if storage in ("f32", "bf16"):
        return code.float()
    scale = torch.exp2(codes[name.removesuffix("weight") + "scale"].float() - 127)
    if storage == "fp4":
        pairs = torch.stack((FP4_VALUES[(code & 15).long()], FP4_VALUES[(code >> 4).long()]), -1)
        return pairs.flatten(-2) * scale.repeat_interleave(32, -1)
    values = quantize.E4M3_VALUES[code.long()]
    if storage == "fp8":
        return values * quantize.spread_tiles(scale, code.shape)
    return values * scale.repeat_interleave(32, -1)


def read(folder):
    """-> text config, {name: float32 values}."""
    folder, text = pathlib.Path(folder), config.read(folder)
    codes = {}
    for shard in sorted(folder.glob("model-*.safetensors")):
        codes |= read_shard(shard)
    kinds = parameters.backbone_kinds(text)
    if text["num_nextn_predict_layers"]:
        kinds |= parameters.draft_kinds(text)
    weights = {}
    for name, kind in kinds.items():
        if ".experts." in name:
            each = [value(codes, name.replace(".experts.", f".experts.{e}.") + ".weight",
                          kind.storage) for e in range(kind.shape[0])]
            weights[name] = torch.stack(each)
        else:
            weights[name] = value(codes, name, kind.storage)
    return text, weights
