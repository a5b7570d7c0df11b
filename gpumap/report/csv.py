"""A report as comma-separated values (RFC 4180), in long form: a line for each figure.

The columns are RECORD, one for each parameter (in the order of the alphabet; `param.` stands before
one that would be called as another column is), and FIGURE. `record` tells what a line is of:

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
    diagnosis      whether the device of a name is used; then each cause as its `reason`
    example        calls of a workload on it: `status` is faster, equal, slower (than the host) or
                   unclear, `reason` the code of what they suffer from
    verdict        `status` is the verdict, `reason` the question, the figure what was judged
    error          `status` is the exit code that it stands for, `reason` its code and message

Numbers are in SI units and as exact as the report has them; what is no number is nan, inf or -inf,
what is not known is empty: both ends where there are too few samples for an interval, and a
ratio that was refused (its row has the flag `impossible`). Text is printable: a line break in it is
an escape. A spreadsheet runs what begins with = + - or @ as a formula, so such a text gets an
apostrophe before it, unless it is a number. Where the report itself holds a number, the cell is
never touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gpumap.escape import printable
from gpumap.judge.programs import summary
from gpumap.report import outcomes, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap import model
    from gpumap.report import Style

    Line = Mapping[str, Any]  # cells by their columns

RECORD = ("record", "id", "bench", "case", "names", "devices", "backend", "route")
FIGURE = ("status", "flags", "reason", "metric", "value", "low", "high", "unit", "n", "check",
          "simulated")  # fmt: skip
_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"  # and what is read so where characters are full-width
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def render(report: model.Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as CSV with a header, also where there is nothing to tell."""
    import csv
    import io

    keys = _parameters(report)
    columns = [*RECORD, *keys.values(), *FIGURE]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="")
    writer.writeheader()
    for line in _lines(report, keys):
        every = {**line, "simulated": report.simulated}
        writer.writerow({key: _cell(value) for key, value in every.items()})
    return stream.getvalue()


def text(value: str | None) -> str:
    """Return a text as a cell that shows it and does nothing."""
    shown = printable(value or "")
    start = shown.lstrip(" ")[:1]
    return f"'{shown}" if start and start in _FORMULA and not _NUMBER.fullmatch(shown) else shown


def number(value: float | bool | None) -> str:  # noqa: FBT001 - a cell's content
    """Return a number as exact as it is, a truth as true or false, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(int(value) if isinstance(value, int) else float(value))


def _cell(value: str | float | bool | None) -> str:  # noqa: FBT001 - a cell's content
    return text(value) if isinstance(value, str) else number(value)


def _parameters(report: model.Report) -> dict[str, str]:
    """Return every parameter of a row, a fit or a break-even, and the column that it has."""
    cases = [row.case for row in report.measurements] + [fit.case for fit in report.fits]
    cases += [decision.case for decision in report.break_evens]
    columns: dict[str, str] = {}
    for key in sorted({key for case in cases for key in case.params}):
        column = text(key)
        while column in (*RECORD, *FIGURE, *columns.values()):
            column = f"param.{column}"
        columns[key] = column
    return columns


def _lines(report: model.Report, keys: Mapping[str, str]) -> Iterator[Line]:
    if report.headline is not None:
        yield _answer("headline", report.headline, report.headline.row, report.headline.level)
    for line in plain.disturbed(report):
        yield {"record": "warning", "reason": line}
    for row in report.measurements:
        yield from _row(row, keys)
    for fit in report.fits:
        yield from _fit(fit, keys)
    for decision in report.break_evens:
        yield from _break_even(decision, keys)
    for trace in report.traces:
        yield from _trace(trace)
    if report.utilisation is not None:
        yield from map(_use, report.utilisation.uses)
    if report.scaling is not None:
        yield from (line for step in report.scaling.steps for line in _step(step))
    yield from _prediction(report.prediction)
    yield from _published(report.published)
    yield from (line for found in report.diagnoses for line in _diagnosis(found))
    yield from (_answer("verdict", each, each.id, each.verdict) for each in report.verdicts)
    yield from map(_error, report.errors)


def _use(use: model.Use) -> Line:
    busy = {"metric": "busy", "value": use.busy, "unit": "1"}
    names = {"record": "use", "names": use.name, "devices": use.device}
    return {**names, "status": use.verdict, "reason": use.why, **busy}


def _step(step: model.Scaled) -> Iterator[Line]:
    metrics = {"time": step.time, "speedup": step.speedup}
    line = {"record": "scale", "names": "+".join(step.names), "n": len(step.runs)}
    line["status"] = "ok" if step.code is None else "failed"
    yield from _figures(line, {name: figure for name, figure in metrics.items() if figure})


def _answer(
    record: str, found: model.Headline | model.Verdict, id_: str | None, status: str
) -> Line:
    figure = {key: getattr(found, key) for key in ("metric", "value", "low", "high")}
    return {"record": record, "id": id_, "status": status, "reason": found.text, **figure}


def _row(row: model.Measurement, keys: Mapping[str, str]) -> Iterator[Line]:
    line = {
        "record": "measurement",
        **_case(row.case, keys),
        "id": row.case.id,
        "route": row.route or row.case.route,
        "status": row.status,
        "flags": " ".join(row.flags),
        "reason": f"{row.reason.code}: {row.reason.text}" if row.reason else None,
        "n": len(row.samples.seconds) if row.samples else 0,
        "check": _checked(row.check),
    }
    yield from _figures(line, row.metrics)


def _fit(fit: model.Fit, keys: Mapping[str, str]) -> Iterator[Line]:
    line = {
        "record": "fit",
        **_case(fit.case, keys),
        "id": fit.id,
        "route": fit.case.route,
        "status": "fits" if fit.fits else "does not fit",
        "n": len(fit.sizes),
    }
    yield from _figures(line, fit.metrics)


def _break_even(found: model.BreakEven, keys: Mapping[str, str]) -> Iterator[Line]:
    reason = found.reason
    line = {
        "record": "break-even",
        **_case(found.case, keys),
        "id": found.id,
        "status": _decision(found),
        "reason": f"{reason.code}: {reason.text}" if reason else None,
        "check": _checked(found.check),
    }
    yield from _figures(line, found.metrics)
    for start, stop in found.wins:
        yield {**line, "metric": "wins_from", "value": start, "unit": "B"}
        yield {**line, "metric": "wins_to", "value": stop, "unit": "B"}


def _decision(found: model.BreakEven) -> str:
    if found.reason is not None:
        return "failed"
    if not found.decided:
        return "undecided"
    if found.wins:
        return "wins"
    return "never wins" if found.why_stopped == "largest" else "no win found"


def _diagnosis(found: model.Diagnosis) -> Iterator[Line]:
    """Yield a name's verdict with what was seen, a line for each cause, and its examples."""
    name = {"record": "diagnosis", "id": found.requested, "names": found.name}
    yield from _figures({**name, "status": found.verdict}, found.figures)
    for one in found.findings:
        reason = f"{one.code} {one.cause}: {one.text}"
        yield {**name, "status": found.verdict, "reason": reason}
    for example in found.examples:
        line = {**name, "record": "example", "case": example.workload}
        line["status"] = example.outcome
        line["reason"] = example.found.code if example.found else None
        yield from _figures(line, {"device": example.device, "host": example.host})


def _trace(trace: model.Trace) -> Iterator[Line]:
    """Yield what ran and how busy each device was; an unknown time is empty, as it has no value."""
    found, context = summary(trace), {"id": f"context {trace.number}"}
    for ran in found.ran:
        line = {"record": "ran", **context, "case": ran.name, "names": ran.device,
                "flags": "implicit" if ran.implicit else "", "n": ran.count}  # fmt: skip
        yield {**line, "metric": "time", "value": ran.seconds, "unit": "s"}
        yield {**line, "metric": "bytes", "value": ran.nbytes, "unit": "B"}
    for busy in found.busy:
        line = {"record": "busy", **context, "names": "+".join(busy.names),
                "devices": busy.device, "n": busy.events}  # fmt: skip
        yield {**line, "metric": "busy", "value": busy.seconds, "unit": "s"}
        yield {**line, "metric": "share", "value": busy.share, "unit": "1"}


def _prediction(found: model.Prediction | None) -> Iterator[Line]:
    if found is None:
        return
    for each in found.forecasts:
        line = {"record": "forecast", "id": f"{each.algorithm}[devices={each.devices}]"}
        yield from _figures({**line, "case": each.algorithm}, each.metrics)
    for paid in found.payoffs:
        line = {"record": "payoff", "id": f"{paid.algorithm}[devices=2]"}
        result = {"case": paid.algorithm, "status": paid.pays}
        yield from _figures({**line, **result}, paid.metrics)


def _published(found: model.Published | None) -> Iterator[Line]:
    if found is None:
        return
    for cell in found.cells:
        line = {"record": "published", "id": f"{cell.row}[devices={cell.devices}]",
                "case": cell.row, "flags": " ".join(cell.flags)}  # fmt: skip
        yield from _figures(line, cell.metrics)
    for row in found.models:
        for each in row.exchanged:
            id_ = f"{row.row}[devices={each.devices}]"
            line = {"record": "model", "id": id_, "case": row.row, "unit": "s"}
            yield {**line, "metric": "measured", "value": each.measured}
            yield {**line, "metric": "predicted", "value": each.predicted}


def _case(case: model.Case, keys: Mapping[str, str]) -> Line:
    return {
        **{keys[key]: value for key, value in case.params.items()},
        "bench": case.bench,
        "case": case.name,
        "names": (">" if case.ordered else "+").join(case.names),
        "devices": "+".join(binding.device.id for binding in case.bindings),
        "backend": case.backend,
    }


def _checked(check: model.Check | None) -> str:
    return "" if check is None else "passed" if check.passed else "failed"


def _figures(line: Line, metrics: Mapping[str, model.Estimate]) -> Iterator[Line]:
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


def _error(problem: model.Problem) -> Line:
    found = outcomes.of_problem(problem)
    return {
        "record": "error",
        "names": problem.diagnostic.name,
        "status": problem.exit,
        "reason": f"{found.word}: {found.text}",
    }
