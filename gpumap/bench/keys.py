"""Keys of rows: the parameters that a benchmark gives its cases, typed.

Reports hold them as words and numbers. What other parts of gpumap need of a row, they read here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct, convert

if TYPE_CHECKING:
    from gpumap.model import Case

HOST = "host"  # the case of what the host does itself
CALLS = ("affine", "product", HOST)  # cases of a break-even
REPEATS = 100  # calls of a sample at most: as Theano's users did
LADDER = "ladder"  # the pattern of what a model is fitted to


def is_call(case: Case) -> bool:
    """Return whether a case is of the calls of a break-even, and no copy."""
    return case.bench == "transfer" and case.name in CALLS


class CopyKey(Struct, frozen=True, kw_only=True):
    """Of copies between host and devices, and between devices: alone, at once, or of a sweep."""

    bytes: int
    pattern: str
    memory: str
    mode: str

    @classmethod
    def of(cls, case: Case) -> Self:
        """Return those of a case."""
        return convert(case.params, cls, strict=False)
