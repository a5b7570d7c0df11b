"""A report for a terminal. Every text goes in as `Text`: nothing of the user's is ever markup."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gpumap.escape import printable, width
from gpumap.report import diagnoses, plain, roster, rows
from gpumap.report.table import lines as layout
from gpumap.report.table import paragraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Probe, Report
    from gpumap.report import Style
    from gpumap.report.table import Table as TextTable

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
    **dict.fromkeys(("failed", "! failed", "fail", "regression", "missing", "new"), "bold red"),
    **dict.fromkeys(("ok", "pass", "improvement"), "green"),
    **dict.fromkeys(("inconclusive", "skipped", "~ noisy", "? few"), "yellow"),
}
_KINDS = {"head": "bold", "record": "bold", "note": "dim"}  # of lines


def render(report: Report, style: Style) -> str:
    """Return the report with tables and colours, for a terminal of the style's width."""
    special = {"check": _check, "devices": _devices, "doctor": _doctor}
    parts = special.get(report.kind, _measured)(report, style)
    return _printed((*_headline(report), *parts), style)


def _headline(report: Report) -> Iterator[Text]:
    for line in plain.above(report):
        yield Text(line, style=_LEVELS[report.headline.level] if report.headline else "")


def tables(found: Iterable[TextTable], style: Style) -> str:
    """Return tables, whatever they are of; the style's width is the terminal's."""
    return _printed(_tables(found, style), style).removeprefix("\n")


def _printed(parts: Iterable[Text], style: Style) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(style.width, 1),
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        # a line of a table is as wide as it is, and what is there to be pasted the terminal's
        texts = [part.plain] if part.no_wrap else paragraph(part.plain, style.width)
        for text in texts:
            console.print(part if part.no_wrap else Text(text, part.style), soft_wrap=True)
    return stream.getvalue()


def _check(report: Report, style: Style) -> Iterator[Text]:
    yield from (Text(line, style="green") for line in plain.checked(report))
    yield from (Text(line, style="yellow") for line in plain.skipped(report))
    yield from _tables(roster.tables(report), style)


def _measured(report: Report, style: Style) -> Iterator[Text]:
    yield from (Text(line, style="yellow") for line in plain.skipped(report))
    if not rows.told(report):
        return
    yield from (Text(line, style="bold yellow") for line in plain.disturbed(report))
    for binding in plain.mapped(report):
        yield Text(plain.mapped_line(binding), style="green")
    if report.plans:
        yield from (Text(line) for line in ("", *rows.plan(report)))
        return
    yield from _tables(rows.tables(report, verbose=style.verbose), style)
    if footer := list(rows.footer(report)):
        yield from (Text(line, style="dim") for line in ("", *footer))


def _doctor(report: Report, style: Style) -> Iterator[Text]:
    for found in report.diagnoses:
        yield Text(diagnoses.head(found), style=_VERDICTS[found.verdict])
        yield from (Text(f"  {line}") for line in diagnoses.lines(found))
    yield from _tables(diagnoses.tables(report.diagnoses), style)
    yield from (Text(line, style="bold") for line in diagnoses.remarks(report))


def _tables(every: Iterable[TextTable], style: Style) -> Iterator[Text]:
    """Yield tables, together no longer than anyone reads; what was judged is not left out."""
    shown = count = 0
    for found in every:
        most = MOST if _VERDICT in found.columns and not found.of_names else MOST - shown
        count += len(found.rows)
        if most <= 0:
            continue
        shown += min(len(found.rows), most)
        yield Text("")
        yield Text(found.title, style="bold")
        if found.rows:
            yield from _grid(replace(found, rows=found.rows[:most]), style)
        yield from (Text(f"  {line}") for line in found.remarks)
    if shown < count:
        yield Text("")
        more = "--format plain or json has all of them"
        yield Text(f"the first {shown} of {count} rows are shown; {more}", style="yellow")


def _grid(table: TextTable, style: Style) -> Iterator[Text]:
    """Yield the lines of a table, its headings above a rule."""
    for line in layout(table, style.width, whole=style.verbose):
        look = _KINDS.get(line.kind, "")
        parts = [(text, _STYLES.get(cell, "")) for text, cell in line.parts]
        text = Text.assemble("  ", *parts, style=look, no_wrap=True)
        text.rstrip()
        yield text
        if line.kind == "head":
            wide = sum(width(text) for text, _ in line.parts)
            yield Text(f"  {('─' if style.signs else '-') * wide}", no_wrap=True)


def _devices(report: Report, style: Style) -> Iterator[Text]:
    for probe in report.backends:
        yield from _backend(probe, style)
    if report.source is not None:
        yield Text(plain.paste_line(report), style="bold", no_wrap=True)


def _backend(probe: Probe, style: Style) -> Iterator[Text]:
    yield Text(plain.backend_line(probe), style="bold" if probe.usable else "yellow")
    notes = probe.notes if probe.usable else ()
    yield from (Text(f"  note: {printable(note)}") for note in notes)
    if probe.fix:
        yield Text(f"  fix: {printable(probe.fix)}")
    if probe.devices:
        yield from _grid(plain.device_table(probe), style)
    yield Text("")
