"""A report as GitHub-flavoured Markdown: for a step's summary, a comment, a page.

The heading is the headline; status and exit code, errors and notes come next, then the tables, and
at the end, folded, every row by its id. Figures are written as they are. Every other text of the
report is in a code span (`code`): there nothing is a link, a mention, an emoji, HTML or formatting,
and no cell ends at a `|` of a name.

A step's summary on GitHub holds 1 MiB, and one that is longer is dropped as a whole: so what does
not fit is left out from the end, and a line says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.escape import printable
from gpumap.report import outcomes, plain, programs, rows
from gpumap.report.diagnostics import SHOWN, folded, left_out, more
from gpumap.report.table import RIGHT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.errors import Diagnostic
    from gpumap.model import Measurement, Report
    from gpumap.report import Style
    from gpumap.report.table import Table

LIMIT = 2**20  # bytes of a step's summary
_IN_DIAGNOSES = "diagnosis"  # an error that says what a diagnosis does
_CUT = "The rest does not fit into 1 MiB and is left out; `--format json` has all of it."
_ROOM = 256  # bytes, for what is said of a cut
_NUMBER = r"-?[\d.,]+(e[+-]\d+)?"
_FIGURE = re.compile(
    rf"-|{_NUMBER}( ?[A-Za-zµ/%]{{1,9}})?( ±\d+%)?( \[{_NUMBER}, {_NUMBER}\])?( < {_NUMBER})?",
    re.ASCII,
)
_WORD = re.compile(r"[a-z0-9][a-z0-9%/ -]*")  # of our own: kinds, statuses, heads of columns
_TICKS = re.compile("`+")
_FOLDED, _UNFOLDED = "<details><summary>Every row</summary>", "</details>"


def render(report: Report, style: Style) -> str:
    """Return the report as Markdown of at most LIMIT bytes."""
    return "".join(f"{line}\n" for line in _fitting(_lines(report, style)))


def code(text: str) -> str:
    """Return a text as a code span that shows just that; nothing for nothing."""
    shown = printable(text)
    if not shown:
        return ""
    fence = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    edge = " " if shown[0] in " `" or shown[-1] in " `" else ""  # one on either side is dropped
    return f"{fence}{edge}{shown}{edge}{fence}"


def _lines(report: Report, style: Style) -> Iterator[str]:
    simulated = ", simulated" if report.simulated else ""
    kind, status = _word(report.kind), _word(report.status)
    for line in plain.headline(report):
        yield f"## {code(line)}"
        yield ""
    yield f"gpumap {kind}: {status}, exit code {report.exit_code}{simulated}"
    yield ""
    passed = [problem.diagnostic for problem in report.errors if problem.exit == 0]
    problems = [problem for problem in report.errors if problem.diagnostic.code != _IN_DIAGNOSES]
    yield from _listed("Errors", [p.diagnostic for p in problems if p.exit != 0])
    yield from _listed("Notes", [*passed, *report.notes])
    if report.kind == "devices":
        yield from _devices(report)
    elif report.kind == "check":
        yield from _titled("Map", list(plain.checked(report)))
        yield from _tabled(programs.ranks(report))
    elif report.kind == "doctor":
        yield from _doctor(report)
    else:
        yield from _measured(report, style)


def _doctor(report: Report) -> Iterator[str]:
    for found in report.diagnoses:
        yield from _titled(code(outcomes.verdict_line(found)), list(outcomes.finding_lines(found)))
    yield from _tabled(outcomes.examples(report.diagnoses))
    yield from _paragraphs(outcomes.doctor_remarks(report))


def _listed(title: str, diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield what there is to say; as much of it as on a terminal."""
    if not diagnostics:
        return
    yield f"### {title}"
    yield ""
    every = list(folded(diagnostics))
    for found, others in every[:SHOWN]:
        entry = "" if found.entry is None else f" in entry {found.entry}"
        label = "fix" if found.severity == "error" else "hint"
        hint = "" if found.hint is None else f" ({label}: {code(found.hint)})"
        alike = f", {more(others)}" if others else ""
        yield f"- **{found.severity}**{entry}: {code(found.message)}{hint}{alike}"
    if left := left_out(every):
        yield f"- and {left} more; `--format json` lists them all"
    yield ""


def _measured(report: Report, style: Style) -> Iterator[str]:
    yield from _titled("Map", [plain.mapped_line(binding) for binding in plain.mapped(report)])
    if report.plans:
        yield from _titled("Plan", [line for line in rows.plan(report) if line.strip() == line])
    else:
        yield from _tabled(rows.tables(report, verbose=style.verbose))
        yield from _paragraphs(rows.footer(report))
    yield from _every(report.measurements)


def _every(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield every row by its id, folded: also controls, and what was skipped."""
    if not measurements:
        return
    yield _FOLDED
    yield ""
    yield from _table(outcomes.EVERY, outcomes.every(measurements).rows)
    yield _UNFOLDED
    yield ""


def _devices(report: Report) -> Iterator[str]:
    for backend in report.backends:
        yield f"### {code(plain.backend_line(backend))}"
        yield ""
        yield from _items(plain.about(backend))
        yield from _table(plain.DEVICE_COLUMNS, plain.device_rows(report, backend))
    if report.source is not None:
        yield from _paragraphs([plain.paste_line(report)])


def _titled(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"### {title}"
        yield ""
        yield from _items(texts)


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield code(text)
        yield ""


def _items(texts: Iterable[str]) -> Iterator[str]:
    found = [f"- {code(text)}" for text in texts if text]
    if found:
        yield from (*found, "")


def _tabled(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        yield f"### {code(table.title)}"
        yield ""
        yield from _table(table.columns, table.rows)
        yield from _items(table.remarks)


def _table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table, if there is a row; a column of figures is aligned right."""
    found = list(cells)
    if not found:
        return
    from tabulate import tabulate

    figures = [
        column in RIGHT or all(_FIGURE.fullmatch(row[n]) for row in found)
        for n, column in enumerate(columns)
    ]
    table = tabulate(
        [list(map(_cell, row, figures)) for row in found],
        [_word(column).replace("|", r"\|") for column in columns],
        "pipe",
        colalign=["right" if bare else "left" for bare in figures],
        disable_numparse=True,
    )
    yield from (*table.split("\n"), "")


def _cell(text: str, bare: bool) -> str:  # noqa: FBT001 - one for each column
    return text if bare and _FIGURE.fullmatch(text) else code(text).replace("|", r"\|")


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else code(text)


def _fitting(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that fit, with what ends a cut one."""
    left, folded = LIMIT - _ROOM, False
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            yield from ("", *((_UNFOLDED, "") if folded else ()), _CUT)
            return
        folded = line == _FOLDED or (folded and line != _UNFOLDED)
        yield line
