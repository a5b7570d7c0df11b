"""What a program did with its devices, as every format shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge import uses
from gpumap.judge.headline import Question
from gpumap.judge.phrases import texts
from gpumap.judge.traces import HOST, TARGET, Busy, Ran, Summary, summary, total
from gpumap.model import Estimate
from gpumap.report.parts import Record, Section
from gpumap.report.table import Table
from gpumap.results import ResultSpec
from gpumap.results.around import STOPPED, around, stopped
from gpumap.units import counted, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.model import Report, Trace, Use, Utilisation, Watched

COLUMNS = {
    "ran": ("ran", "on", "implicit", "count", "bytes", "total time"),
    "moved": ("moved", "on", "shape", "count", "bytes", "total time", "line"),
    "busy": ("device", "names", "events", "busy", "share"),
}
USES = ("name", "device", "used", "busy", "longest idle")
MOST = 100  # rows of a table
_ALL = "--format json has all of them"
_UNKNOWN = "unknown"  # what a device cannot tell; 0 would be a figure


def sections(report: Report, result: Watched, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield three tables for each context of a script, or one of a command's use of devices."""
    early = report.status in STOPPED  # it may have opened no context until then
    if not (result.traces or result.utilisation or report.verdicts or early):
        return
    tables: list[Table] = []
    for trace in result.traces:
        several = len(result.traces) > 1
        tables += _context(trace, f"context {trace.number}" if several else "trace")
    if result.utilisation is not None:
        refs = {device.id: str(device.ref) for device in report.devices}
        tables.append(_used(result.utilisation, refs))
    contexts = dict.fromkeys(b for trace in result.traces for b in trace.bindings)
    yield from around(report, tables, stopped(report), bindings=contexts, verbose=verbose)


def _context(trace: Trace, title: str) -> Iterator[Table]:
    """Yield three tables for a context that a program opened."""
    found, refs = summary(trace), {b.device.id: str(b.device.ref) for b in trace.bindings}
    ran = [
        (ran.name, _place(ran), "yes" if ran.implicit else "-", *_sums(ran)) for ran in found.ran
    ]
    moved, busy = map(_moved, found.implicit), (_busy(busy, refs) for busy in found.busy)
    yield _table(f"{title}: what ran where", "ran", ran)
    yield _table(f"{title}: implicit transfers", "moved", moved, [_moved_in_all(found)])
    yield _table(f"{title}: how busy each device was", "busy", busy, _times(found))


def _table(
    title: str, kind: str, found: Iterable[tuple[str, ...]], remarks: Iterable[str] = ()
) -> Table:
    """Return a table of no more than MOST rows, which says how many there are."""
    rows = tuple(found)
    more = [f"the first {MOST} of {len(rows)} rows; {_ALL}"] if len(rows) > MOST else []
    return Table(title, COLUMNS[kind], rows[:MOST], (*more, *remarks))


def _moved(ran: Ran) -> tuple[str, ...]:
    shape = " x ".join(map(str, ran.shape)) or "()"
    return ran.name, _place(ran), shape, *_sums(ran), ran.line or _UNKNOWN


def _place(ran: Ran) -> str:
    return HOST if ran.device == TARGET else ran.device


def _sums(ran: Ran) -> tuple[str, str, str]:
    return str(ran.events), units.memory(ran.nbytes), _duration(ran.seconds)


def _busy(busy: Busy, refs: Mapping[str, str]) -> tuple[str, ...]:
    device = refs.get(busy.device, busy.device)
    names = "-" if busy.device == HOST else ", ".join(busy.names)
    if not busy.events:
        return device, names, "0", "-", "-"
    share = _UNKNOWN if busy.share is None else f"{busy.share:.0%}"
    return device, names, str(busy.events), _duration(busy.seconds), share


def _moved_in_all(found: Summary) -> str:
    """Return the sum, also where there is nothing to add up: no table says nothing."""
    if not found.implicit:
        return "none"
    seconds = total(each.seconds for each in found.implicit)
    cost = "times unknown" if seconds is None else f"{_duration(seconds)} together"
    count = counted(sum(each.events for each in found.implicit), "transfer")
    return f"in all {count}, {units.memory(found.moved)}, {cost}"


def _times(found: Summary) -> Iterator[str]:
    """Yield what holds for the times of all events."""
    if found.span is not None:
        whole = _duration(found.span)
        yield f"share: of {whole}, from the start of the first event to the end of the last one"
    if found.untimed:
        yield (
            f"{found.untimed} events have no times: their device cannot tell when its queue came "
            "to them"
        )


def _duration(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else time_of(seconds)


def _used(found: Utilisation, refs: Mapping[str, str]) -> Table:
    """Return a row for each name, without columns of which nothing is known.

    Args:
        found: what was seen.
        refs: the devices by their ids, as a map writes them.
    """
    rows = tuple(_use(use, refs.get(use.device, use.device)) for use in found.uses)
    title = f"use of devices in {time_of(found.elapsed)}"
    return Table(title, USES, rows, tuple(_uses_remarks(found))).full()


def _use(use: Use, device: str) -> tuple[str, ...]:
    return (
        use.name,
        device,
        {"used": "yes", "not-used": "no", "unknown": "cannot tell"}[use.verdict],
        "-" if use.busy is None else f"{use.busy:.0%}",
        "-" if use.idle is None else f"{use.idle:.1f} s",
    )


def _uses_remarks(found: Utilisation) -> Iterator[str]:
    yield f"{found.cpu:.1f} s of CPU time; seen from outside at {counted(found.looks, 'look')}"
    for use in found.uses:
        if use.verdict == "unknown" and use.why:
            yield f"{use.name}: cannot tell, {texts('unseen')[use.why]}"


def records(report: Report, result: Watched) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield what ran, how busy each device was, and what was seen from outside."""
    for trace in result.traces:
        yield from _trace(trace)
    if result.utilisation is not None:
        yield from map(_of_use, result.utilisation.uses)


def _trace(trace: Trace) -> Iterator[Record]:
    """Yield what ran and how busy each device was; an unknown time has no value."""
    found, id_ = summary(trace), f"context {trace.number}"
    for ran in found.ran:
        cells = {"case": ran.name, "names": ran.device, "n": ran.events,
                 "flags": "implicit" if ran.implicit else ""}  # fmt: skip
        figures = {"time": _known(ran.seconds, "s"), "bytes": _known(ran.nbytes, "B")}
        yield Record("ran", id_, cells, figures)
    for busy in found.busy:
        cells = {"names": "+".join(busy.names), "devices": busy.device, "n": busy.events}
        figures = {"busy": _known(busy.seconds, "s"), "share": _known(busy.share, "1")}
        yield Record("busy", id_, cells, figures)


def _of_use(use: Use) -> Record:
    """Return the record of how busy a device was, seen from outside."""
    cells = {"names": use.name, "devices": use.device, "status": use.verdict, "reason": use.why}
    return Record("use", None, cells, {"busy": _known(use.busy, "1")})


def _known(value: float | None, unit: str) -> Estimate:
    """Return a figure that has no interval; without a value if that is not known."""
    return Estimate.refused(unit) if value is None else Estimate.without_interval(value, unit)


SPEC = ResultSpec(sections, Question(uses.trace, "traced"), records)
