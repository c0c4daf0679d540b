"""Every tensor of the model: name, shape, storage kind, first values.

Names are the release's, except that the experts of a layer are one tensor `...ffn.experts.w1`
[experts, out, in]; export.py splits it.
"""
import dataclasses
import math

import torch


@dataclasses.dataclass
class Kind:
    shape: tuple
    storage: str   # f32, bf16, fp8, fp4, table
    deviation: float = 0.0
    mean: float = 0.0


def linear(out, inner, storage, gain=1.0):
    return Kind((out, inner), storage, gain / math.sqrt(inner))


def block_kinds(text, prefix, experts):
    """What backbone layers and draft stages both have."""
    t = text
    d, heads, width, copies = (t["hidden_size"], t["num_attention_heads"], t["head_dim"],
                               t["hc_mult"])
    inner, mixes = t["moe_intermediate_size"], copies * (2 + copies)
    kinds = {}
    for half in ("attn", "ffn"):
        kinds[f"{half}_norm.weight"] = Kind((d,), "bf16", 0, 1)
        kinds[f"hc_{half}_fn"] = linear(mixes, copies * d, "f32", 0.1)
        kinds[f"hc_{half}_base"] = Kind((mixes,), "f32")
        kinds[f"hc_{half}_scale"] = Kind((3,), "f32", 0, 1)
    kinds |= {
        "attn.attn_sink": Kind((heads,), "f32"),
        "attn.wq_a.weight": linear(t["q_lora_rank"], d, "fp8"),
        "attn.q_norm.weight": Kind((t["q_lora_rank"],), "bf16", 0, 1),
        "attn.wq_b.weight": linear(heads * width, t["q_lora_rank"], "fp8"),
        "attn.wkv.weight": linear(width, d, "fp8"),
        "attn.kv_norm.weight": Kind((width,), "bf16", 0, 1),
        "attn.wo_a.weight": linear(t["o_groups"] * t["o_lora_rank"],
                                   heads * width // t["o_groups"], "fp8"),
        "attn.wo_b.weight": linear(d, t["o_groups"] * t["o_lora_rank"], "fp8", 0.5),
        "ffn.gate.weight": linear(experts, d, "bf16", 0.5),
        "ffn.gate.bias": Kind((experts,), "f32"),
        "ffn.gate.bias_vl": Kind((experts,), "f32"),
    }
    for name, out, width_in, gain in (("w1", inner, d, 1), ("w3", inner, d, 1),
                                      ("w2", d, inner, 0.5)):
        kinds[f"ffn.experts.{name}"] = Kind((experts, out, width_in), "fp4",
                                            gain / math.sqrt(width_in))
        kinds[f"ffn.shared_experts.{name}.weight"] = linear(out, width_in, "fp8", gain)
    return {prefix + name: kind for name, kind in kinds.items()}


def backbone_kinds(text):
    t = text
    d, width = t["hidden_size"], t["head_dim"]
    kinds = {"embed.weight": Kind((t["vocab_size"], d), "bf16", 1.0),
             "norm.weight": Kind((d,), "bf16", 0, 1),
             "head.weight": linear(t["vocab_size"], d, "bf16", 0.3)}
    for layer in range(t["num_hidden_layers"]):
        p = f"layers.{layer}."
        kinds |= block_kinds(t, p, t["n_routed_experts"])
        if layer in t["kv_source_layer_ids"]:
            kinds[p + "attn.compressor.norm.weight"] = Kind((width,), "bf16", 0, 1)
            kinds[p + "attn.compressor.wkv.weight"] = linear(width, d, "bf16")
            if t["compress_ratios"][layer] == 2:
                kinds[p + "attn.compressor.wgate.weight"] = linear(width, d, "bf16", 0.5)
            kinds[p + "attn.indexer.wk.weight"] = linear(t["index_head_dim"], width, "bf16")
            kinds[p + "attn.indexer.k_norm.weight"] = Kind((t["index_head_dim"],), "bf16", 0, 1)
        if layer in t["index_source_layer_ids"]:
            kinds[p + "attn.indexer.wq_b.weight"] = linear(
                t["index_n_heads"] * t["index_head_dim"], t["q_lora_rank"], "fp8")
            kinds[p + "attn.indexer.weights_proj.weight"] = linear(t["index_n_heads"], d, "bf16")
        if layer in t["engram_layer_ids"]:
            rows = t["engram_num_embeddings"][t["engram_layer_ids"].index(layer)]
            columns = (t["engram_max_ngram_size"] - 1) * t["engram_n_heads"]
            kinds[p + "engram.embed.weight"] = Kind((rows, t["engram_head_dim"]), "table", 0.3)
            kinds[p + "engram.wkv.weight"] = linear(
                d * (t["hc_mult"] + 1), columns * t["engram_head_dim"], "fp8")
            for side in "qk":
                kinds[p + f"engram.{side}_weight"] = Kind((t["hc_mult"], d), "bf16", 0, 1)
    return kinds


def draft_kinds(text):
    t = text
    d, stages = t["hidden_size"], t["num_nextn_predict_layers"]
    kinds = {}
    for stage in range(stages):
        kinds |= block_kinds(t, f"mtp.{stage}.", t["dspark_n_routed_experts"])
    last, rank = f"mtp.{stages - 1}.", t["dspark_markov_rank"]
    kinds["mtp.0.main_proj.weight"] = linear(d, d * len(t["dspark_target_layer_ids"]), "fp8")
    kinds["mtp.0.main_norm.weight"] = Kind((d,), "bf16", 0, 1)
    kinds[last + "norm.weight"] = Kind((d,), "bf16", 0, 1)
    kinds[last + "markov_head.embed.weight"] = Kind((t["vocab_size"], rank), "bf16", 1.0)
    kinds[last + "markov_head.head.weight"] = linear(t["vocab_size"], rank, "bf16", 0.1)
    kinds[last + "confidence_head.proj.weight"] = linear(1, d + rank, "bf16", 0.1)
    return kinds


def draw(kinds, seed):
    """Independent of the order of `kinds` only in distribution: one generator runs through."""
    generator = torch.Generator().manual_seed(seed)
    return {name: (torch.randn(kind.shape, generator=generator) * kind.deviation + kind.mean)
            .contiguous() for name, kind in kinds.items()}


def stabilise_streams(values, text):
    """mHC starts as a plain residual: equal collapse, unit update, near-identity mixing."""
    copies = text["hc_mult"]
    for name, value in values.items():
        if name.endswith("hc_attn_base") or name.endswith("hc_ffn_base"):
            value[:copies] = -1.0
            value[copies:2 * copies] = 0.0
            value[2 * copies:] = (4.0 * torch.eye(copies)).reshape(-1)
            value[0] += 0.5  # copies that start equal need something that tells them apart


# Heads of the first layers that start out looking a fixed number of tokens back.
LOOK_BACK = {0: (1, 2), 1: (1, 3)}
CONSTANT = 4.0  # embedding channel 0, the same for every token: what such a head's score reads


def look_back(values, text, frequencies, layers=None):
    """Starts heads of the window layers at a fixed distance: rotation makes q.k a function of it.

    In-context recall needs "which token came before this one" before anything else can form; from
    random weights that took most of the training the first try had.
    """
    rotary, width = text["qk_rope_head_dim"], text["head_dim"]
    values["embed.weight"][:, 0] = CONSTANT
    for layer, distances in (layers or LOOK_BACK).items():
        p = f"layers.{layer}.attn."
        values[p + "wq_a.weight"][0] = 0
        values[p + "wq_a.weight"][0, 0] = 0.5
        kv = values[p + "wkv.weight"]
        kv[width - rotary:] = 0
        kv[width - rotary::2, 0] = 0.5
        wq_b = values[p + "wq_b.weight"].view(-1, width, text["q_lora_rank"])
        for head, distance in enumerate(distances):
            wq_b[head, width - rotary:] = 0
            angle = frequencies * distance
            # strength falls with the frequency: the slow pairs only tell far from near
            strength = 6.0 * torch.ones_like(frequencies)
            wq_b[head, width - rotary::2, 0] = strength * torch.cos(angle)
            wq_b[head, width - rotary + 1::2, 0] = strength * torch.sin(-angle)
