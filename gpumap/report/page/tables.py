"""Tables as HTML: they scroll in a region of their own, and a script of the page sorts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.page.text import LONG, breakable, items, shown, tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.report.table import Table


def tables(found: Iterable[Table], right: Iterable[str]) -> Iterator[str]:
    """Yield tables; the columns named in `right` are figures, and stand on that side."""
    figures = frozenset(right)
    for table in found:
        yield from one(table, figures)


def one(table: Table, right: frozenset[str]) -> Iterator[str]:
    """Yield a table under its heading, and below it what is to be said of it."""
    yield '<div class="table">'
    yield f"<h3>{breakable(table.title)}</h3>"
    if table.rows:
        yield from _grid(table, right)
    yield from items(table.remarks, "remarks")
    yield "</div>"


def _grid(table: Table, right: frozenset[str]) -> Iterator[str]:
    classes = _classes(table, right)
    name = shown(table.title)
    yield f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table>'
    heads = (
        f'<th scope="col"{class_}>{shown(column)}</th>'
        for column, class_ in zip(table.columns, classes, strict=True)
    )
    yield f"<thead><tr>{''.join(heads)}</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(_cells(row, classes))}</tr>"
    yield "</tbody></table></div>"


def _classes(table: Table, right: frozenset[str]) -> list[str]:
    """Return the attribute of each column's cells."""
    found = []
    for n, column in enumerate(table.columns):
        if column in right:
            found.append(' class="n"')
        elif any(len(row[n]) > LONG for row in table.rows):
            found.append(' class="long"')
        else:
            found.append("")
    return found


def _cells(row: Sequence[str], classes: Sequence[str]) -> Iterator[str]:
    """Yield the cells of a row; its first one says what the row is of."""
    yield f'<th scope="row"{classes[0]}>{breakable(row[0])}</th>'
    for cell, class_ in zip(row[1:], classes[1:], strict=True):
        known = tone(cell) if not class_ else ""
        yield (
            f'<td class="{known}">{shown(cell)}</td>'
            if known
            else (f"<td{class_}>{breakable(cell)}</td>")
        )
