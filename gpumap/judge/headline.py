"""The headline of a report: the answer to its command's question, computed once, at its end.

The worst level wins: failed, untrusted, below, good; but a gate that says no (exit code 1) is the
headline whatever is unclear beside it. What ended the run or failed in it comes
first, then limits and a comparison that were asked for, then what the command itself answers:
`answers_of_maps`, `answers_of_reports`, or the benchmark's own `BenchmarkSpec`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumap.judge.phrases import (
    ENDS,
    LIMIT,
    About,
    fix,
    interval,
    judged,
    longer,
    percent,
    roughly,
    said,
    sentence,
    value,
)
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import Headline, Measurement, Report

LEVELS = ("good", "below", "untrusted", "failed")  # the worst one last
_MAPS = ("check", "devices", "doctor")
_LIMIT = "limit"
_DONE = {
    "check": "checked",
    "devices": "usable",
    "doctor": "diagnosed",
    "compare": "compared",
    "selftest": "tested",
    "predict": "predictable",
    "trace": "traced",
}
_FOLLOWS = "What was measured until then follows."


def headline(report: Report) -> Headline:
    """Return the headline of a finished report."""
    found = _not_measured(report) or _worst(_answers(report))
    if found.level == "good" and report.exit_code != 0:
        return _first_error(report)
    return found


def _worst(every: Iterator[Headline]) -> Headline:
    """Return the headline of the worst level; of several the first."""
    return max(every, key=lambda found: LEVELS.index(found.level))


def _not_measured(report: Report) -> Headline | None:
    """Return what is said of a run that was not to measure, or could not take place."""
    if report.plans:
        rows = sum(len(plan.cases) for plan in report.plans)
        text = f"Nothing was measured (--dry-run): {counted(rows, 'row')} would be."
        return said(report, "untrusted", (text,))
    if report.status == "skipped":
        why = report.errors[0].diagnostic.message if report.errors else "nothing was measured"
        return said(report, "untrusted", (f"Skipped (--if-absent=skip): {sentence(why)}",))
    return None


def _answers(report: Report) -> Iterator[Headline]:
    """Yield what there is to answer; what was asked for beside the command's question first."""
    own = _own(report.kind)
    if own is None:
        yield from _measured(report)
    elif report.exit_code in (0, 1, 5) or _answered(report):
        yield own(report)
    else:
        yield _failed(report) or _first_error(report)


def _answered(report: Report) -> bool:
    """Return whether a command has an answer of its own, whatever the exit code is."""
    trips = report.selftest.round_trips if report.selftest else ()
    found = report.diagnoses or any(trip.reason for trip in trips)
    mapped = report.kind == "check" and report.map is not None
    return bool(found or mapped or any(p.diagnostic.entry for p in report.errors))


def _own(kind: str) -> Callable[[Report], Headline] | None:
    """Return what answers for a command that runs no benchmark."""
    if kind not in _DONE:
        return None
    module = import_module(f"gpumap.judge.answers_of_{'maps' if kind in _MAPS else 'reports'}")
    found: Callable[[Report], Headline] = getattr(module, kind)
    return found


def _measured(report: Report) -> Iterator[Headline]:
    from gpumap.bench.registry import find, is_control
    from gpumap.judge.doubts import asked

    every = [row for row in report.measurements if not is_control(row.case)]
    rows = asked(every) or every
    spec = find(rows[0].case.bench) if rows else None
    if (failed := _failed(report)) is not None:
        yield failed
    elif report.exit_code not in (0, 1, 5) or spec is None or spec.headline is None:
        yield _first_error(report)
    else:
        gates = list(_gates(report))
        said_no = [gate for gate in gates if gate.level == "below"]
        if report.status == "no" and said_no:  # whatever else is unclear beside it
            yield said_no[0]
        else:
            yield from gates
            yield _by_what(spec.headline(report, rows), rows)


def _by_what(found: Headline, rows: Sequence[Measurement]) -> Headline:
    """Return a headline that says that disturbed samples are left out of its row, if some are."""
    row = next((row for row in rows if row.case.id == found.row), None)
    share = row.metrics.get("undisturbed") if row else None
    if row is None or share is None or share.value >= 1.0:
        return found
    by = "CPU time" if "cpu" in row.flags else f"the undisturbed {percent(share.value)} of samples"
    text = f"{found.text} By {by}."
    return found._replace(text=text) if len(text) <= LIMIT else found


def _gates(report: Report) -> Iterator[Headline]:
    """Yield what limits and a comparison say, unless all is well."""
    from gpumap.judge.answers_of_reports import compare

    if (limits := _limits(report)) is not None:
        yield limits
    if any(verdict.rule != _LIMIT for verdict in report.verdicts):
        found = compare(report)
        if found.level != "good":
            yield found


def _failed(report: Report) -> Headline | None:
    from gpumap.judge.doubts import failed

    return failed(report)


def _first_error(report: Report) -> Headline:
    """Return what went wrong first of that which decided the exit code, and the fix."""
    errors = [p.diagnostic for p in report.errors if p.exit == report.exit_code]
    if not errors:
        return said(report, "failed", (f"Ended with exit code {report.exit_code}.",))
    first, more = errors[0], len(errors) - 1
    before = ENDS.get(report.status) or f"Not {_DONE.get(report.kind, 'measured')}: "
    text = sentence(f"{before}{first.message}")
    done = any(row.status == "ok" for row in report.measurements)
    count = (f"{counted(more, 'more error')}.",) if more else ()
    return said(report, "failed", (text, *((_FOLLOWS,) if done else ()), *fix(first.hint), *count))


# --- limits


def _limits(report: Report) -> Headline | None:
    """Return the first limit that is not met, or that cannot be judged."""
    every = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    missed = [verdict for verdict in every if verdict.verdict in ("fail", "missing")]
    unclear = [verdict for verdict in every if verdict.verdict == "inconclusive"]
    if not missed and not unclear:
        return None
    found = (missed or unclear)[0]
    figure = judged(found)
    subject = About(found.id, found.metric, figure)
    if not missed:
        rough = f": {roughly(figure)}" if figure else ""
        text = f"No conclusion on {found.text}{rough}. Repeat with {longer(report)}."
        return said(report, "untrusted", (text,), subject)
    some = f"{len(missed)} of {counted(len(every), 'limit')} missed, the first: "
    first = f"{some if len(every) > 1 else 'Limit missed: '}{found.text}"
    if figure is None:
        return said(report, "below", (f"{first}, which was not measured.",), subject)
    shown = f"; it is {value(figure)} ({interval(figure)})."
    return said(report, "below", (f"{first}{shown}",), subject)
