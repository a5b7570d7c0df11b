"""Reports relative to each other: comparability of two, and several side by side.

The metrics of a saved row are recomputed from its samples and its work. A digest detects an edit.
What `compare` judges has to follow from the samples all the same: a new digest must not make an
edited time or ratio pass.

Side by side each metric of each row is shown, in each of the reports. Verdicts: `compare`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap.engine import stats
from gpumap.engine.undisturbed import judged_samples
from gpumap.model import Estimate, Measurement, separate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from gpumap.model import Case, Fingerprint, Report

    Follows = Callable[[Case], Collection[str]]

_ROUNDING = 1e-9  # of a metric that is recomputed
_BUDGETS = 10  # that scripted blocks take at most, of which the last may be a long one
_WHOLE = ("ok", "no", "inconclusive")  # statuses of a complete run
_NOTHING = "nothing"  # where one side has no value
SIDES = ("base", "new")
Sides = tuple[str, str]
_KEY_METRICS = ("time", "issue_interval", "speedup", "latency", "peak_bandwidth", "break_even")


def contradiction(report: Report, follows: Follows) -> str | None:
    """Return the first row whose metrics do not follow from its samples, and why.

    Args:
        report: a saved one.
        follows: returns the metrics of a case that follow from samples.
    """
    rows = {row.case.id: row for row in report.measurements if row.status == "ok"}
    for id_, row in rows.items():
        for why in _contradictions(row, rows, report, follows(row.case)):
            return f"{id_}: {why}"
    return None


def _contradictions(
    row: Measurement, rows: Mapping[str, Measurement], report: Report, follows: Collection[str]
) -> Iterator[str]:
    if row.samples is None:
        return
    if len(row.samples.blocks) != len(row.samples.seconds):
        yield "its blocks are not those of its samples"
    taken = judged_samples(row)
    seconds = taken.seconds if taken else ()
    each = [seconds * row.samples.iterations_per_sample for seconds in row.samples.seconds]
    # a script has a clock of its own: behind the first block, none begins after the budget
    most = _BUDGETS * report.settings["budget_s"] if report.simulated else report.elapsed
    if sum(each[1:] if report.simulated else each) > most:
        yield "its samples take longer than the whole run"
    middle = stats.location(seconds, report.settings["confidence"], positive=True, slow=False)
    time = row.time
    if time is None or not _same(time, (middle.value, middle.low, middle.high)):
        yield "its time is not that of its samples"
    work = row.case.work
    moved = work.bytes_to_device + work.bytes_to_host
    amounts = {"rate": work.operations, "bandwidth": moved}
    for name, amount in amounts.items():
        bounds = [
            amount / t if t > 0.0 else math.inf for t in (middle.value, middle.high, middle.low)
        ]
        if name in follows and name in row.metrics and not _same(row.metrics[name], bounds):
            yield f"its {name} is not the work over the time"
    if "speedup" in follows and "speedup" in row.metrics:
        ratio = _ratio(row, rows.get(row.case.against or ""))
        if ratio is None or not _same(row.metrics["speedup"], (ratio, None, None)):
            yield "its speed-up is not that of the samples of both rows"


def _ratio(row: Measurement, reference: Measurement | None) -> float | None:
    over, under = judged_samples(reference) if reference else None, judged_samples(row)
    if over is None or under is None:
        return None
    if separate({*over.blocks}, {*under.blocks}):
        return median(over.seconds) / median(under.seconds)
    each = dict(zip(over.blocks, over.seconds, strict=False))
    pairs = zip(under.blocks, under.seconds, strict=False)
    ratios = [other / s for block, s in pairs if (other := each.get(block)) is not None]
    return median(ratios) if ratios else None


def _same(figure: Estimate, expected: Sequence[float | None]) -> bool:
    """Return whether a metric equals its recomputed values; a refused one does."""
    if figure.impossible:
        return True
    stated = (figure.value, *((figure.low, figure.high) if figure.has_interval else ()))
    pairs = zip(stated, expected, strict=False)
    return all(math.isclose(a, b, rel_tol=_ROUNDING) for a, b in pairs if b is not None)


def broken(report: Report) -> str | None:
    """Return why nothing can be concluded from a report; None if something can."""
    if report.plans:
        return "it is a dry run, which measures nothing"
    if report.status not in _WHOLE:
        why = f" ({report.errors[0].diagnostic.message})" if report.errors else ""
        return f"its run failed: its status is {report.status}{why}"
    if report.kind == "selftest":
        return "it is a self-test, which judges itself: nothing in it has a control"
    if not any(row.status == "ok" for row in report.measurements):
        return f"nothing is measured in it: it is of `{report.kind}`"
    if report.fingerprint is None:
        return "it does not say which machine it is of"
    return None


def unlike(base: Report, *, simulated: bool) -> str | None:
    """Return why a run cannot be compared with a baseline: a script never is with hardware."""
    if base.simulated == simulated:
        return None
    return "one is simulated and the other is real"


def machines(base: Report, new: Report, sides: Sides = SIDES) -> tuple[str, ...]:
    """Return the differences between the machines of two reports; none if they are the same.

    That is the processor, its cores, and the device that each name is. Versions of libraries,
    drivers, Python and the system may differ: whether a new one is slower is what users compare.
    """
    changes = differences(_machine(base.fingerprint), _machine(new.fingerprint), sides)
    before, after = _devices(base), _devices(new)
    both = before.keys() & after.keys()  # rows show names that are missing
    before, after = ({k: v for k, v in d.items() if k in both} for d in (before, after))
    return (*changes, *differences(before, after, sides))


def fingerprints(base: Fingerprint | None, new: Fingerprint | None) -> tuple[str, ...]:
    """Return the differences between two machines, by their fingerprints only."""
    return tuple(differences(_machine(base), _machine(new)))


def surroundings(base: Report, new: Report, sides: Sides = SIDES) -> tuple[str, ...]:
    """Return which versions, links and variables differ that steer placement or speed."""
    before, after = (
        {name: value for name, value in report.environment.items() if value is not None}
        for report in (base, new)
    )
    versions = differences(_versions(base.fingerprint), _versions(new.fingerprint), sides)
    return (*versions, *differences(before, after, sides))


def _machine(fingerprint: Fingerprint | None) -> dict[str, str]:
    if fingerprint is None:
        return {}
    cores, devices = str(fingerprint.cores), " ".join(fingerprint.devices)
    return {"processor": fingerprint.cpu, "cores": cores, "devices": devices}


def _versions(fingerprint: Fingerprint | None) -> dict[str, str]:
    if fingerprint is None:
        return {}
    return {
        "system": fingerprint.os,
        "Python": fingerprint.python,
        **dict(fingerprint.libraries),
        **{f"driver of {device}": driver for device, driver in fingerprint.drivers.items()},
        "links": " ".join(fingerprint.links),
    }


def _devices(report: Report) -> dict[str, str]:
    """Return which device each name is, for each backend that drives it."""
    bindings = (binding for row in report.measurements for binding in row.case.bindings)
    return {f"{b.name} ({b.device.backend})": b.device.id for b in bindings}


def differences(
    before: Mapping[str, str], after: Mapping[str, str], sides: Sides = SIDES
) -> Iterator[str]:
    """Yield each key whose values differ, with both of them."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield f"{key}: {old or _NOTHING} in {sides[0]}, {new or _NOTHING} in {sides[1]}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A metric of one report, or why there is none; `ratio` is to the first report."""

    status: str  # of its row: ok, skipped, failed
    figure: Estimate | None
    ratio: float | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of the rows of one id; a report without such a row has no cell."""

    id: str
    metric: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row, a model or a break-even: what has an id and figures."""

    status: str
    metrics: Mapping[str, Estimate]
    flags: tuple[str, ...] = ()
    requested: bool = True  # not a control, nor of the size sweep of a model


def lines(reports: Sequence[Report]) -> tuple[Line, ...]:
    """Return every metric of the reports, in the order of the first report that has it."""
    return _lines(reports, lambda entry, _: bool(entry))


def key_figures(reports: Sequence[Report]) -> tuple[Line, ...]:
    """Return the metrics that the others follow from, of the requested rows."""
    chosen = any(entry.requested for report in reports for entry in _rows(report).values())
    return _lines(
        reports, lambda entry, name: name in _KEY_METRICS and (entry.requested or not chosen)
    )


def elsewhere(reports: Sequence[Report]) -> tuple[bool | None, ...]:
    """Return of each report whether it is of another machine than the first; None: unknown."""
    return tuple(_other(reports[0], report) for report in reports)


def _other(a: Report, b: Report) -> bool | None:
    if a.fingerprint is None or b.fingerprint is None:
        return None
    return a.fingerprint.hash != b.fingerprint.hash


def _lines(reports: Sequence[Report], included: Callable[[_Entry, str], bool]) -> tuple[Line, ...]:
    every = [_rows(report) for report in reports]
    keys = dict.fromkeys(
        (id_, name)
        for rows in every
        for id_, entry in rows.items()
        for name in entry.metrics
        if included(entry, name)
    )
    return tuple(
        Line(id_, name, _cells([rows.get(id_) for rows in every], name)) for id_, name in keys
    )


def _cells(rows: Sequence[_Entry | None], name: str) -> tuple[Cell | None, ...]:
    figures = [entry.metrics.get(name) if entry else None for entry in rows]
    return tuple(
        Cell(entry.status, figure, _to_first(figure, figures[0]), entry.flags) if entry else None
        for entry, figure in zip(rows, figures, strict=True)
    )


def _to_first(figure: Estimate | None, first: Estimate | None) -> float | None:
    if figure is None or first is None or first.value == 0.0:
        return None
    ratio = figure.value / first.value
    return ratio if math.isfinite(ratio) else None


def _rows(report: Report) -> dict[str, _Entry]:
    entries = {
        row.case.id: _Entry(row.status, row.metrics, row.flags, row.case.requested)
        for row in report.measurements
    }
    for fit in report.fits:
        entries[fit.id] = _Entry("ok" if fit.fits else "failed", fit.metrics)
    return entries
