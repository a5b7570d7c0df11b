"""A report for a terminal. Every text goes in as `Text`: nothing of the user's is ever markup."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpumap.escape import printable
from gpumap.report import bars, curve, diagnoses, judged, plain, roster, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from gpumap.model import Probe, Report
    from gpumap.report import Style
    from gpumap.report.table import Table as TextTable

# JSON has them all
_DISPENSABLE = ("overlap", "error", "efficiency", "ideal", "of peak", "rate", "bus")
_WHOLE = ("case", "memory", "n")  # never broken over two lines
# Columns: in fewer, rich leaves cells out; a terminal folds lines, and shows all. Tables of few
# columns are folded by rich, cell by cell.
_NARROWEST, _FOLDED = 80, 40
_LEAST = 20  # columns: in fewer, lines are left to the terminal
_GAP = 3  # columns between two cells
_NAMING = 2  # columns that say which device it is: how a map writes it, and its name
_INDENT = 6  # of a figure, and what stands before it
MOST = 500  # rows: a terminal takes its time for more, and nobody scrolls back so far
_VERDICT = "verdict"  # the column of what was judged
_VERDICTS = {"used": "bold green", "partly": "bold yellow", "not used": "bold red"}
_LEVELS = {
    "good": "bold green",
    "below": "bold yellow",
    "untrusted": "yellow",
    "failed": "bold red",
}
_STYLES = {
    **dict.fromkeys(("failed", "fail", "regression", "missing", "new"), "bold red"),
    **dict.fromkeys(("ok", "pass", "improvement"), "green"),
    **dict.fromkeys(("inconclusive", "skipped"), "yellow"),
}


class _Ascii(io.StringIO):
    """What rich takes for a file that has no more than ASCII: it draws tables with that."""

    encoding = "ascii"


def render(report: Report, style: Style) -> str:
    """Return the report with tables and colours, for a terminal of the style's width."""
    special = {"check": _check, "devices": _devices, "doctor": _doctor}
    parts = special.get(report.kind, _measured)(report, style)
    whole = (*_headline(report), *parts)
    return _printed(whole, style, _FOLDED if report.kind in special else _NARROWEST)


def _headline(report: Report) -> Iterator[RenderableType]:
    for line in plain.above(report):
        yield Text(line, style=_LEVELS[report.headline.level] if report.headline else "")


def tables(found: Iterable[TextTable], style: Style) -> str:
    """Return tables, whatever they are of; the style's width is the terminal's."""
    return _printed(_tables(found, style.width), style).removeprefix("\n")


def _printed(parts: Iterable[RenderableType], style: Style, narrowest: int = _NARROWEST) -> str:
    stream = io.StringIO() if style.signs else _Ascii()
    console = Console(
        file=stream,
        width=max(style.width, narrowest),
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        if isinstance(part, Text) and not part.no_wrap:
            for line in _lines(part, console, style.width):
                console.print(line, soft_wrap=True)
        else:  # what is there to be pasted is the terminal's to wrap
            console.print(part, soft_wrap=isinstance(part, Text))
    return stream.getvalue()


def _lines(text: Text, console: Console, columns: int) -> Iterator[Text]:
    """Yield a line as those that a terminal has room for, none within a word, all as far in."""
    spaces = len(text.plain) - len(text.plain.lstrip(" "))
    room = columns - spaces
    if room < _LEAST or cell_len(text.plain) <= columns:
        yield text
        return
    for line in text[spaces:].wrap(console, room, no_wrap=False):
        line.rstrip()
        yield Text.assemble(" " * spaces, line)


def _check(report: Report, style: Style) -> Iterator[RenderableType]:
    yield from (Text(line, style="green") for line in plain.checked(report))
    yield from _tables(roster.tables(report), style.width)


def _measured(report: Report, style: Style) -> Iterator[RenderableType]:
    yield from (Text(line, style="yellow") for line in judged.skipped(report))
    if not rows.told(report):
        return
    yield from (Text(line, style="bold yellow") for line in plain.disturbed(report))
    for binding in plain.mapped(report):
        yield Text(plain.mapped_line(binding), style="green")
    if report.plans:
        yield from (Text(line) for line in ("", *rows.plan(report)))
        return
    yield from _tables(rows.tables(report), style.width)
    if style.signs:
        yield from _drawn(bars.lines(report.measurements, style.width))
        yield from _drawn(curve.lines(report.measurements, style.width))
    if footer := list(rows.footer(report)):
        yield from (Text(line, style="dim") for line in ("", *footer))


def _drawn(lines: Iterable[str]) -> Iterator[RenderableType]:
    """Yield a picture of lines below its title, if there is one."""
    for number, line in enumerate(lines):
        if not number:
            yield Text("")
        yield Text(line, style="" if number else "bold")


def _doctor(report: Report, style: Style) -> Iterator[RenderableType]:
    for found in report.diagnoses:
        yield Text(diagnoses.head(found), style=_VERDICTS[found.verdict])
        yield from (Text(f"  {line}") for line in diagnoses.lines(found))
    yield from _tables(diagnoses.tables(report.diagnoses), style.width)
    yield from (Text(line, style="bold") for line in diagnoses.remarks(report))


def _tables(every: Iterable[TextTable], width: int) -> Iterator[RenderableType]:
    """Yield tables, together no longer than anyone reads; what was judged is not left out."""
    shown = count = 0
    for found in every:
        most = MOST if _VERDICT in found.columns else MOST - shown
        count += len(found.rows)
        if most <= 0:
            continue
        shown += min(len(found.rows), most)
        yield Text("")
        yield Text(found.title, style="bold")
        if found.rows:
            yield from _table(found.columns, found.rows[:most], width)
        yield from (Text(f"  {line}") for line in found.remarks)
    if shown < count:
        yield Text("")
        more = "--format plain or json has all of them"
        yield Text(f"the first {shown} of {count} rows are shown; {more}", style="yellow")


def _table(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> Iterator[RenderableType]:
    """Yield a table without the columns that do not fit, the least telling first, and say so."""
    widths = [max(map(cell_len, each)) for each in zip(columns, *cells, strict=True)]
    kept, hidden = list(range(len(columns))), []
    for column in _DISPENSABLE:
        if sum(widths[n] for n in kept) + _GAP * len(kept) <= width:
            break
        if column in columns:
            kept.remove(columns.index(column))
            hidden.append(column)
    every = [(columns[n], *(row[n] for row in cells)) for n in kept]
    spaces = _shared(every, width)
    if spaces is None:
        yield from _stacked(columns, cells, width)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for each, space in zip(every, spaces, strict=True):
        right = each[0] in rows.RIGHT
        table.add_column(
            each[0],
            justify="right" if right else "left",
            no_wrap=each[0] in _WHOLE,
            width=space,
            overflow="fold",  # an id that is cut off says nothing
        )
    for row in cells:
        table.add_row(*(Text(row[n], style=_STYLES.get(row[n], "")) for n in kept))
    yield table
    if hidden:
        yield Text(f"  not shown for want of width: {', '.join(hidden)}", style="dim")


def _shared(columns: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the width of each column, so that no word is broken; None where that cannot be.

    Each has room for its longest word; what is left goes to those first that need least of it.
    """
    most = [max(map(cell_len, each)) for each in columns]
    found = [
        max(cell_len(word) for cell in each for word in cell.split() or [""])
        if each[0] not in _WHOLE
        else most[n]
        for n, each in enumerate(columns)
    ]
    free = width - _GAP * len(columns) - sum(found)
    if free < 0:
        return None
    for n in sorted(range(len(columns)), key=lambda n: most[n] - found[n]):
        given = min(most[n] - found[n], free)
        found[n] += given
        free -= given
    return found


def _stacked(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    width: int,
    first: int | None = None,
) -> Iterator[RenderableType]:
    """Yield each row as lines: what it is, then every figure with its name, none of them broken.

    What it is stands in the `first` columns, by default those before the figures.
    """
    if first is None:
        first = next((n for n, column in enumerate(columns) if column in rows.RIGHT), len(columns))
    for row in cells:
        yield Text(f"  {'  '.join(cell for cell in row[:first] if cell != '-')}", style="bold")
        line = ""
        for column, cell in zip(columns[first:], row[first:], strict=True):
            told = cell if column == "status" else f"{column} {cell}"
            if line and cell_len(line) + cell_len(told) + _INDENT > width:
                yield Text(f"    {line}")
                line = ""
            if cell != "-":
                line += f"{'  ' if line else ''}{told}"
        yield Text(f"    {line}")


def _devices(report: Report, style: Style) -> Iterator[RenderableType]:
    for probe in report.backends:
        yield from _backend(probe, style.width)
    if report.source is not None:
        yield Text(plain.paste_line(report), style="bold", no_wrap=True)


def _backend(probe: Probe, width: int) -> Iterator[RenderableType]:
    yield Text(plain.backend_line(probe), style="bold" if probe.usable else "yellow")
    notes = probe.notes if probe.usable else ()
    yield from (Text(f"  note: {printable(note)}") for note in notes)
    if probe.fix:
        yield Text(f"  fix: {printable(probe.fix)}")
    if probe.devices:
        yield from _listed([plain.device_row(device) for device in probe.devices], width)
    yield Text("")


def _listed(cells: Sequence[Sequence[str]], width: int) -> Iterator[RenderableType]:
    """Yield devices as a table, or on a narrow terminal as lines: small cells tell little."""
    known = [n for n, each in enumerate(zip(*cells, strict=True)) if set(each) != {"-"}]
    columns = [plain.DEVICE_COLUMNS[n] for n in known]  # a column of dashes only costs width
    cells = [[row[n] for n in known] for row in cells]
    spaces = _shared([(name, *each) for name, *each in zip(columns, *cells, strict=True)], width)
    if spaces is None and width < _NARROWEST:
        yield from _stacked(columns, cells, width, first=_NAMING)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for n, column in enumerate(columns):
        table.add_column(column, width=spaces[n] if spaces else None, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    yield table
