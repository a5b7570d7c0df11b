"""Tables of text, laid out as lines that fit their room.

First columns are left out, the least telling first, then cells are wrapped between words. Where
that is not enough each row becomes lines of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gpumap.escape import printable
from gpumap.text import pieces, width

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Sequence

# Headings of columns that are aligned on the right.
RIGHT = frozenset((
    "time", "rate", "bandwidth", "bus", "of peak", "of ideal", "speed-up", "over host", "ideal",
    "efficiency", "overlap", "error", "n", "latency", "n1/2", "figure", "new/base",
    "threshold", "step", "train+comm", "sync", "wait", "examples/s", "loss", "accuracy", "bytes",
    "count", "total time", "events", "busy", "longest idle", "share", "rank", "local", "process",
    "devices", "exchange",
    *(f"{prefix}{unit}" for prefix in ("", *"kMGTP") for unit in ("FLOP/s", "B/s")),
))  # fmt: skip
PIPED = 100  # columns: wider lines are wrapped or cut by logs, diffs and pages
GAP = 2  # columns between two cells
_INDENT = 2
# Columns that are left out where there is no room; -v and JSON have them.
_DISPENSABLE = (
    "over host", "n", "of ideal", "vs control", "accuracy", "loss", "n1/2", "latency",
)  # fmt: skip
_WRAPPED = 24  # columns of a text from which on it may be wrapped
_WORDS = 12  # columns that wrapped text has at least
# An interval is one word, and so is a figure with its unit.
_WORD = re.compile(r"[\d.]+ [A-Za-zµ/]+[,;:]? ?|\[[^]]{0,24}\][,;]? ?|[^ ,]*[ ,]|[^ ,]+")
_LEAST = 16  # columns: in fewer, lines are left to the terminal


class Line(NamedTuple):
    """A line of text.

    Attributes:
        look: A word that colours stand for; `head` is that of a table's headings.
        parts: Its texts, each with the cell that it is of.
    """

    look: str = ""
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Return the whole line."""
        return printable("".join(text for text, _ in self.parts).rstrip())


_INDENTED = (" " * _INDENT, "")  # begins each line of a table


Columns = list[tuple[str, ...]]  # each with its heading first


def lines(table: Table, room: int | None, *, whole: bool = False) -> Iterator[Line]:
    """Yield a table, without its title and remarks, printable, in so many columns if that can be.

    Args:
        table: has rows.
        room: of a line, in columns; None: as wide as it comes.
        whole: leave no column out.
    """
    heads, *rows = (tuple(map(printable, row)) for row in (table.columns, *table.rows))
    table = table._replace(columns=heads, rows=tuple(rows))
    columns: Columns = list(zip(heads, *rows, strict=True))
    whole = whole or not table.right
    hidden: list[str] = []
    if room is not None:
        for name in () if whole else _DISPENSABLE:
            if _total(columns) > room and name in table.columns:
                columns = [column for column in columns if column[0] != name]
                hidden.append(name)
    widths = _widths(columns, table.right, room)
    if widths is None:
        yield from _stacked(table, room or PIPED)
        return
    yield from _grid(columns, widths, table.right)
    if hidden:
        text = f"hidden at this width: {', '.join(hidden)} (-v shows all)"
        yield from (
            Line("note", (_INDENTED, (part, "")))
            for part in wrapped(text, (room or PIPED) - _INDENT)
        )


def wrapped(text: str, room: int) -> list[str]:
    """Return a text as lines that fit, broken behind blanks and commas; else within a word."""
    if width(text) <= room:
        return [text]
    found = [""]
    words = (piece for word in _WORD.findall(text) for piece in pieces(word, room))
    for word in words:
        if found[-1].strip() and width(found[-1]) + width(word.rstrip(" ")) > room:
            found.append("")
        found[-1] += word
    return [line.rstrip(" ") for line in found]


def paragraph(text: str, room: int | None) -> list[str]:
    """Return a line as printable ones that there is room for, all as far in."""
    text = printable(text)
    spaces = " " * (len(text) - len(text.lstrip(" ")))
    if room is None or width(text) <= room or room - len(spaces) < _LEAST:
        return [text]
    inner = wrapped(text.lstrip(" "), room - len(spaces))
    return [printable(f"{spaces}{line}") for line in inner]


def _wide(column: Sequence[str]) -> int:
    return max(map(width, column))


def _total(columns: Columns) -> int:
    return _INDENT + sum(map(_wide, columns)) + GAP * (len(columns) - 1)


def _widths(columns: Columns, right: Container[str], room: int | None) -> list[int] | None:
    """Return the width of each column; None where long texts cannot be wrapped to fit."""
    most = [_wide(column) for column in columns]
    if room is None or _total(columns) <= room:
        return most
    found = [
        wide if column[0] in right or wide <= _WRAPPED else _needed(column)
        for column, wide in zip(columns, most, strict=True)
    ]
    free = room - _INDENT - GAP * (len(columns) - 1) - sum(found)
    if free < 0:
        return None
    for n in sorted(range(len(columns)), key=lambda n: most[n] - found[n]):
        given = min(most[n] - found[n], free)
        found[n] += given
        free -= given
    return found


def _needed(column: Sequence[str]) -> int:
    return max(_WORDS, *(width(word) for cell in column for word in _WORD.findall(cell)))


def _grid(columns: Columns, widths: Sequence[int], right: Container[str]) -> Iterator[Line]:
    heads = [column[0] for column in columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        cells = [wrapped(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        for n in range(max(map(len, cells))):
            parts = [_INDENTED]
            for head, cell, piece, wide in zip(heads, row, cells, widths, strict=True):
                text = piece[n] if n < len(piece) else ""
                blank = " " * (wide - width(text))
                padded = f"{blank}{text}" if head in right else f"{text}{blank}"
                parts += ((padded, cell), (" " * GAP, ""))
            yield Line("" if number else "head", tuple(parts[:-1]))


def _stacked(table: Table, room: int) -> Iterator[Line]:
    """Yield each row as lines: what it is, then every figure with its name, none of them broken."""
    first = next((n for n, head in enumerate(table.columns) if head in table.right), 2)
    for row in table.rows:
        for text in wrapped("  ".join(cell for cell in row[:first] if cell != "-"), room - _INDENT):
            yield Line("record", (_INDENTED, (text, "")))
        figures = zip(table.columns[first:], row[first:], strict=True)
        texts = [f"{head} {cell}" for head, cell in figures if cell != "-"]
        yield from _filled(texts, room - 2 * _INDENT)


def _filled(texts: Sequence[str], room: int) -> Iterator[Line]:
    lines = [""]
    for text in texts:
        if lines[-1] and width(lines[-1]) + GAP + width(text) > room:
            lines.append("")
        lines[-1] += f"{' ' * GAP if lines[-1] else ''}{text}"
    for line in filter(None, lines):
        for part in wrapped(line, room) if room >= _LEAST else [line]:
            yield Line("", (_INDENTED, _INDENTED, (part, "")))


class Table(NamedTuple):
    """Rows that belong together, and what is to be said below them.

    `right` has its columns of figures, which are aligned so; none: its headings are the user's
    names, and mean nothing else.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]
    right: Collection[str] = RIGHT

    def full(self) -> Table:
        """Return the table without its columns of dashes: they tell nothing."""
        kept = [n for n in range(len(self.columns)) if any(row[n] != "-" for row in self.rows)]
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return self._replace(columns=tuple(self.columns[n] for n in kept), rows=rows)
