"""Traces as events that Perfetto and chrome://tracing show.

Their format:
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

from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.model import Trace

_HOST = "cpu"  # the target of what is in host memory
_LEAF = json.JSONEncoder(allow_nan=False).encode


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
