"""What is slow among the copies of the model's ladder, which stand in no table of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.escape import printable
from gpumap.report.table import Table, listed, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Measurement

CAUSE = "slow-link"
_NAMED = 4  # names that are written out


def tables(rows: Sequence[Measurement], shown: Iterable[Measurement]) -> Iterator[Table]:
    """Yield the reasons why links carry little, those of shown rows left out: they have them."""
    said = {row.case.id for row in shown}
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        if (why := row.explanation) and why.cause == CAUSE and row.case.id not in said:
            found.setdefault(why.text, []).append(row)
    if found:
        remarks = tuple(f"{_which(group)}: {printable(text)}" for text, group in found.items())
        yield Table("slow links, by the large copies of the model", (), (), remarks)


def _which(group: Sequence[Measurement]) -> str:
    """Return which copies: ``h2d, d2h, pageable, on a, b``."""
    ways = dict.fromkeys(row.case.name for row in group)
    memories = dict.fromkeys(str(row.case.params["memory"]) for row in group)
    names = list(dict.fromkeys(printable(named(row.case)) for row in group))
    return f"{', '.join([*ways, *memories])}, on {listed(names, _NAMED)}"
