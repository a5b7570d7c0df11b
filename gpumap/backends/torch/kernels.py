"""gpumap's kernels as PyTorch computes them: the operations of each, on flat tensors.

Numbers of 16 bits are computed in 32, and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpumap.dtypes import ITEMSIZE
from gpumap.kernels import cyclic

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _writing(function: Callable[..., Tensor]) -> Callable[..., None]:
    """Return a function of PyTorch's that writes to its last argument."""

    def write(*arguments: Any) -> None:
        function(*arguments[:-1], out=arguments[-1])

    return write


def _computed(function: Callable[..., Tensor]) -> Callable[..., None]:
    """Return a function that writes to its last argument what another one computes of the rest."""

    def write(*arguments: Any) -> None:
        arguments[-1].copy_(function(*map(_wide, arguments[:-1])))

    return write


def _wide(argument: Any) -> Any:
    """Return a tensor with 32 bits for 16; anything else as it is."""
    if isinstance(argument, torch.Tensor) and argument.is_floating_point():
        return argument.float() if argument.itemsize < ITEMSIZE["float32"] else argument
    return argument


def _sum(a: Tensor, out: Tensor) -> None:
    out[0] = _wide(a).sum()


def _momentum(w: Tensor, v: Tensor, g: Tensor, rate: float, decay: float) -> None:
    old, before, gradient = map(_wide, (w, v, g))
    speed = before * decay + gradient
    v.copy_(speed)
    w.copy_(old - speed * rate)


def _adam(
    w: Tensor, m: Tensor, v: Tensor, g: Tensor,
    rate: float, first: float, second: float, epsilon: float,
) -> None:  # fmt: skip
    old, mean, square, gradient = map(_wide, (w, m, v, g))
    mean = mean + (gradient - mean) * first
    square = square + (gradient * gradient - square) * second
    m.copy_(mean)
    v.copy_(square)
    w.copy_(old - mean / (square.sqrt() + epsilon) * rate)


_BINARY = {name: _writing(getattr(torch, name)) for name in ("add", "sub", "mul", "div", "maximum")}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_BINARY,
    **{f"{name}_cyclic": cyclic(function) for name, function in _BINARY.items()},
    **{f"{name}_each": _writing(getattr(torch, name)) for name in ("exp", "log", "tanh")},
    "relu": lambda a, out: torch.clamp(a, min=0, out=out),
    "sum": _sum,
    "sigmoid": _writing(torch.sigmoid),
    # a product would make NaN of infinity
    "relu_back": _computed(lambda a, d: torch.where(a > 0, d, torch.zeros_like(d))),
    "tanh_back": _computed(lambda a, d: d * (1 - a * a)),
    "residual": _computed(lambda a, b, scale: (a - b) * scale),
    "scaled": _writing(torch.mul),
    "sgd": lambda w, g, rate: w.sub_(g, alpha=rate),
    "momentum": _momentum,
    "adam": _adam,
    "fill": torch.Tensor.fill_,
    "copy": torch.Tensor.copy_,
    # one after the other: no kernel of one piece
    "chain": _computed(lambda x, w, b: (x @ w + b).clamp_(min=0).exp_().log_()),
}
