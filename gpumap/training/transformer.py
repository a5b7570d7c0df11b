"""A transformer block in NumPy, as a network of one's own: `--preset transformer`.

Attention and a multilayer perceptron, each behind a layer norm and beside what goes around it (the
order of Xiong et al., arXiv:2002.04745; attention as Vaswani et al., arXiv:1706.03762), then the
mean over the tokens and a sigmoid. Its examples are sequences of random tokens, and the question is
on which side of a plane their mean is.
"""

from __future__ import annotations

from gpumap.dtypes import Array, np

TOKENS, WIDTH, HEADS, HIDDEN = 16, 64, 4, 256
_LEAST = 1e-5  # what a layer norm adds to the variance


class Transformer:
    """The block's arrays, its examples, and the gradient of the cross-entropy."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        d = WIDTH
        shapes = [(d, 3 * d), (d, d), (d, HIDDEN), (HIDDEN, d), (d, 1)]
        qkv, out, up, down, last = (rng.standard_normal(s) * s[0] ** -0.5 for s in shapes)
        ones, zeros = np.ones(d), np.zeros(d)
        found = [ones, zeros, qkv, out, ones, zeros, up, np.zeros(HIDDEN), down, zeros, last]
        self.parameters = [np.array(each, np.float32) for each in [*found, np.zeros(1)]]
        self._plane = rng.standard_normal(d)

    def batch(self, numbers: Array) -> tuple[Array, Array]:
        """Return sequences by their numbers, the same ones each time, and the answers."""
        x = np.empty((len(numbers), TOKENS, WIDTH), np.float32)
        for sequence, number in zip(x, numbers.tolist(), strict=True):
            np.random.default_rng(number).standard_normal(out=sequence, dtype=np.float32)
        y = x.mean(axis=1, dtype=np.float64) @ self._plane > 0
        return x, y.astype(np.float32)

    def loss(self, x: Array, y: Array) -> float:
        """Return the mean cross-entropy of examples."""
        p = self._forward(x)[0].astype(np.float64).clip(1e-7, 1 - 1e-7)
        return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())

    def accuracy(self, x: Array, y: Array) -> float:
        """Return the share of examples that are answered right."""
        return float((self._forward(x)[0].round() == y).mean())

    def gradients(self, x: Array, y: Array, share: float) -> list[Array]:
        """Return the gradient of `share` times the sum of the losses."""
        gain1, shift1, qkv, out, gain2, shift2, up, _, down, _, last, _ = self.parameters
        p, (norm1, heads, attention, joined, norm2, hidden, pooled) = self._forward(x)
        wrong = ((p - y) * p.dtype.type(share))[:, None]
        dz = np.broadcast_to((wrong @ last.T)[:, None] / TOKENS, x.shape)
        dhidden = (dz @ down.T) * (hidden > 0)
        dnorm2 = dhidden @ up.T
        more, dgain2, dshift2 = _norm_back(dnorm2, gain2, *norm2)
        dh = dz + more
        dheads = _heads_back(_split(dh @ out.T, 1)[0], attention, heads)
        dqkv = dheads.transpose(1, 3, 0, 2, 4).reshape(*x.shape[:2], 3 * WIDTH)
        _, dgain1, dshift1 = _norm_back(dqkv @ qkv.T, gain1, *norm1)
        first, second, each = norm1[0] * gain1 + shift1, norm2[0] * gain2 + shift2, (0, 1)
        return [dgain1, dshift1, _product(first, dqkv), _product(joined, dh), dgain2, dshift2,
                _product(second, dhidden), dhidden.sum(each), _product(hidden, dz), dz.sum(each),
                pooled.T @ wrong, wrong.sum(0)]  # fmt: skip

    def _forward(self, x: Array) -> tuple[Array, tuple]:  # type: ignore[type-arg]
        """Return the output of each example, and what the way back needs."""
        gain1, shift1, qkv, out, gain2, shift2, up, bias, down, end, last, c = self.parameters
        norm1 = _norm(x)
        heads = _split((norm1[0] * gain1 + shift1) @ qkv, 3)
        scores = heads[0] @ heads[1].swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        joined = (attention @ heads[2]).swapaxes(1, 2).reshape(x.shape)
        h = x + joined @ out
        norm2 = _norm(h)
        hidden = np.maximum((norm2[0] * gain2 + shift2) @ up + bias, 0)
        pooled = (h + hidden @ down + end).mean(axis=1)
        p = 1 / (1 + np.exp(-(pooled @ last + c)[:, 0]))
        return p, (norm1, heads, attention, joined, norm2, hidden, pooled)


def _norm(x: Array) -> tuple[Array, Array]:
    """Return tokens of mean 0 and variance 1, and what they were multiplied by."""
    scale = (x.var(axis=-1, keepdims=True) + _LEAST) ** -0.5
    return (x - x.mean(axis=-1, keepdims=True)) * scale, scale


def _norm_back(d: Array, gain: Array, n: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return the derivatives by what was normed, by the gain and by the shift."""
    dn = d * gain
    rest = dn.mean(-1, keepdims=True) + n * (dn * n).mean(-1, keepdims=True)
    return scale * (dn - rest), (d * n).sum((0, 1)), d.sum((0, 1))


def _split(x: Array, parts: int) -> Array:
    """Return (parts, examples, heads, tokens, numbers of a head)."""
    found: Array = x.reshape(*x.shape[:2], parts, HEADS, -1).transpose(2, 0, 3, 1, 4)
    return found


def _heads_back(d: Array, attention: Array, heads: Array) -> Array:
    """Return the derivatives by queries, keys and values."""
    query, key, value = heads
    dp = d @ value.swapaxes(-1, -2)
    ds = attention * (dp - (dp * attention).sum(-1, keepdims=True)) * (WIDTH // HEADS) ** -0.5
    return np.stack([ds @ key, ds.swapaxes(-1, -2) @ query, attention.swapaxes(-1, -2) @ d])


def _product(a: Array, b: Array) -> Array:
    """Return the sum over examples and tokens of a number of one by a number of the other."""
    found: Array = a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    return found
