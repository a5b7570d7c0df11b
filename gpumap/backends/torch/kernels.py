"""gpumap's kernels as PyTorch computes them: the operations of each, on flat tensors."""

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


def _computed(function: Callable[..., Tensor]) -> Callable[..., None]:
    """Return a function that writes to its last argument what another one computes of the rest."""

    def write(*arguments: Any) -> None:
        arguments[-1].copy_(function(*arguments[:-1]))

    return write


def _sum(a: Tensor, out: Tensor) -> None:
    out[0] = a.sum()


def _adam(
    w: Tensor, m: Tensor, v: Tensor, g: Tensor,
    rate: float, first: float, second: float, epsilon: float,
) -> None:  # fmt: skip
    m.add_((g - m) * first)
    v.add_((g * g - v) * second)
    w.sub_(m / (v.sqrt() + epsilon) * rate)


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
    "sgd": lambda w, g, rate: w.sub_(g, alpha=rate),
    "adam": _adam,
    "fill": torch.Tensor.fill_,
    # one after the other: no kernel of one piece
    "chain": _computed(lambda x, w, b: (x @ w + b).clamp_(min=0).exp_().log_()),
}
