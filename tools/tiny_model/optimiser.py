"""Muon for matrices, Adam for the rest.

Matrices take orthogonalised momentum steps (Newton-Schulz), which learn more per token than Adam
at this size; tables, embeddings, norms and mHC coefficients take Adam steps.
"""
import torch


def orthogonalised(g, steps=5):
    """g [..., out, in] -> nearest (semi-)orthogonal matrix, roughly."""
    a, b, c = 3.4445, -4.7750, 2.0315
    turned = g.shape[-2] > g.shape[-1]
    x = g.mT if turned else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return x.mT if turned else x


def takes_muon(name, value):
    plain = ("embed.weight", "head.weight", "norm.weight", "gate.weight", "q_weight", "k_weight",
             "weights_proj.weight", "confidence_head.proj.weight", "_fn")
    return value.dim() >= 2 and not name.endswith(plain)


# Adam's rate relative to the common one. mHC coefficients are sums of 4d products, so a small
# change of each is a large change of the sum; a table row is touched rarely.
RATES = {"_fn": 0.1, "engram.embed.weight": 3.0}


def relative_rate(name):
    return next((rate for end, rate in RATES.items() if name.endswith(end)), 1.0)


class Optimiser:
    """Steps the parameters `owned`; weights and moments may lie in memory that processes share."""

    def __init__(self, weights, owned, first, second):
        self.matrices = [n for n in owned if takes_muon(n, weights[n])]
        self.others = [n for n in owned if not takes_muon(n, weights[n])]
        self.weights, self.first, self.second = weights, first, second

    @torch.no_grad()
    def step(self, grads, count, muon_rate, adam_rate, decay):
        """grads: name -> gradient of every owned parameter; count: steps so far, this one too."""
        shapes = {}
        for name in self.matrices:
            shapes.setdefault(tuple(self.weights[name].shape[-2:]), []).append(name)
        for (out, inner), names in shapes.items():  # one batched iteration per shape
            steps = []
            for name in names:
                g, m = grads[name], self.first[name]
                m.mul_(0.95).add_(g, alpha=0.05)
                steps.append((0.05 * g + 0.95 * m).reshape(-1, out, inner))
            update = orthogonalised(torch.cat(steps)) * max(1, out / inner)**0.5
            at = 0
            for name, part in zip(names, steps):
                w = self.weights[name]
                w.mul_(1 - muon_rate * decay)
                w.sub_(update[at:at + len(part)].view_as(w), alpha=muon_rate)
                at += len(part)
        scale = (1 - 0.95**count)**0.5 / (1 - 0.9**count)
        for name in self.others:
            g, m, v = grads[name], self.first[name], self.second[name]
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.95).addcmul_(g, g, value=0.05)
            self.weights[name].addcdiv_(m, v.sqrt().add_(1e-8),
                                        value=-adam_rate * relative_rate(name) * scale)


def moments(weights, learned):
    """-> first and second moments, the latter only where Adam needs them."""
    first = {n: torch.zeros_like(weights[n]) for n in learned}
    return first, {n: torch.zeros_like(weights[n]) for n in learned
                   if not takes_muon(n, weights[n])}


def shares(weights, learned, parts):
    """Splits the parameters so that each part has about the same work."""
    work, owned = [0.0] * parts, [[] for _ in range(parts)]
    cost = {n: weights[n].numel() * (30.0 if takes_muon(n, weights[n]) else 1.0) for n in learned}
    for name in sorted(learned, key=lambda n: (-cost[n], n)):
        least = work.index(min(work))
        work[least] += cost[name]
        owned[least].append(name)
    return owned
