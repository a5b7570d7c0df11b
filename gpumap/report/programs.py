"""What programs did, as tables: traces, the use of devices, runs on fewer names, ranks of a job.

Traces are events too, which Perfetto and chrome://tracing show. Their format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
(Google, "Trace Event Format"); of it complete events (`ph` "X") and metadata ("M") are used.

A context is a process, each of its devices a thread; the host and copies from one name to another
have threads of their own. `ts` and `dur` are microseconds, in whole nanoseconds, so that events of
a queue stay one behind the other. What has no times has no place on a time line: `otherData` says
how many such events there are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpumap import units
from gpumap.figures import estimate
from gpumap.judge.programs import HOST, TARGET, WHY, shares, summary
from gpumap.report.table import Table
from gpumap.units import counted, ranges, time_of
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.judge.programs import ImplicitCopies, Summary
    from gpumap.model import (
        Busy,
        Ran,
        Rank,
        Report,
        Scaled,
        Scaling,
        Trace,
        Use,
        Utilisation,
    )


_HOST = "cpu"  # the target of what is in host memory
_LEAF = json.JSONEncoder(allow_nan=False).encode
COLUMNS = {
    "ran": ("ran", "on", "implicit", "count", "bytes", "total time"),
    "moved": ("moved", "on", "shape", "count", "bytes", "total time", "line"),
    "busy": ("device", "names", "events", "busy", "share"),
}
MOST = 100  # rows of a table
CONTEXTS = 20
_ALL = "--format json has all of them"
_UNKNOWN = "unknown"  # what a device cannot tell; 0 would be a figure
_NONE = "-"


def perfetto(traces: Iterable[Trace]) -> str:
    """Return one JSON document for all traces; all of it is ASCII, each event on a line."""
    every = tuple(traces)
    lines = ",\n".join(_LEAF(event) for trace in every for event in _events(trace))
    untimed = sum(event.start is None for trace in every for event in trace.events)
    other = {"tool": f"gpumap {__version__}", "events_without_times": untimed}
    head = f'{{"displayTimeUnit": "ms", "otherData": {_LEAF(other)}, "traceEvents": ['
    return f"{head}\n{lines}\n]}}\n" if lines else f"{head}]}}\n"


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    threads = _threads(trace)
    yield from _metadata(trace, threads)
    opened = _nanoseconds(trace.opened or 0.0)
    for event in trace.events:
        if event.start is not None and event.stop is not None:
            start, stop = _nanoseconds(event.start), _nanoseconds(event.stop)
            yield {
                "name": event.name,
                "cat": event.kind + (",implicit" if event.implicit else ""),
                "ph": "X",
                "ts": (opened + start) / 1000,
                "dur": (stop - start) / 1000,
                "pid": trace.number,
                "tid": threads[event.device],
                "args": {
                    "bytes": event.nbytes,
                    "shape": list(event.shape),
                    "implicit": event.implicit,
                    "device": event.device,
                    **({} if event.line is None else {"line": event.line}),
                },
            }


def _threads(trace: Trace) -> dict[str, int]:
    """Return a number for each place: names of the map first, also where nothing ran."""
    names = [binding.name for binding in trace.bindings]
    places = dict.fromkeys([*names, *(event.device for event in trace.events)])
    return {place: number for number, place in enumerate(places, 1)}


def _metadata(trace: Trace, threads: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield how the context and its threads are called, and the order of these."""
    context = f"context {trace.number} ({trace.policy})"
    yield _perfetto_about("process_name", trace.number, 0, {"name": context})
    known = {b.name: f"{b.name} ({b.device.ref}, {b.device.name})" for b in trace.bindings}
    known[_HOST] = "host"
    for place, thread in threads.items():
        name = known.get(place, f"copies {place}")
        yield _perfetto_about("thread_name", trace.number, thread, {"name": name})
        yield _perfetto_about("thread_sort_index", trace.number, thread, {"sort_index": thread})


def _perfetto_about(
    what: str, process: int, thread: int, args: Mapping[str, Any]
) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": args}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def traces(report: Report) -> Iterator[Table]:
    """Yield three tables for each context that a program opened, up to CONTEXTS of them."""
    count = len(report.traces)
    for trace in report.traces[:CONTEXTS]:
        yield from _context(trace, f"context {trace.number}" if count > 1 else "trace")
    if count > CONTEXTS:
        yield Table(f"the first {CONTEXTS} of {count} contexts are shown; {_ALL}", (), (), ())


def _context(trace: Trace, title: str) -> Iterator[Table]:
    found = summary(trace)
    rows, more = _capped(
        [
            (ran.name, _place(ran), "yes" if ran.implicit else _NONE, *_sums(ran))
            for ran in found.ran
        ]
    )
    yield Table(f"{title}: what ran where", COLUMNS["ran"], rows, (*more, *_about(trace)))
    rows, more = _capped([_moved(ran) for ran in found.implicit])
    remarks = (*more, _moved_in_all(found, trace))
    yield Table(f"{title}: implicit transfers", COLUMNS["moved"], rows, remarks)
    refs = {b.device.id: str(b.device.ref) for b in trace.bindings}
    rows, more = _capped([_busy(busy, refs) for busy in found.busy])
    remarks = (*more, *_times(found))
    yield Table(f"{title}: how busy each device was", COLUMNS["busy"], rows, remarks)


def _moved(ran: ImplicitCopies) -> tuple[str, ...]:
    shape = " x ".join(map(str, ran.shape or ())) or "()"
    return ran.name, _place(ran), shape, *_sums(ran), ran.line or _UNKNOWN


def _place(ran: Ran) -> str:
    return HOST if ran.device == TARGET else ran.device


def _sums(ran: Ran) -> tuple[str, str, str]:
    return str(ran.count), units.memory(ran.nbytes), _duration(ran.seconds)


def _busy(busy: Busy, refs: Mapping[str, str]) -> tuple[str, ...]:
    device = refs.get(busy.device, busy.device)
    names = _NONE if busy.device == HOST else ", ".join(busy.names)
    if not busy.events:
        return device, names, "0", _NONE, _NONE
    return device, names, str(busy.events), _duration(busy.seconds), _share_of(busy.share)


def _about(trace: Trace) -> Iterator[str]:
    """Yield what is to be known of a context beside its events."""
    if not trace.events:
        yield "no event is known"
    if not trace.closed:
        yield "it was left open when the program ended: open it by `with`, which closes it"


def _moved_in_all(found: Summary, trace: Trace) -> str:
    """Return the sum, also where there is nothing to add up: no table says nothing."""
    moved = found.moved
    if not moved.count:
        return "none: every transfer was requested" if trace.events else "none"
    known = f"{_duration(moved.seconds)} together"
    cost = "times unknown" if moved.seconds is None else known
    return f"in all {counted(moved.count, 'transfer')}, {units.memory(moved.nbytes)}, {cost}"


def _times(found: Summary) -> Iterator[str]:
    """Yield what holds for the times of all events."""
    if found.span is not None:
        whole = _duration(found.span)
        yield f"share: of {whole}, from the start of the first event to the end of the last one"
    if found.overlap is not None:
        yield f"overlap of the devices, of operations: {_share_of(found.overlap)}"
    if found.untimed:
        yield (
            f"{found.untimed} events have no times: their device cannot tell when its queue came "
            "to them"
        )
    elif found.span is not None:
        yield "every time was seen once: `gpumap bench` measures"


def _duration(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else time_of(seconds)


def _share_of(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.0%}"


def _capped(
    rows: Sequence[tuple[str, ...]],
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Return the rows that are shown, and what is to be said of the others."""
    if len(rows) <= MOST:
        return tuple(rows), ()
    return tuple(rows[:MOST]), (f"the first {MOST} of {len(rows)} rows; {_ALL}",)


USES = (
    "name", "device", "used", "busy", "peak", "memory", "to device", "to host", "first use",
    "longest idle", "kernels", "waits", "kernel time", "copy time",
)  # fmt: skip
_RIGHT = USES[3:]
STEPS = ("names", "time", "speed-up", "busy", "memory", "n")
_NOTABLE = 0.05  # of the time of cores that other programs had


def used(found: Utilisation, refs: Mapping[str, str]) -> Table:
    """Return a row for each name, without columns of which nothing is known.

    Args:
        found: what was seen.
        refs: the devices by their ids, as a map writes them.
    """
    rows = tuple(_use(use, refs.get(use.device, use.device)) for use in found.uses)
    title = f"use of devices in {time_of(found.elapsed)}"
    return Table(title, USES, rows, tuple(_uses_remarks(found)), right=_RIGHT).full()


def _use(use: Use, device: str) -> tuple[str, ...]:
    return (
        use.name,
        device,
        {"used": "yes", "not-used": "no", "unknown": "cannot tell"}[use.verdict],
        _used(use.busy),
        _used(use.peak),
        units.memory(use.memory),
        units.memory(use.bytes_to_device),
        units.memory(use.bytes_to_host),
        _NONE if use.first is None else f"{use.first:.1f} s",
        _NONE if use.idle is None else f"{use.idle:.1f} s",
        _NONE if use.kernels is None else f"{use.kernels:,}",
        _NONE if use.waits is None else f"{use.waits:,}",
        _NONE if use.computing is None else time_of(use.computing),
        _NONE if use.copying is None else time_of(use.copying),
    )


def _used(share: float | None) -> str:
    return _NONE if share is None else f"{share:.0%}"


def _uses_remarks(found: Utilisation) -> Iterator[str]:
    where = "from outside" if found.command else "between samples"
    yield (
        f"{found.cpu:.1f} s of CPU time, {units.memory(found.memory)} of host memory at most; "
        f"seen {where} at {counted(found.looks, 'look')}"
    )
    for use in found.uses:
        if use.verdict == "unknown" and use.why:
            yield f"{use.name}: cannot tell, {WHY[use.why]}"
        if use.foreign is not None and use.foreign >= _NOTABLE:
            yield f"{use.name}: other programs had {use.foreign:.0%} of its time"
        if use.power is not None or use.throttle:
            power = () if use.power is None else (f"{use.power:.0f} W at most",)
            held = (f"limited by: {', '.join(use.throttle)}",) if use.throttle else ()
            yield f"{use.name}: {'; '.join((*power, *held))}"
    if found.unseen >= _NOTABLE:
        yield f"{found.unseen:.2f} s of CPU time belong to no core: between two looks"


def scaled(found: Scaling) -> Table:
    """Return a row for each number of names that a program was measured on."""
    rows = tuple(map(_step, found.steps))
    remarks = ("median of n runs [95 % interval]; busy: in the last of them, seen from outside",)
    return Table("a program on so many names", STEPS, rows, remarks, right=STEPS[1:])


def _step(step: Scaled) -> tuple[str, ...]:
    failed = step.code is not None
    return (
        str(len(step.names)),
        f"failed, code {step.code}" if failed and step.time is None else estimate(step.time),
        estimate(step.speedup),
        shares(step),
        units.memory(max((run.memory for run in step.runs), default=None)),
        str(len(step.runs)),
    )


RANKS = ("rank", "local", "host", "process", "name", "device", "identity", "NUMA", "cores")


def ranks(report: Report) -> Iterator[Table]:
    """Yield the table, where the process was one of several."""
    if not report.ranks:
        return
    rows = tuple(map(_rank, report.ranks))
    machines = counted(len({rank.host for rank in report.ranks}), "machine")
    yield Table(f"{len(rows)} ranks on {machines}", RANKS, rows, ())


def _rank(rank: Rank) -> tuple[str, ...]:
    process = (str(rank.number), str(rank.local), rank.host, str(rank.process))
    if rank.binding is None:
        return (*process, *[_NONE] * (len(RANKS) - len(process)))
    device = rank.binding.device
    node = _NONE if device.numa_node is None else str(device.numa_node)
    cores = ranges(device.cores) or _NONE
    identity = device.uuid or device.pci or _NONE
    return (*process, rank.binding.name, str(device.ref), identity, node, cores)
