"""What the benchmarks of a report answer and claim: its headline, and the metrics that it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import find
from gpumap.judge import headline as headlines
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.bench.registry import Answer
    from gpumap.model import Headline, Measurement, Report


def headline(report: Report) -> Headline:
    """Return the headline of a finished report."""
    return headlines.headline(report, _answer)


def _answer(bench: str) -> Answer | None:
    spec = find(bench)
    return spec.headline if spec is not None else None


def with_claims(rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return rows that say which of their metrics the headline claims."""
    by_bench: dict[str, list[Measurement]] = {}
    every = tuple(rows)
    for row in every:
        by_bench.setdefault(row.case.bench, []).append(row)
    claims: dict[str, dict[str, list[str]]] = {}
    for bench, group in by_bench.items():
        spec = find(bench)
        if spec is None or spec.claims is None:
            continue
        of_rows: dict[str, list[str]] = {row.case.id: [] for row in group}
        for id_, metric in spec.claims(group):
            of_rows[id_].append(metric)
        claims[bench] = of_rows
    return tuple(
        replace(row, claims=tuple(claims[row.case.bench][row.case.id]))
        if row.case.bench in claims
        else row
        for row in every
    )
