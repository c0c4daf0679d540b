"""The released number formats in PyTorch: rounding for training, codes for export.

Rounding passes gradients straight through. The rules are those of docs/numerics.md.
"""
import math

import torch


def bf16(x):
    return x.to(torch.bfloat16).to(torch.float32)


def power_of_two_above(t):
    """2^ceil(log2 t) of positive normal float32 values, from their bits."""
    bits = t.contiguous().view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0)
    return (exponent << 23).view(torch.float32)


# torch has the format since 2.1; before, the same rounding is spelled out.
E4M3 = getattr(torch, "float8_e4m3fn", None)


def e4m3(x):
    """Nearest e4m3 value, ties to the even code, saturating at 448."""
    x = x.clamp(-448, 448)
    return e4m3_spelled_out(x) if E4M3 is None else x.to(E4M3).to(torch.float32)


def e4m3_spelled_out(x):
    """|x| <= 448: three bits behind the leading one, steps of 2^-9 below 2^-6."""
    exponent = (x.contiguous().view(torch.int32) >> 23) & 255
    step = ((exponent.clamp(min=127 - 6) - 3) << 23).view(torch.float32)
    return torch.round(x / step) * step


def e2m1(x):
    """Nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with sign, ties to the even code."""
    a = x.abs().clamp(max=6)
    step = 0.5 + 0.5 * (a >= 2) + 1.0 * (a >= 4)
    return torch.round(a / step) * step * torch.sign(x)


def straight_through(x, rounded):
    return x + (rounded - x).detach()


def groups(x, n):
    return x.reshape(*x.shape[:-1], x.shape[-1] // n, n)


def fp8_activations(x):
    """Inputs of linear layers and window rows: groups of 32, power-of-two scale."""
    g = groups(x.detach(), 32)
    scale = power_of_two_above(g.abs().amax(-1, keepdim=True).clamp(min=1e-4) * (1 / 448))
    return straight_through(x, (e4m3(g / scale) * scale).reshape(x.shape))


def fp4_index(x):
    """Index queries and keys: groups of 32, power-of-two scale."""
    g = groups(x.detach(), 32)
    scale = power_of_two_above(g.abs().amax(-1, keepdim=True).clamp(min=6 * 2.0**-126) * (1 / 6))
    return straight_through(x, (e2m1(g / scale) * scale).reshape(x.shape))


def fp4_rows(x):
    """Compressed KV rows: groups of 16, e4m3 scale."""
    g = groups(x.detach(), 16)
    scale = e4m3(g.abs().amax(-1, keepdim=True).clamp(min=6 * 2.0**-9) / 6)
    return straight_through(x, (e2m1(g / scale) * scale).reshape(x.shape))


def tile_scales(w):
    """Power-of-two scale per 32x32 tile of [out, in] -> [ceil(out/32), in/32]."""
    out, inner = w.shape
    padded = torch.nn.functional.pad(w, (0, -inner % 32, 0, -out % 32)).abs()
    top = padded.reshape(padded.shape[0] // 32, 32, -1, 32).amax((1, 3))
    return power_of_two_above(top.clamp(min=2.0**-100) / 448)


def spread_tiles(scales, shape):
    return scales.repeat_interleave(32, 0).repeat_interleave(32, 1)[:shape[0], :shape[1]]


def group_scales(w, largest):
    """Power-of-two scale per 32 consecutive values of the last dimension."""
    return power_of_two_above(groups(w, 32).abs().amax(-1).clamp(min=2.0**-100) / largest)


def fp8_weight(w):
    scale = spread_tiles(tile_scales(w.detach()), w.shape)
    return straight_through(w, e4m3(w.detach() / scale) * scale)


def fp8_table(w):
    """Rows of an Engram table: one scale per 32 values."""
    scale = group_scales(w.detach(), 448).repeat_interleave(32, -1)
    return straight_through(w, e4m3(w.detach() / scale) * scale)


def fp4_weight(w):
    scale = group_scales(w.detach(), 6).repeat_interleave(32, -1)
    return straight_through(w, e2m1(w.detach() / scale) * scale)


# ---- codes, as stored

def e4m3_values():
    """The value of each of the 256 codes; the two NaN codes give NaN."""
    code = torch.arange(256)
    exponent, mantissa = (code >> 3) & 15, (code & 7).float()
    normal = (8 + mantissa) * torch.exp2(exponent.float() - 10)
    size = torch.where(exponent > 0, normal, mantissa * 2.0**-9)
    return torch.where((code & 127) == 127, math.nan, torch.where(code < 128, size, -size))


E4M3_VALUES = e4m3_values()


def scale_codes(scale):
    """Powers of two -> e8m0 bytes."""
    return ((scale.contiguous().view(torch.int32) >> 23) & 255).to(torch.uint8)


def e4m3_codes(x):
    """-> bytes: the upper bits of the rounded value's float32, its exponent counted from 2^-6."""
    rounded = e4m3(x)
    bits = rounded.contiguous().view(torch.int32)
    normal = ((bits >> 20) & 0x7FF) - ((127 - 7) << 3)
    tiny = (rounded.abs() * 2.0**9).to(torch.int32)
    code = torch.where(rounded.abs() < 2.0**-6, tiny, normal)
    return (code | ((bits >> 24) & 0x80)).to(torch.uint8)


def e2m1_codes(x):
    """-> packed bytes [out, in/2], the low nibble the even input."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    rounded = e2m1(x)
    codes = torch.searchsorted(values, rounded.abs().contiguous()).to(torch.uint8)
    codes = codes | ((rounded < 0).to(torch.uint8) << 3)
    return codes[..., 0::2] | (codes[..., 1::2] << 4)
