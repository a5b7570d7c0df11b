"""Several reports as one page: side by side in a table, or one figure over time with its chart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpumap.report.page.document import document
from gpumap.report.page.figures import figures
from gpumap.report.page.tables import tables
from gpumap.report.page.text import section, shown
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.report.charts.chart import Chart
    from gpumap.report.table import Table

_TITLE = "gpumap report"
_RIGHT = ("figure", "to the first")


def page(about: str, charts: Iterable[Chart], found: Iterable[Table]) -> str:
    """Return a page of charts and tables; `about` says of how many reports, and in which order."""
    return document(f"{_TITLE}: {about}", _body(about, charts, found))


def _body(about: str, charts: Iterable[Chart], found: Iterable[Table]) -> Iterator[str]:
    yield '<header class="top">'
    yield f"<h1>{_TITLE}</h1>"
    yield f'<p class="outcome">{shown(about)}</p>'
    yield "</header>"
    yield "<main>"
    yield from section("figures", "Figures", figures(charts))
    yield from section("tables", "Tables", tables(map(_whole, found), _RIGHT))
    yield "</main>"
    yield f'<footer class="end">gpumap {__version__}</footer>'


def _whole(table: Table) -> Table:
    """Return a table whose rows can be sorted: each says what it is of, not only the first."""
    rows, before = [], ""
    for row in table.rows:
        before = row[0] or before
        rows.append((before, *row[1:]))
    return replace(table, rows=tuple(rows))
