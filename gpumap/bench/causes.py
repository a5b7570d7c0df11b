"""Why rows of a group are slower than they could be: of several devices, then of the benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import find
from gpumap.judge.bottlenecks import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Measurement


def with_causes(bench: str, rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows of a group of a benchmark, with their causes."""
    spec = find(bench)
    found = explained(rows, products=spec.products)
    return spec.explain(found) if spec.explain else found
