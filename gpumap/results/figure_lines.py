"""Figures as lines of CSV: cells by their columns.

`record` tells what a line is of:

headline       the answer: its `status` is the level, its `reason` the text
warning        what the figures must not be read without; the `reason` says it
measurement    a row of the report; without a figure it has one line, that says why
fit            a model of copies; `status` is "fits" or "does not fit"
forecast       what so many devices would give by the algorithm in `case`: computed
payoff         the size from which on a second device breaks even; `status`: whether it does
published      a cell of a table, with what follows from it; `flags` are its labels
model          what a row's exchanges took by the table, and as the other rows predict it
break-even     a decision; `status` is "wins", "never wins", "no win found" (where the
               search did not reach the end), "undecided" or "failed", and `wins_from` and
               `wins_to` are figures for each range of sizes; the last may have no end
ran            what a program did by the context in `id`: events of one sort at one place
busy           how long a device of that context worked; its `share` is of the trace's time
use            how busy a device was, seen from outside; `status` is whether it was used
scale          a program on the names of the map in `names`; `n` is how many runs it had
diagnosis      whether the device of a name is used; then each cause as its `reason`
example        calls of a workload on it: `status` is faster, equal, slower (than the host) or
               unclear, `reason` the code of what they suffer from
verdict        `status` is the verdict, `reason` the question, the figure what was judged
error          `status` is the exit code that it stands for, `reason` its code and message
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.report.csv import PARAMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.model import BreakEven, Case, Check, Estimate, Fit, Measurement

    Line = Mapping[str, Any]


def figure_lines(line: Line, metrics: Mapping[str, Estimate]) -> Iterator[Line]:
    """Yield the line once for each figure; without any, as it is."""
    if not metrics:
        yield line
    for name, figure in metrics.items():
        known = figure.has_interval
        yield {
            **line,
            "metric": name,
            "value": None if figure.impossible else figure.value,
            "low": figure.low if known else None,
            "high": figure.high if known else None,
            "unit": figure.unit,
        }


def row_lines(row: Measurement) -> Iterator[Line]:
    """Yield a line for each figure of a row; without any one that says why."""
    line = {
        "record": "measurement",
        **_case(row.case),
        "id": row.case.id,
        "route": row.route or row.case.route,
        "status": row.status,
        "flags": " ".join(row.flags),
        "reason": f"{row.reason.code}: {row.reason.text}" if row.reason else None,
        "n": len(row.samples.seconds) if row.samples else 0,
        "check": _checked(row.check),
    }
    yield from figure_lines(line, row.metrics)


def fit_lines(fit: Fit) -> Iterator[Line]:
    """Yield a line for each figure of a model of copies."""
    line = {
        "record": "fit",
        **_case(fit.case),
        "id": fit.id,
        "route": fit.case.route,
        "status": "fits" if fit.fits else "does not fit",
        "n": len(fit.sizes),
    }
    yield from figure_lines(line, fit.metrics)


def break_even_lines(found: BreakEven) -> Iterator[Line]:
    """Yield a line for each figure of a decision, and for both ends of each range of sizes."""
    reason = found.reason
    line = {
        "record": "break-even",
        **_case(found.case),
        "id": found.id,
        "status": _decision(found),
        "reason": f"{reason.code}: {reason.text}" if reason else None,
        "check": _checked(found.check),
    }
    yield from figure_lines(line, found.metrics)
    for start, stop in found.wins:
        yield {**line, "metric": "wins_from", "value": start, "unit": "B"}
        yield {**line, "metric": "wins_to", "value": stop, "unit": "B"}


def _decision(found: BreakEven) -> str:
    if found.reason is not None:
        return "failed"
    if not found.decided:
        return "undecided"
    if found.wins:
        return "wins"
    return "never wins" if found.why_stopped == "largest" else "no win found"


def _case(case: Case) -> Line:
    return {
        PARAMS: case.params,
        "bench": case.bench,
        "case": case.name,
        "names": (">" if case.ordered else "+").join(case.names),
        "devices": "+".join(binding.device.id for binding in case.bindings),
        "backend": case.backend,
    }


def _checked(check: Check | None) -> str:
    return "" if check is None else "passed" if check.passed else "failed"
