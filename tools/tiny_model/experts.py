"""Routed experts: rows sorted by expert, one product per expert and matrix."""
import torch

from tools.tiny_model import quantize as q


class GroupedProduct(torch.autograd.Function):
    """x [M, K] in runs of `counts` rows, weights [E, N, K] -> [M, N]."""

    @staticmethod
    def forward(ctx, x, weights, counts):
        ctx.save_for_backward(x, weights)
        ctx.counts = counts
        y = x.new_empty(x.shape[0], weights.shape[1])
        start = 0
        for expert, count in enumerate(counts):
            torch.mm(x[start:start + count], weights[expert].t(), out=y[start:start + count])
            start += count
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weights = ctx.saved_tensors
        dy = dy.contiguous()
        dx, dw = torch.empty_like(x), torch.empty_like(weights)
        start = 0
        for expert, count in enumerate(ctx.counts):
            run = slice(start, start + count)
            torch.mm(dy[run], weights[expert], out=dx[run])
            torch.mm(dy[run].t(), x[run], out=dw[expert])
            start += count
        return dx, dw, None


def grouped_experts(model, x, chosen, weight, matrices, swiglu):
    """x [N, d], chosen [N, k] ascending, weight [N, k] -> sum over experts [N, d], loads [E]."""
    w1, w3, w2 = matrices
    flat = chosen.flatten()
    order = torch.argsort(flat, stable=True)
    loads = torch.bincount(flat, minlength=w1.shape[0])
    counts = loads.tolist()
    token = order // chosen.shape[1]
    if model.rounding.quantised:
        x = q.fp8_activations(x)
    rows = x.index_select(0, token)
    if model.rounding.exact:
        rows, w1, w3, w2 = rows.double(), w1.double(), w3.double(), w2.double()
    limit = model.text["swiglu_limit"]
    gate = GroupedProduct.apply(rows, w1, counts)
    up = GroupedProduct.apply(rows, w3, counts)
    if model.rounding.exact:
        hidden = swiglu(q.bf16(gate.float()).double(), q.bf16(up.float()), limit).float()
    else:
        hidden = swiglu(gate, up, limit)
    hidden = model.bf16(hidden * weight.flatten().index_select(0, order)[:, None])
    if model.rounding.quantised:
        hidden = q.fp8_activations(hidden)
    if model.rounding.exact:
        hidden = hidden.double()
    y = model.bf16(GroupedProduct.apply(hidden, w2, counts).float())
    return torch.zeros_like(x).index_add(0, token, y), loads
