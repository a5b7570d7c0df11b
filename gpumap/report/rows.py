"""Measured rows as tables of text, for every format that shows tables."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.registry import find, key, loaded, sizes
from gpumap.figures import estimate
from gpumap.judge.inconclusive import conclusive, too_few
from gpumap.model import replace
from gpumap.report import cells
from gpumap.report.table import Table
from gpumap.text import listed, short, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.model import Case, Estimate, Fit, Measurement, Report, SelfTest

_STOPPED = ("interrupted", "timeout")
_LATE = 5.0  # seconds over the budget that go without saying
_ABOVE_ONE = 1.005  # more than a rounding
_ODD = "odd-pair"  # a cause
_NAMED = 3  # skipped rows that are named one by one


def has_tables(report: Report) -> bool:
    """Return whether there is anything to show in tables."""
    foreseen = report.prediction or report.published
    cut = report.kind == "trace" and report.status in _STOPPED  # before it opened a context
    measured = report.measurements or report.verdicts or report.selftest
    seen = report.traces or report.utilisation or report.scaling
    return bool(measured or seen or foreseen or cut)


def tables(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield a table for each benchmark, backend and size.

    What was judged stands last. `verbose`: with every row and column.
    """
    yield from figures(report, verbose=verbose)
    yield from verdicts(report, verbose=verbose)


def verdicts(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield the tables of what was judged."""
    if not report.verdicts and not report.accepted:
        return iter(())
    from gpumap.report import outcomes

    return outcomes.judged(report, verbose=verbose)


def figures(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield the tables of what was measured or predicted."""
    report = report if verbose else _renamed(report)
    share = f"{report.settings.get('confidence', 0.95) * 100:g}%"
    if report.ranks:
        from gpumap.report import programs

        yield from programs.ranks(report)
    if report.selftest is not None:
        yield _round_trips(report.selftest)
    requested = shown(report)
    mixed = any("+" in row.case.backend for row in requested)

    def heading(row: Measurement) -> tuple[str, str]:
        return _heading(row.case, "mixed" if mixed else row.case.backend, whole=verbose)

    for (bench, title), found in groupby(requested, heading):
        spec, group = loaded(bench), list(found)
        if spec.side_by_side and not verbose:
            yield _copies(title, group, spec, report.fits)
        else:
            yield _measured(title, group, spec, share, verbose=verbose)
    yield from _following(report, requested, verbose=verbose)


def _following(report: Report, rows: Sequence[Measurement], *, verbose: bool) -> Iterator[Table]:
    """Yield what follows from rows; a module of tables is loaded where there are such rows."""
    if any(row.case.ordered for row in rows):
        from gpumap.report import copies

        yield from copies.matrix_tables(rows, whole=verbose)
    fits = [fit for fit in report.fits if verbose or not _sided(fit.case)]
    if fits or report.break_evens or any(row.case.swept for row in report.measurements):
        from gpumap.report import models

        yield from models.slow_links(report.measurements, rows)
        yield from [models.table(fits)] if fits else []
        yield from models.break_evens(report.break_evens, whole=verbose)
    if report.selftest is not None and report.selftest.alarms:
        yield _alarms(report.selftest)
    if report.traces:
        from gpumap.report import programs

        yield from programs.traces(report)
    if report.utilisation is not None and (verbose or report.kind != "bench"):
        from gpumap.report import programs

        refs = {device.id: str(device.ref) for device in report.devices}
        yield programs.used(report.utilisation, refs)
    if report.scaling is not None:
        from gpumap.report import programs

        yield programs.scaled(report.scaling)
    if report.prediction or report.published:
        from gpumap.report import models

        yield from models.predicted(report)


def _renamed(report: Report) -> Report:
    """Return a report whose names have room in a cell."""
    cases = [row.case for row in report.measurements]
    short = shortened(name for case in cases for name in case.names)
    if not short:
        return report

    def renamed(case: Case) -> Case:
        bound = tuple(replace(b, name=short.get(b.name, b.name)) for b in case.bindings)
        return replace(case, bindings=bound, against=ids.get(case.against or "", case.against))

    ids: dict[str, str] = {}  # a reference stands before those that are relative to it
    rows = []
    for row in report.measurements:
        rows.append(replace(row, case=renamed(row.case)))
        ids[row.case.id] = rows[-1].case.id
    fits = tuple(replace(fit, case=renamed(fit.case)) for fit in report.fits)
    found = tuple(replace(one, case=renamed(one.case)) for one in report.break_evens)
    return replace(report, measurements=tuple(rows), fits=fits, break_evens=found)


def _measured(
    title: str, rows: Sequence[Measurement], spec: BenchmarkSpec, share: str, *, verbose: bool
) -> Table:
    """Return the table of rows of one benchmark, size and backend."""
    shown_rows = cells.shown(rows, verbose=verbose)
    common, heads, lines = cells.table(shown_rows, spec.columns, share, verbose=verbose)
    count = max(len(row.case.names) for row in rows)
    each = f"{count} x " if spec.counted and count > 1 else ""
    what, comma, backend = title.rpartition(", ")
    title = f"{each}{''.join((what, *(f', {text}' for text in common)))}{comma}{backend}"
    return Table(title, heads, lines, tuple(_remarks(rows, spec, verbose=verbose)))


def _copies(
    backend: str, rows: Sequence[Measurement], spec: BenchmarkSpec, fits: Sequence[Fit]
) -> Table:
    """Return the table of all sizes of copies."""
    from gpumap.report import copies

    table = copies.table(rows, fits, backend)
    return replace(table, remarks=(*table.remarks, *_remarks(rows, spec, verbose=False)))


def _sided(case: Case) -> bool:
    """Return whether the sizes of a benchmark stand side by side."""
    return loaded(case.bench).side_by_side


def shown(report: Report) -> list[Measurement]:
    """Return the rows of tables: those of a size sweep only where no others were requested."""
    rows = [row for row in report.measurements if _tabled(row.case)]
    return [row for row in rows if not row.case.swept] or rows


def _tabled(case: Case) -> bool:
    spec = find(case.bench)
    return spec is not None and bool(spec.columns)


def _round_trips(found: SelfTest) -> Table:
    trips = tuple(
        (
            trip.ref,
            "-" if trip.name is None else trip.name,
            trip.backend,
            "failed" if trip.reason else "ok",
        )
        for trip in found.round_trips
    )
    why = tuple(f"failed: {trip.reason.text}" for trip in found.round_trips if trip.reason)
    return Table("round trips of 4 KiB", ("device", "name", "backend", "status"), trips, why)


def _alarms(found: SelfTest) -> Table:
    rows = tuple(
        (
            alarms.name,
            f"{alarms.runs} of {alarms.run_blocks} blocks",
            *map(str, (alarms.false, alarms.inconclusive, alarms.passed)),
        )
        for alarms in found.alarms
    )
    title = f"false alarms at {found.alarms[0].threshold:.0%}"
    return Table(title, ("on", "runs", "false", "inconclusive", "passed"), rows, ())


def plan(report: Report) -> Iterator[str]:
    """Yield what a dry run would have measured, and what that takes."""
    refs = {device.id: str(device.ref) for device in report.devices}
    for planned in report.plans:
        cases = [case for case in planned.cases if _tabled(case) and case.skip is None]
        groups = units.counted(len(planned.groups), "group")
        yield f"plan: {units.counted(len(cases), 'case')} in {groups}, nothing measured"
        yield from (f"  {case.id}" for case in cases)
        yield from planned.about
        for place, taken in planned.memory.items():
            yield f"memory: {units.memory(taken)} on {refs.get(place, place)}"
    settings = report.settings
    budget = units.time_of(settings["budget_s"])
    if report.kind == "selftest":
        yield f"time: {budget} (--budget)"
    else:
        less = f"less where {settings['precision']:.0%} is reached before"
        yield f"time: at most {budget} (--budget), {less}"


def footer(report: Report) -> Iterator[str]:
    """Yield how it was measured, and how busy the machine was before.

    Where nothing was measured there is nothing to say, but of a trace that it was stopped early.
    """
    if report.measurements or report.selftest is not None:
        yield from _footer(report)
    elif report.kind == "trace":
        yield from _stopped(report)


def _footer(report: Report) -> Iterator[str]:
    settings = report.settings
    yield (
        f"median of n samples ± half of its {settings['confidence']:.0%} interval, in this run; "
        f"seed {settings['seed']}; {_verified(report)}"
    )
    yield from _ranges(report)
    kept = [row.metrics["undisturbed"].value for row in report.measurements
              if "undisturbed" in row.metrics]  # fmt: skip
    if any(share < 1.0 for share in kept):
        least = f"{min(kept):.0%} to {max(kept):.0%} of a row's samples"
        yield f"metrics are of undisturbed samples: {least}, by the CPU time of their threads"
    yield from _stopped(report)
    if report.status not in _STOPPED and any(row.case.swept for row in report.measurements):
        from gpumap.report import models

        yield from models.lacking(report)
    late = report.elapsed > settings["budget_s"] + _LATE and not report.simulated
    if late and report.status not in _STOPPED:
        yield (
            f"took {report.elapsed:.0f} s, over the budget of {settings['budget_s']:g} s: each "
            "case is verified and measured once, however long that takes"
        )
    if (before := report.before) is not None and not report.simulated:
        shares = {"busy": before.busy, "stolen": before.steal}
        known = [f"{share:.0%} {word}" for word, share in shares.items() if share is not None]
        load = [] if before.load1 is None else [f"load {before.load1:.2f}"]
        yield f"machine before: {', '.join([*load, *known])}{_blas(report)}"


def _ranges(report: Report) -> Iterator[str]:
    """Yield why rows without an interval have none."""
    if any(too_few(row) for row in shown(report)):
        yield "n under 6: too few samples for an interval, a cause or a verdict; raise --budget"


def _stopped(report: Report) -> Iterator[str]:
    if report.status in _STOPPED:
        yield f"stopped early ({report.status}): partial results above"


def _verified(report: Report) -> str:
    """Return for how many of the rows that were measured the result was right."""
    taken = [row for row in report.measurements if row.status != "skipped"]
    right = sum(row.check is not None and row.check.passed for row in taken)
    if right < len(taken):
        return f"only {right} of {len(taken)} results verified"
    return "every result verified" if taken else "nothing was measured"


def _blas(report: Report) -> str:
    if not any("numpy" in row.case.backend for row in report.measurements):
        return ""
    libraries = report.fingerprint.libraries if report.fingerprint else {}
    core = libraries.get("openblas_core")
    return f"; OpenBLAS {libraries.get('openblas')} for {core}" if core else ""


def _heading(case: Case, backend: str, *, whole: bool) -> tuple[str, str]:
    if _sided(case) and not whole:
        return case.bench, backend
    title = loaded(case.bench).title
    return case.bench, f"{case.bench if title is None else title(case)}, {backend}"


def _remarks(group: Sequence[Measurement], spec: BenchmarkSpec, *, verbose: bool) -> Iterator[str]:
    solid = conclusive(group)
    yield from spec.legend(group) if spec.legend and verbose else ()
    yield from () if verbose else cells.solo_rates(group)
    whole = [row for row in solid if "fetch" not in row.metrics]  # else its ideal is an estimate
    if any("efficiency" in r.metrics and r.metrics["efficiency"].low > _ABOVE_ONE for r in whole):
        yield "efficiency above 1: alone a device was slower than beside others (idling, caches)"
    for row in group if verbose else ():
        if (figure := row.metrics.get("speedup_over_one")) is not None:
            yield f"Theano's ratio, {row.case.name} over one without a fetch: {estimate(figure)}"
    for row in solid:
        if (figure := row.metrics.get("fetch")) is not None:
            yield f"{row.case.name}: {_fetched(figure, row.metrics['time'])}"
    yield from _explanations(group, verbose=verbose)
    yield from cells.flags(group)
    yield from spec.remarks(group) if spec.remarks else ()
    yield from _reasons(group)


def _fetched(figure: Estimate, time: Estimate) -> str:
    """Return what a fetch costs; of noise around 0 at most its upper end, or the iteration's."""
    if figure.low > 0.0:
        return f"the fetch costs {estimate(figure)} per iteration"
    most = units.time_of(min(figure.high, time.high))
    bound = f": at most {most} per iteration" if figure.high > 0.0 else ""
    return f"the fetch has no measurable cost{bound}"


def times(figure: Estimate) -> str:
    """Return a number of calls, with its interval."""
    if not figure.has_interval:
        return "-"
    low, value, high = (max(math.ceil(x), 1) for x in (figure.low, figure.value, figure.high))
    return f"{value:,} {'call' if value == 1 else 'calls'} [{low:,}, {high:,}]"


def _explanations(group: Sequence[Measurement], *, verbose: bool) -> Iterator[str]:
    """Yield why rows stay below what could be: each cause once, with its rows and one's figures.

    These are of the largest size, as the headline's are.
    """
    found: dict[str, dict[str, list[str]]] = {}
    explained = [row for row in group if row.explanation is not None]
    if not verbose:
        explained.sort(key=lambda row: -max(map(int, sizes(row.case).values()), default=0))
    for row in explained:
        if (why := row.explanation) is not None and why.cause != _ODD:  # below its matrix
            texts = found.setdefault(why.cause, {})
            texts.setdefault(why.text, []).append(row.case.name)
    for cause, texts in found.items():
        if len(texts) == 1 or verbose:
            for text, cases in texts.items():
                yield f"{', '.join(dict.fromkeys(cases))}: {cause}: {text}"
        else:
            text, (case, *_) = next(iter(texts.items()))
            cases = list(dict.fromkeys(name for names in texts.values() for name in names))
            yield f"{listed(cases, _NAMED)}: {cause}: {case}: {text}"


def _reasons(group: Sequence[Measurement]) -> Iterator[str]:
    """Yield each reason for which rows were skipped or failed, once, with the rows it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in group:
        if row.status != "ok" and row.reason is not None:
            done = key(row.case)
            what = (row.case.name, *(done.words if done is not None else ()))
            where = f"{' '.join(what)} on {short(row.case)}"
            found.setdefault((row.status, row.reason.text), []).append(where)
    for (status, text), all_ in found.items():
        cases = list(dict.fromkeys(all_))
        many = len(cases) > _NAMED and status == "skipped"
        yield f"{status}: {f'{len(all_)} rows' if many else ', '.join(cases)}: {text}"
