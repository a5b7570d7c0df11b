"""A report as one page of HTML that needs nothing else: no network, no other file.

Verdicts come first where there are any, then what went wrong, the map and the machine, figures with
their text beside them, and the tables that every format has. All text goes through `page.text`:
nothing of the user's or of a driver's is ever markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report import diagnoses, every, plain, rows
from gpumap.report.charts import charts
from gpumap.report.page import top
from gpumap.report.page.document import document
from gpumap.report.page.figures import figures
from gpumap.report.page.tables import one, tables
from gpumap.report.page.text import items, section, shown, tone
from gpumap.report.page.told import told
from gpumap.report.table import Table
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Probe, Report
    from gpumap.report import Style

_IN_DIAGNOSES = "diagnosis"  # an error that says what a diagnosis does
_RIGHT = frozenset((*rows.RIGHT, *plain.RIGHT))


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as a page."""
    return document(f"{top.title(report)}: {report.status}", _body(report))


def _body(report: Report) -> Iterator[str]:
    yield from top.top(report)
    yield "<main>"
    yield from top.simulated(report)
    yield from (f'<p class="notice">{shown(line)}</p>' for line in plain.disturbed(report))
    yield from section("verdicts", "Verdicts", tables(rows.verdicts(report), _RIGHT))
    yield from _diagnosed(report)
    yield from _wrong(report)
    about = (*top.checked(report), *top.mapped(report), *top.machine(report))
    yield from section("map", "Map and machine", about)
    yield from _found(report)
    yield from section("notes", "Notes", _notes(report))
    yield from _every(report)
    yield "</main>"
    yield f'<footer class="end">gpumap {shown(report.version or __version__)}</footer>'


def _wrong(report: Report) -> Iterator[str]:
    text = report.source.text if report.source else None
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    shown_there = [found for found in wrong if found.code != _IN_DIAGNOSES]
    return section("errors", "Errors", told(shown_there, text))


def _notes(report: Report) -> Iterator[str]:
    text = report.source.text if report.source else None
    passed = [problem.diagnostic for problem in report.errors if problem.exit == 0]
    return told([*passed, *report.notes], text)


def _found(report: Report) -> Iterator[str]:
    """Yield what the run is about: devices, a plan, or figures and tables."""
    if report.kind == "devices":
        yield from section("devices", "Devices", _devices(report))
    elif report.plans:
        plan = (line for line in rows.plan(report))
        yield from section("plan", "Plan", items(plan, "lines"))
    elif rows.told(report):
        yield from section("figures", "Figures", figures(charts(report)))
        yield from section("tables", "Tables", tables(rows.figures(report), _RIGHT))
        yield from section("method", "How it was measured", items(rows.footer(report), "lines"))


def _diagnosed(report: Report) -> Iterator[str]:
    if report.kind != "doctor":
        return
    yield from section("diagnoses", "Diagnoses", _diagnoses(report))


def _diagnoses(report: Report) -> Iterator[str]:
    for found in report.diagnoses:
        yield f'<h3 class="{tone(found.verdict)}">{shown(diagnoses.head(found))}</h3>'
        yield from items(diagnoses.lines(found), "lines told")
    yield from tables(diagnoses.tables(report.diagnoses), _RIGHT)
    yield from items(diagnoses.remarks(report), "lines")


def _devices(report: Report) -> Iterator[str]:
    for probe in report.backends:
        found = tuple(tuple(plain.device_row(device)) for device in probe.devices)
        remarks = tuple(_about(probe))
        table = Table(plain.backend_line(probe), plain.DEVICE_COLUMNS, found, remarks)
        yield from one(table, _RIGHT)
    if report.source is not None:
        yield f"<p><code>{shown(plain.paste_line(report))}</code></p>"


def _about(probe: Probe) -> Iterator[str]:
    yield from (f"note: {note}" for note in probe.notes if probe.usable)
    if probe.fix:
        yield f"fix: {probe.fix}"


def _every(report: Report) -> Iterator[str]:
    """Yield every row by its id, folded."""
    if report.measurements:
        yield '<section aria-labelledby="rows">'
        yield f'<h2 id="rows">{every.TITLE}</h2>'
        yield f"<details><summary>{len(report.measurements)} rows by their ids</summary>"
        yield from one(every.table(report.measurements), _RIGHT)
        yield "</details>"
        yield "</section>"
