"""What benchmarks answer and claim: the headline of their rows, and the metrics that it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import find
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.bench.registry import Answer
    from gpumap.model import Measurement


def of_bench(bench: str) -> Answer | None:
    """Return what answers for a benchmark; None where nothing does."""
    spec = find(bench)
    return spec.headline if spec is not None else None


def with_claims(rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return rows that say which of their metrics the headline claims."""
    every = tuple(rows)
    claims: dict[str, tuple[str, ...]] = {}  # by the id of a row; of a benchmark that says some
    for bench in dict.fromkeys(row.case.bench for row in every):
        spec, group = find(bench), [row for row in every if row.case.bench == bench]
        if spec is not None and spec.claims is not None:
            claims |= dict.fromkeys((row.case.id for row in group), ())
            for id_, metric in spec.claims(group):
                claims[id_] += (metric,)
    return tuple(replace(row, claims=claims.get(row.case.id)) for row in every)
