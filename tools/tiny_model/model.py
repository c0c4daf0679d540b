"""The text backbone of DeepSeek-V4.1 at any size, for training and for exact comparison.

Shapes: B sequences, T tokens, N = B*T, d hidden, H heads, D head_dim, R compressed rows.
Weights live in one dict by the release's names (parameters.py). What is rounded where is chosen
by Rounding: nothing while training starts, the FP8/FP4 points later, every BF16 point (with double
sums between) when the result is to be compared with the engine.
"""
import dataclasses
import math

import torch

from tools.tiny_model import config, quantize as q
from tools.tiny_model.experts import grouped_experts


KEY_BLOCK = 64  # keys whose softmax numerators share a maximum, with exact rounding


@dataclasses.dataclass
class Rounding:
    quantised: bool = False  # FP8/FP4 weights, activations, cache rows (straight-through)
    exact: bool = False      # also every BF16 rounding point, sums in double


def rope_frequencies(dim, base, yarn=None):
    """float32, power and reciprocal rounded separately, as the release computes them."""
    exponent = (torch.arange(0, dim, 2, dtype=torch.float32) / dim).double()
    f = 1 / torch.pow(torch.tensor(float(base), dtype=torch.float64), exponent).float()
    if not yarn:
        return f
    def corner(turns):
        length = yarn["original_max_position_embeddings"]
        return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))
    low = max(math.floor(corner(yarn["beta_fast"])), 0)
    high = min(math.ceil(corner(yarn["beta_slow"])), dim - 1)
    ramp = torch.clamp((torch.arange(dim // 2, dtype=torch.float32) - low)
                       / max(high - low, 1e-3), 0, 1)
    smooth = 1 - ramp
    return f / float(yarn["factor"]) * (1 - smooth) + f * smooth


def rope_table(positions, frequencies):
    angle = (positions.float()[:, None] * frequencies[None]).double()
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [..., D]; cos, sin broadcastable to [..., rope/2]; adjacent pairs of the last channels."""
    rotary = 2 * cos.shape[-1]
    pairs = x[..., -rotary:].unflatten(-1, (-1, 2))
    a, b = pairs.unbind(-1)
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
    return torch.cat((x[..., :-rotary], turned), -1)


def rms_normalise(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-20) * weight


def sinkhorn(c, eps, steps):
    """c [4(j), 4(k), N] logits -> doubly stochastic mixes."""
    c = torch.softmax(c, 1) + eps
    c = c / (c.sum(0, keepdim=True) + eps)
    for _ in range(steps - 1):
        c = c / (c.sum(1, keepdim=True) + eps)
        c = c / (c.sum(0, keepdim=True) + eps)
    return c


def stream_mixes(m, base, scale, eps, steps):
    """m [24, N] -> pre [4, N], post [4, N], comb [4(j), 4(k), N]."""
    pre = torch.sigmoid(m[:4] * scale[0] + base[:4, None]) + eps
    post = 2 * torch.sigmoid(m[4:8] * scale[1] + base[4:8, None])
    comb = (m[8:] * scale[2] + base[8:, None]).unflatten(0, (4, 4))
    return pre, post, sinkhorn(comb, eps, steps)


def mix_logits(x, fn):
    """x [N, 4, d] -> [24, N]."""
    v = x.flatten(1)
    return (v @ fn.t() * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-20)).t()


def collapse(x, pre):
    return (x[:, 0] * pre[0][:, None] + x[:, 1] * pre[1][:, None]
            + x[:, 2] * pre[2][:, None] + x[:, 3] * pre[3][:, None])


def collapse_normalise(x, pre, weight):
    return rms_normalise(collapse(x, pre), weight)


def expand(o, x, post, comb):
    """X'[k] = post[k] * o + sum_j comb[j][k] * X[j]."""
    columns = [post[k][:, None] * o + comb[0, k][:, None] * x[:, 0]
               + comb[1, k][:, None] * x[:, 1] + comb[2, k][:, None] * x[:, 2]
               + comb[3, k][:, None] * x[:, 3] for k in range(4)]
    return torch.stack(columns, 1)


def engram_update(x, keys, value, weight):
    """x [N, 4, d], keys [N, 4, d], value [N, d], weight [4, d] -> x with the gated value added."""
    d = x.shape[-1]
    norm = (torch.rsqrt(x.square().mean(-1) + 1e-20)
            * torch.rsqrt(keys.square().mean(-1) + 1e-20))
    g = (x * weight * keys).sum(-1) * norm * d**-0.5
    root = torch.sqrt(g.abs().clamp(min=1e-6))
    gate = torch.sigmoid(torch.where(g < 0, -root, root))
    return x + gate[:, :, None] * value[:, None]


def swiglu(gate, up, limit):
    return torch.nn.functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)


def attention_weights(z, sink):
    """z [B, T, H, K] scores (-inf where hidden) -> softmax with the sink in the denominator."""
    column = sink.expand(*z.shape[:2], -1)[..., None]
    return torch.softmax(torch.cat((z, column), -1), -1)[..., :-1]


FUSED = ("stream_mixes", "collapse", "collapse_normalise", "expand", "engram_update", "swiglu",
         "rms_normalise", "rotate", "attention_weights", "mix_logits")
EAGER = {name: globals()[name] for name in FUSED}


def fuse(enabled=True):
    """Compiles the elementwise parts (first step of each shape takes a while); False undoes it."""
    torch._dynamo.config.recompile_limit = 64  # shapes of one part: lengths, layers, held-out rows
    for name in FUSED:
        globals()[name] = torch.compile(EAGER[name], dynamic=False) if enabled else EAGER[name]


@dataclasses.dataclass
class Selection:
    """What index sources hand down the stack, and what the indexer's loss is made of."""
    visible: torch.Tensor = None     # [B or 1, T, R] rows attention may see
    candidates: torch.Tensor = None  # [B, T, R] pool of the first decoder layer
    losses: list = dataclasses.field(default_factory=list)
    picked: list = dataclasses.field(default_factory=list)


class Model:
    def __init__(self, text, weights):
        self.text, self.weights = text, weights
        self.rounding = Rounding()
        self.sparse = False         # attention through the indexer's selection only
        self.index_loss = False     # collect the indexer's loss
        self.loads = {}             # layer prefix -> tokens per expert of the last pass
        rotary = text["qk_rope_head_dim"]
        self.window_frequencies = rope_frequencies(rotary, text["rope_theta"])
        self.compressed_frequencies = rope_frequencies(rotary, text["compress_rope_theta"],
                                                       text["rope_scaling"])

    # ---- products and rounding points

    def bf16(self, x):
        return q.bf16(x) if self.rounding.exact else x

    def product(self, x, w):
        if self.rounding.exact:
            return (x.double() @ w.double().t()).float()
        return x @ w.t()

    def weight(self, name):
        w = self.weights[name]
        if not self.rounding.quantised:
            return w
        if name.endswith(("norm.weight", "embed.weight", "head.weight", "gate.weight",
                          "q_weight", "k_weight", "wk.weight", "weights_proj.weight",
                          "compressor.wkv.weight", "wgate.weight", "confidence_head.proj.weight")):
            return q.straight_through(w, q.bf16(w.detach()))
        return q.fp8_weight(w)

    def quantised_linear(self, x, name):
        """FP8 weight on FP8 activations."""
        if self.rounding.quantised:
            x = q.fp8_activations(x)
        return self.bf16(self.product(x, self.weight(name + ".weight")))

    def linear(self, x, name):
        return self.bf16(self.product(x, self.weight(name + ".weight")))

    def normalise(self, x, name):
        weight = self.weight(name + ".weight")
        if self.rounding.exact:
            return q.bf16(rms_normalise(x.double(), weight.double()).float())
        return rms_normalise(x, weight)

    def rotated(self, x, table):
        return self.bf16(rotate(x, *table))

    # ---- residual streams

    def mixes(self, x, prefix):
        fn, base, scale = (self.weights[f"{prefix}_{part}"] for part in ("fn", "base", "scale"))
        eps, steps = self.text["hc_eps"], self.text["hc_sinkhorn_iters"]
        if not self.rounding.exact:
            return stream_mixes(mix_logits(x, fn), base, scale, eps, steps)
        m = mix_logits(x.double(), fn.double()).float()
        pre = torch.sigmoid((m[:4] * scale[0] + base[:4, None]).double()).float() + eps
        post = 2 * torch.sigmoid((m[4:8] * scale[1] + base[4:8, None]).double()).float()
        comb = (m[8:] * scale[2] + base[8:, None]).double().unflatten(0, (4, 4))
        return pre, post, sinkhorn(comb, eps, steps).float()

    def collapsed(self, x, pre, name):
        if self.rounding.exact:
            return self.normalise(q.bf16(collapse(x.double(), pre.double()).float()), name)
        return collapse_normalise(x, pre, self.weight(name + ".weight"))

    def expanded(self, o, x, post, comb):
        if self.rounding.exact:
            return q.bf16(expand(o.double(), x.double(), post.double(), comb.double()).float())
        return expand(o, x, post, comb)

    # ---- attention

    def queries(self, u, p, table):
        """u [B, T, d] -> latent [B, T, q_lora], heads [B, T, H, D] with rotation."""
        latent = self.normalise(self.quantised_linear(u, p + "wq_a"), p + "q_norm")
        heads = self.quantised_linear(latent, p + "wq_b")
        heads = heads.unflatten(-1, (-1, self.text["head_dim"]))
        return latent, self.rotated(heads, [t[:, None] for t in table])

    def window_rows(self, u, p, table):
        rows = self.rotated(self.normalise(self.quantised_linear(u, p + "wkv"), p + "kv_norm"),
                            table)
        return q.fp8_activations(rows) if self.rounding.quantised else rows

    def latents(self, u, layer):
        """Compressor: [B, T, d] -> [B, T // ratio, D], before rotation."""
        p = f"layers.{layer}.attn.compressor."
        if self.text["compress_ratios"][layer] == 1:
            return self.normalise(self.linear(u, p + "wkv"), p + "norm")
        u = u[:, :u.shape[1] // 2 * 2]
        value = self.product(u, self.weight(p + "wkv.weight")).unflatten(1, (-1, 2))
        score = self.product(u, self.weight(p + "wgate.weight")).unflatten(1, (-1, 2))
        if self.rounding.exact:
            share = torch.softmax((score - score.amax(2, keepdim=True)).double(), 2)
            pooled = q.bf16((share * value.double()).sum(2).float())
        else:
            first = torch.sigmoid(score[:, :, 0] - score[:, :, 1])
            pooled = value[:, :, 1] + first * (value[:, :, 0] - value[:, :, 1])
        return self.normalise(pooled, p + "norm")

    def index_scores(self, layer, latent, u, query_latent, table, first_table):
        """-> [B, T, R] scores of compressed rows."""
        t, p = self.text, f"layers.{layer}.attn.indexer."
        source = f"layers.{config.kv_source(t, layer)}.attn.indexer."
        if not self.rounding.exact:  # the indexer learns from its own loss alone
            latent, u, query_latent = latent.detach(), u.detach(), query_latent.detach()
        keys = self.rotated(self.normalise(self.linear(latent, source + "wk"), source + "k_norm"),
                            first_table)
        heads = self.quantised_linear(query_latent, p + "wq_b")
        heads = self.rotated(heads.unflatten(-1, (-1, t["index_head_dim"])),
                             [part[:, None] for part in table])
        if self.rounding.quantised:
            keys, heads = q.fp4_index(keys), q.fp4_index(heads)
        weight = self.linear(u, p + "weights_proj")
        weight = weight * (t["index_head_dim"]**-0.5 * t["index_n_heads"]**-0.5)
        if self.rounding.exact:
            keys, heads = keys.double(), heads.double()
        flat = heads.flatten(1, 2) @ keys.transpose(1, 2)
        dots = flat.unflatten(1, (-1, t["index_n_heads"]))
        if self.rounding.exact:
            dots = dots.float().double()
        return (torch.relu(dots) * weight[..., None].to(dots.dtype)).sum(2).float()

    def select(self, layer, scores, visible, selection):
        """Two-level selection: which of the visible rows [T, R] each query attends to."""
        t = self.text
        scores = torch.where(visible, scores, -math.inf)
        if layer == t["candidate_source_layer_id"]:
            selection.candidates = self.candidate_pool(scores, visible)
        elif layer > t["candidate_source_layer_id"]:
            scores = torch.where(selection.candidates, scores, -math.inf)
        selection.visible = self.best(scores, t["index_topk"]) & (scores > -math.inf)

    @staticmethod
    def best(scores, count):
        """Mask of the `count` largest of the last dimension, ties to the smaller index."""
        if scores.shape[-1] <= count:
            return torch.ones_like(scores, dtype=torch.bool)
        order = torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :count]
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, order, True)

    def candidate_pool(self, scores, visible):
        size = self.text["candidate_block_size"]
        rows = scores.shape[-1]
        padded = torch.nn.functional.pad(scores, (0, -rows % size), value=-math.inf)
        blocks = padded.unflatten(-1, (padded.shape[-1] // size, size)).amax(-1)
        seen = visible.sum(-1)                                              # [T]
        newest = torch.arange(blocks.shape[-1]) == ((seen - 1) // size)[:, None]
        blocks = torch.where(newest & (seen > 0)[:, None], math.inf, blocks)
        kept = self.best(blocks, self.text["candidate_topk_blocks"]) & (blocks > -math.inf)
        return kept.repeat_interleave(size, -1)[..., :rows]

    def attend(self, heads, window, rows, visible, sink):
        """heads [B, T, H, D], window [B, T, D], rows [B, R, D] or None, visible [B|1, T, R]."""
        batch, length, count, width = heads.shape
        flat = heads.reshape(batch, length * count, width)
        reach = self.text["sliding_window"]
        if not self.rounding.exact and length % reach == 0 and length > 2 * reach:
            return self.attend_blocked(heads, window, rows, visible, sink)
        position = torch.arange(length)
        distance = position[:, None] - position[None]
        near = (distance >= 0) & (distance < reach)
        keys, masks = [window], [near[None].expand(batch if rows is not None else 1, -1, -1)]
        if rows is not None:
            keys.append(rows)
            masks.append(visible.expand(batch, -1, -1))
        keys, mask = torch.cat(keys, 1), torch.cat(masks, -1)
        if self.rounding.exact:
            return self.attend_exactly(flat, keys, mask, self.slots(mask), sink, heads.shape)
        z = (flat * width**-0.5) @ keys.transpose(1, 2)
        bias = torch.where(mask, 0.0, -math.inf)[:, :, None]
        weights = attention_weights(z.view(batch, length, count, -1) + bias, sink)
        o = weights.reshape(batch, length * count, -1) @ keys
        return o.view(heads.shape), weights

    def attend_blocked(self, heads, window, rows, visible, sink):
        """attend for T a multiple of the window W: a block of W queries sees its own and the
        previous block of the window's keys, so the cost of the window does not grow with T.

        -> heads, weights [B, T, H, 2W + R]."""
        batch, length, count, width = heads.shape
        reach = self.text["sliding_window"]
        blocks = length // reach
        own = window.unflatten(1, (blocks, reach))
        before = torch.nn.functional.pad(own, (0, 0, 0, 0, 1, 0))[:, :-1]
        near_keys = torch.cat((before, own), 2)                             # [B, blocks, 2W, D]
        flat = (heads * width**-0.5).reshape(batch, blocks, reach * count, width)
        distance = (torch.arange(reach)[:, None] + reach - torch.arange(2 * reach)[None]).repeat(
            blocks, 1)
        started = torch.arange(length)[:, None] - distance >= 0
        mask = ((distance >= 0) & (distance < reach) & started)[None]
        z = (flat @ near_keys.mT).reshape(batch, length, count, -1)
        if rows is not None:
            far = flat.reshape(batch, length * count, width) @ rows.mT
            z = torch.cat((z, far.view(batch, length, count, -1)), -1)
            mask = torch.cat((mask.expand(len(visible), -1, -1), visible), -1)
        weights = attention_weights(z + torch.where(mask, 0.0, -math.inf)[:, :, None], sink)
        near = weights[..., :2 * reach].reshape(batch, blocks, reach * count, -1)
        o = (near @ near_keys).view(heads.shape)
        if rows is not None:
            far = weights[..., 2 * reach:].reshape(batch, length * count, -1)
            o = o + (far @ rows).view(heads.shape)
        return o, weights

    def slots(self, mask):
        """mask [B, T, T (window) + R (rows)] -> place of every key in its query's list: the window
        owns the first places even while it is not full, chosen rows follow in order."""
        length = mask.shape[1]
        reach = self.text["sliding_window"]
        position = torch.arange(length)
        near = position[None] - (position[:, None] - reach + 1).clamp(min=0)
        far = reach + mask[..., length:].int().cumsum(-1) - 1
        return torch.cat((near.clamp(min=0)[None].expand(len(mask), -1, -1), far.clamp(min=0)), -1)

    def attend_exactly(self, flat, keys, mask, slots, sink, shape):
        """flat [B, T*H, D], keys [B, K, D], mask and slots [B, T, K] -> [B, T, H, D], weights.

        The softmax runs over blocks of 64 slots with a moving maximum, because the numerators are
        rounded to BF16 relative to it."""
        batch, length, count, width = shape
        z = (flat.double() @ keys.double().transpose(1, 2)).float() * width**-0.5
        z = z.view(batch, length, count, -1).masked_fill(~mask[:, :, None], -math.inf)
        top = z.new_full(z.shape[:-1], -1e30)
        total, o = top.new_zeros(top.shape).double(), flat.new_zeros(shape).double()
        block_of = slots // KEY_BLOCK
        for block in range(int(block_of.max()) + 1):
            part = z.masked_fill(~(mask & (block_of == block))[:, :, None], -math.inf)
            new_top = torch.maximum(top, part.amax(-1))
            rescale = torch.exp((top - new_top).double())
            e = torch.exp((part - new_top[..., None]).double())
            rounded = q.bf16(e.float()).double().reshape(batch, length * count, -1)
            o = o * rescale[..., None] + (rounded @ keys.double()).view(shape)
            total, top = total * rescale + e.sum(-1), new_top
        total = total + torch.exp((sink - top).double())
        weights = torch.exp((z - top[..., None]).double()) / total[..., None]
        return q.bf16((o / total[..., None]).float()), weights

    def attention(self, layer, u, selection, shared):
        """u [B, T, d] after its norm -> [B, T, d]; `shared` carries source rows downwards."""
        t, p = self.text, f"layers.{layer}.attn."
        length, ratio = u.shape[1], t["compress_ratios"][layer]
        frequencies = self.compressed_frequencies if ratio else self.window_frequencies
        table = rope_table(torch.arange(length), frequencies)
        latent_q, heads = self.queries(u, p, table)
        window = self.window_rows(u, p, table)
        rows = visible = scores = None
        if ratio:
            count = length // ratio
            first = rope_table(torch.arange(count) * ratio, frequencies)
            causal = torch.arange(count) < ((torch.arange(length) + 1) // ratio)[:, None]
            if layer in t["kv_source_layer_ids"]:
                shared["latent"] = self.latents(u, layer)
                turned = self.rotated(shared["latent"], first)
                shared["rows"] = q.fp4_rows(turned) if self.rounding.quantised else turned
            if layer in t["index_source_layer_ids"] and (self.sparse or self.index_loss):
                scores = self.index_scores(layer, shared["latent"], u, latent_q, table, first)
                if self.sparse:
                    self.select(layer, scores.detach(), causal, selection)
                    selection.picked.append((layer, selection.visible))
            rows = shared["rows"]
            visible = selection.visible if self.sparse else causal[None]
        o, weights = self.attend(heads, window, rows, visible, self.weights[p + "attn_sink"])
        if scores is not None and self.index_loss:
            selection.losses.append(index_divergence(scores, weights[..., -count:], visible))
        o = self.rotated(o, [table[0][:, None], -table[1][:, None]])
        return self.output(o, p)

    def output(self, o, p):
        groups = self.text["o_groups"]
        o = o.flatten(2).unflatten(-1, (groups, -1))
        wo_a = self.weight(p + "wo_a.weight").unflatten(0, (groups, -1))
        y = [self.bf16(self.product(o[:, :, g], wo_a[g])) for g in range(groups)]
        return self.quantised_linear(torch.cat(y, -1), p + "wo_b")

    # ---- experts

    def experts(self, x, p, chosen_count):
        """x [N, d] -> routed plus shared experts."""
        t = self.text
        gate = self.product(x, self.weight(p + "gate.weight"))
        if self.rounding.exact:
            score = torch.nn.functional.softplus(gate.double(), threshold=1e6).float().sqrt()
        else:
            score = torch.sqrt(torch.nn.functional.softplus(gate))
        biased = (score + self.weights[p + "gate.bias"]).detach()
        order = torch.sort(biased, dim=-1, descending=True, stable=True).indices
        chosen = order[:, :chosen_count].sort(-1).values
        weight = score.gather(1, chosen)
        if chosen_count > 1:
            weight = weight / (weight.sum(-1, keepdim=True) + 1e-20)
        weight = weight * t["routed_scaling_factor"]
        matrices = [self.weights[p + f"experts.{name}"] for name in ("w1", "w3", "w2")]
        if self.rounding.quantised:
            matrices = [q.fp4_weight(w) for w in matrices]
        routed, self.loads[p] = grouped_experts(self, x, chosen, weight, matrices,
                                                lambda *a: swiglu(*a))
        s = p + "shared_experts."
        hidden = swiglu(self.quantised_linear(x, s + "w1"), self.quantised_linear(x, s + "w3"),
                        t["swiglu_limit"])
        return self.bf16(routed + self.quantised_linear(self.bf16(hidden), s + "w2"))

    # ---- Engram

    def engram(self, x, layer, rows):
        """x [N, 4, d], rows [N, columns]."""
        p = f"layers.{layer}.engram."
        values = torch.nn.functional.embedding(rows, self.weights[p + "embed.weight"])
        if self.rounding.quantised:
            values = q.fp8_table(values)
        kv = self.quantised_linear(values.flatten(1), p + "wkv")
        width = self.text["hc_mult"] * self.text["hidden_size"]
        keys, value = kv[:, :width].unflatten(1, (-1, self.text["hidden_size"])), kv[:, width:]
        weight = self.weight(p + "q_weight") * self.weight(p + "k_weight")
        if self.rounding.exact:
            return q.bf16(engram_update(x.double(), keys.double(), value.double(),
                                        weight.double()).float())
        return engram_update(x, keys, value, weight)

    # ---- the stack

    def block(self, x, pre, p, attend, chosen_count):
        """One layer or draft stage; attend: u [N, d] -> [N, d]."""
        a_pre, a_post, a_comb = self.mixes(x, p + "hc_attn")
        x = self.expanded(attend(self.collapsed(x, pre, p + "attn_norm")), x, a_post, a_comb)
        f_pre, f_post, f_comb = self.mixes(x, p + "hc_ffn")
        o = self.experts(self.collapsed(x, a_pre, p + "ffn_norm"), p + "ffn.", chosen_count)
        return self.expanded(o, x, f_post, f_comb), f_pre

    def start(self, embedded):
        """Four equal copies, collapsed through the first."""
        x = embedded[:, None].expand(-1, self.text["hc_mult"], -1).contiguous()
        pre = torch.zeros(self.text["hc_mult"], len(x))
        pre[0] = 1
        return x, pre

    def hidden(self, tokens, engram_rows):
        """tokens [B, T] -> final normalised hidden [N, d], draft taps [N, 3d], Selection."""
        t, shape = self.text, tokens.shape
        embedded = torch.nn.functional.embedding(tokens.flatten(), self.weight("embed.weight"))
        x, pre = self.start(embedded)
        selection, shared, taps = Selection(), {}, []
        for layer in range(t["num_hidden_layers"]):
            if layer in t["engram_layer_ids"]:
                rows = engram_rows[t["engram_layer_ids"].index(layer)]
                x = self.engram(x, layer, rows.flatten(0, 1))
            if layer in t["dspark_target_layer_ids"]:
                taps.append(self.bf16(x.mean(1)))
            x, pre = self.block(
                x, pre, f"layers.{layer}.",
                lambda u, layer=layer: self.attention(layer, u.view(*shape, -1), selection,
                                                      shared).flatten(0, 1),
                t["num_experts_per_tok"])
        return self.collapsed(x, pre, "norm"), torch.cat(taps, -1), selection

    def logits(self, hidden):
        return self.product(hidden, self.weight("head.weight"))


def index_divergence(scores, weights, visible):
    """KL from the attention over compressed rows (summed over heads) to the indexer's softmax."""
    target = weights.detach().float().sum(2)
    mass = target.sum(-1, keepdim=True)
    target = target / (mass + 1e-9)
    log_share = torch.log_softmax(torch.where(visible, scores, -1e9), -1)
    each = (target * (torch.log(target + 1e-9) - log_share)).sum(-1)
    seen = visible.any(-1).expand_as(each) & (mass[..., 0] > 1e-3)
    return (each * seen).sum() / seen.sum().clamp(min=1)
