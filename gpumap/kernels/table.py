"""Every elementwise and reduction kernel: its arguments, and what it computes, in NumPy.

The reference is the numpy backend and the gold answer of every other one. Arguments are written
as a kernel sees them: `buffer` in and out, `scalar` by value; all buffers of a call share a dtype
unless the kernel says otherwise, and `size` is the number of elements it works on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

Argument = Literal["buffer", "scalar"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's name, its arguments in order, and its meaning."""

    name: str
    arguments: tuple[Argument, ...]
    reference: Callable[..., None]  # on flat arrays, cut to `size`


def _fill(out: Any, value: float) -> None:
    out[:] = value


KERNELS = {kernel.name: kernel for kernel in (Kernel("fill", ("buffer", "scalar"), _fill),)}


@cache
def text(name: str) -> str:
    """Return the source text `name` of this folder, such as ``gemm.cl``."""
    return resources.files("gpumap.kernels").joinpath(name).read_text(encoding="utf-8")


def elementwise(dialect: Literal["opencl", "cuda"]) -> str:
    """Return the text of every kernel of the table, in a dialect of C."""
    return text(f"{dialect}.h") + text("elementwise.c")
