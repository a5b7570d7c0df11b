"""gpumap's kernels as PyTorch computes them: the operations of each, on flat tensors.

Numbers of 16 bits are computed in 32, and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpumap.kernels import cyclic

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _writing(function: Callable[..., Tensor]) -> Callable[..., None]:
    """Return a function of PyTorch's that writes to its last argument."""

    def write(*arguments: Any) -> None:
        function(*arguments[:-1], out=arguments[-1])

    return write


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [t.float() if t.is_floating_point() and t.itemsize == 2 else t for t in tensors]  # noqa: PLR2004 - bytes


def _relu(a: Tensor, out: Tensor) -> None:
    torch.clamp(a, min=0, out=out)


def _sum(a: Tensor, out: Tensor) -> None:
    (wide,) = _wide(a)
    out[0] = wide.sum()


def _relu_back(a: Tensor, d: Tensor, out: Tensor) -> None:
    out.copy_(torch.where(a > 0, d, torch.zeros_like(d)))  # a product would make NaN of infinity


def _tanh_back(a: Tensor, d: Tensor, out: Tensor) -> None:
    a, d = _wide(a, d)
    out.copy_(d * (1 - a * a))


def _residual(a: Tensor, b: Tensor, scale: float, out: Tensor) -> None:
    a, b = _wide(a, b)
    out.copy_((a - b) * scale)


def _scaled(a: Tensor, scale: float, out: Tensor) -> None:
    torch.mul(a, scale, out=out)


def _sgd(w: Tensor, g: Tensor, rate: float) -> None:
    w.sub_(g, alpha=rate)


def _momentum(w: Tensor, v: Tensor, g: Tensor, rate: float, decay: float) -> None:
    old, before, gradient = _wide(w, v, g)
    speed = before * decay + gradient
    v.copy_(speed)
    w.copy_(old - speed * rate)


def _adam(
    w: Tensor, m: Tensor, v: Tensor, g: Tensor,
    rate: float, first: float, second: float, epsilon: float,
) -> None:  # fmt: skip
    old, mean, square, gradient = _wide(w, m, v, g)
    mean = mean + (gradient - mean) * first
    square = square + (gradient * gradient - square) * second
    m.copy_(mean)
    v.copy_(square)
    w.copy_(old - mean / (square.sqrt() + epsilon) * rate)


def _fill(out: Tensor, value: float) -> None:
    out.fill_(value)


def _copy(out: Tensor, source: Tensor) -> None:
    out.copy_(source)


def _chain(x: Tensor, w: Tensor, b: Tensor, out: Tensor) -> None:
    """Write log(exp(relu(x.w + b))), an operation after the other: no kernel of one piece."""
    x, w, b = _wide(x, w, b)
    out.copy_((x @ w + b).clamp_(min=0).exp_().log_())


_BINARY = {name: _writing(getattr(torch, name)) for name in ("add", "sub", "mul", "div", "maximum")}
FUNCTIONS: dict[str, Callable[..., None]] = {
    **_BINARY,
    **{f"{name}_cyclic": cyclic(function) for name, function in _BINARY.items()},
    **{f"{name}_each": _writing(getattr(torch, name)) for name in ("exp", "log", "tanh")},
    "relu": _relu,
    "sum": _sum,
    "sigmoid": _writing(torch.sigmoid),
    "relu_back": _relu_back,
    "tanh_back": _tanh_back,
    "residual": _residual,
    "scaled": _scaled,
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam,
    "fill": _fill,
    "copy": _copy,
    "chain": _chain,
}
