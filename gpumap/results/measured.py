"""What a benchmark measured, as every format shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap import units
from gpumap.bench.registry import find
from gpumap.judge.headline import MEASURED, Question, measured
from gpumap.report.csv import PARAMS
from gpumap.report.parts import Record, Section, Text
from gpumap.results import ResultSpec, charts, mapped, outcomes, ranks, rows
from gpumap.results.around import around, aside, stopped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Case, Check, Fit, Measured, Measurement, Report
    from gpumap.report.charts import Chart
    from gpumap.report.table import Table


def sections(
    report: Report,
    result: Measured,
    verbose: bool,  # noqa: FBT001 - as of any result
    after: Sequence[Table] = (),
) -> Iterator[Section]:
    """Yield the tables of what was measured, those `after` them, and how; of a dry run the plan."""
    if not (result.measurements or report.verdicts):
        yield from aside(report)
    elif result.plans:
        yield from aside(report)
        yield from mapped.sections(report.bindings)
        yield Section("plan", (Text(tuple(_plan(report, result)), "Plan", gap=True),))
    else:
        ranked = [ranks.table(report.ranks)] if report.ranks else []
        tables = (*ranked, *rows.tables(report, verbose=verbose), *after)
        yield from around(report, tables, method(report), verbose=verbose)


def _plan(report: Report, result: Measured) -> Iterator[str]:
    """Yield what a dry run would have measured, and what that takes."""
    refs = {device.id: str(device.ref) for device in report.devices}
    for planned in result.plans:
        cases = [case for case in planned.cases if rows.tabled(case) and case.skip is None]
        groups = units.counted(len(planned.groups), "group")
        yield f"plan: {units.counted(len(cases), 'case')} in {groups}, nothing measured"
        yield from (f"  {case.id}" for case in cases)
        yield from planned.about
        for place, taken in planned.memory.items():
            yield f"memory: {units.memory(taken)} on {refs.get(place, place)}"
    yield f"time: at most {units.time_of(report.settings['budget_s'])} (--budget)"


def method(report: Report) -> Iterator[str]:
    """Yield how it was measured."""
    settings = report.settings
    yield (
        f"median of n samples ± half of its {settings['confidence']:.0%} interval, in this run; "
        f"seed {settings['seed']}; {_verified(report)}"
    )
    kept = [row.metrics["undisturbed"].value for row in report.measurements
              if "undisturbed" in row.metrics and "cpu" not in row.flags]  # fmt: skip
    if any(share < 1.0 for share in kept):
        least = f"{min(kept):.0%} to {max(kept):.0%} of a row's samples"
        yield f"metrics are of undisturbed samples: {least}, by the CPU time of their threads"
    yield from stopped(report)


def _verified(report: Report) -> str:
    """Return for how many of the rows that were measured the result was right."""
    taken = [row for row in report.measurements if row.status != "skipped"]
    right = sum(row.check is not None and row.check.passed for row in taken)
    if right < len(taken):
        return f"only {right} of {len(taken)} results verified"
    return "every result verified" if taken else "nothing was measured"


def records(report: Report, result: Measured) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield each row and fit."""
    yield from map(_of_row, result.measurements)
    yield from map(_of_fit, result.fits)


def _of_row(row: Measurement) -> Record:
    """Return the record of a measured row; without a figure it says why."""
    cells = {
        **_case(row.case),
        "route": row.route,
        "status": row.status,
        "flags": " ".join(row.flags),
        "reason": f"{row.reason.code}: {row.reason.text}" if row.reason else None,
        "n": len(row.samples.seconds) if row.samples else 0,
        "check": _checked(row.check),
    }
    why = row.explanation
    about = (("explanation", f"{why.cause}: {why.text}"),) if why else ()
    return Record("measurement", row.case.id, cells, row.metrics, outcomes.of_row(row),
                  about=about)  # fmt: skip


def _of_fit(fit: Fit) -> Record:
    """Return the record of a model of copies."""
    status = {"status": "fits" if fit.fits else "does not fit"}
    cells = {**_case(fit.case), **status, "n": len(fit.sizes)}
    return Record("fit", fit.id, cells, fit.metrics)


def _case(case: Case) -> dict[str, Any]:
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


def drawn(report: Report, result: Measured) -> Iterable[Chart]:
    """Return the charts of rows; of a dry run there are none."""
    return () if result.plans else charts.charts(report)


QUESTION = Question(lambda report, _: measured(report, lambda key: find(key).headline), MEASURED)
SPEC = ResultSpec(sections, QUESTION, records, drawn)
