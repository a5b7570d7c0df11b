"""What a benchmark says of rows that were measured.

Their causes are those of several devices, then its own. Claims are the metrics that its headline
rests on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import find
from gpumap.judge.bottlenecks import explained
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.model import Measurement


def with_causes(bench: str, rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows of a group with what makes them slower than they could be."""
    spec = find(bench)
    found = explained(rows, products=spec.products)
    return spec.explain(found) if spec.explain else found


def with_claims(rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return rows that say which of their metrics the headline claims."""
    every = tuple(rows)
    claims: dict[str, tuple[str, ...]] = {}  # by the id of a row; of a benchmark that says some
    for bench in dict.fromkeys(row.case.bench for row in every):
        spec, group = find(bench), [row for row in every if row.case.bench == bench]
        if spec.claims is not None:
            claims |= dict.fromkeys((row.case.id for row in group), ())
            for id_, metric in spec.claims(group):
                claims[id_] += (metric,)
    return tuple(replace(row, claims=claims.get(row.case.id)) for row in every)
