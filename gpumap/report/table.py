"""A table of text, and the words that its cells have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.cut import short
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.model import Case, Estimate


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that belong together, and what is to be said below them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]
    of_names: bool = False  # its headings are the user's, and mean nothing else


def estimate(figure: Estimate | None) -> str:
    """Return a figure with its interval, if it has one: ``35.2 ms [35.1, 35.3]``."""
    if figure is None:
        return "-"
    if figure.impossible:
        return "impossible"
    ends = (figure.low, figure.high) if figure.has_interval else ()
    value, *interval = units.together((figure.value, *ends), figure.unit)
    return f"{value} [{', '.join(interval)}]" if interval else value


def placed(cases: Iterable[Case]) -> Callable[[Case], str]:
    """Return what tells where a case of a table ran: its names, ``a (cupy)`` if backends differ."""
    several = len({case.backend for case in cases}) > 1

    def told(case: Case) -> str:
        names = short(case)
        return f"{names} ({printable(case.backend)})" if several else names

    return told


def listed(names: Sequence[str], most: int) -> str:
    """Return names one by one, ``a, b and 2 more`` where there are more than that many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def named(case: Case) -> str:
    """Return the names that a case ran on, with an arrow where they have an order."""
    return ("->" if case.ordered else "+").join(case.names)
