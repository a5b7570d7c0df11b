"""The arithmetic of PyTorch's products, which is a setting of the whole process.

float32 is IEEE's unless a product requests TF32; sums of 16-bit factors are in 32 bits. The
settings of `fp32_precision` replace `allow_tf32`: who uses one of each gets an error.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpumap.model import Param

_NARROW = (  # of cuBLAS and hipBLAS
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)
_lock = threading.Lock()


class Precision:
    """What float32 means inside: one thread at a time, for there is one setting for all."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __enter__(self) -> None:
        _lock.acquire()
        if torch.backends.cuda.matmul.fp32_precision != self._word:
            settle(self._word)

    def __exit__(self, *exc: object) -> None:
        _lock.release()


IEEE, TF32 = Precision("ieee"), Precision("tf32")


def settle(word: str) -> None:
    """Let products of CUDA's from now on be "ieee" or "tf32", and all others IEEE's."""
    backends: Any = torch.backends
    backends.fp32_precision = "ieee"  # of whatever has no setting of its own
    matmul = backends.cuda.matmul
    matmul.fp32_precision = word
    for name in _NARROW:
        setattr(matmul, name, False)


def settled() -> dict[str, Param]:
    """Return what PyTorch says of its arithmetic, for a report."""
    matmul: Any = torch.backends.cuda.matmul
    narrow = any(getattr(matmul, name) for name in _NARROW)
    return {"float32_products": matmul.fp32_precision, "reduced_precision_sums": narrow}


def multiply(left: Any, right: Any, out: Any, alpha: float, beta: float, repeat: int = 1) -> None:
    """Queue out = alpha left.right + beta out, `repeat` times; beta 0 does not read `out`."""
    if alpha == 1.0 and beta == 0.0:
        product = torch.mm
        for _ in range(repeat):
            product(left, right, out=out)
        return
    for _ in range(repeat):
        out.addmm_(left, right, beta=beta, alpha=alpha)
