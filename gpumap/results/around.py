"""What stands around tables of figures: why there are none, what they must not be read without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.parts import Section, Text
from gpumap.results import mapped, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Binding, Report
    from gpumap.report.table import Table

DISTURBED = "cpu-contention"  # the note that other processes had the cores
STOPPED = ("interrupted", "timeout")  # statuses of runs that have parts of their result


def around(
    report: Report,
    tables: Iterable[Table],
    method: Iterable[str] = (),
    *,
    bindings: Iterable[Binding] = (),
    verbose: bool,
) -> Iterator[Section]:
    """Yield the sections of a result that is tables.

    Args:
        report: of it.
        tables: of its figures; without any there is nothing else.
        method: how they were found.
        bindings: of names that no map has, where there is none.
        verbose: with the whole id of what was judged.
    """
    yield from aside(report)
    yield from mapped.sections(report.bindings or bindings)
    yield Section("tables", tuple(tables))
    if report.verdicts:
        yield Section("verdicts", tuple(verdicts.judged(report, verbose=verbose)))
    if lines := tuple(method):
        yield Section("method", (Text(lines, look="footer", gap=True, filled=True),))


def aside(report: Report) -> Iterator[Section]:
    """Yield what comes before all figures."""
    if found := tuple(warnings(report)):
        yield Section("aside", (Text(found, look="below", filled=True),))


def stopped(report: Report) -> Iterator[str]:
    """Yield that a run was stopped, if it was."""
    if report.status in STOPPED:
        yield f"stopped early ({report.status}): partial results above"


def warnings(report: Report) -> Iterator[str]:
    """Yield what figures must not be read without: that other processes had the cores."""
    for note in report.notes:
        if note.code == DISTURBED:
            yield f"{note.severity}: {note.message}"
