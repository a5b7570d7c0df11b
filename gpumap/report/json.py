"""The complete form of a report: its keys are what scripts, limits and `compare` stand on."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap import model
from gpumap.judge.programs import summary
from gpumap.model import shape
from gpumap.model.trees import SCHEMA_VERSION, copied, digest, plain
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.errors import Diagnostic
    from gpumap.report import Style

_INDENT = "  "
_LEAF = json.JSONEncoder(allow_nan=False).encode  # made once: `dumps` makes one for each value


def render(report: model.Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as JSON: objects indented, each array of plain values on one line."""
    return written(envelope(report))


def written(tree: dict[str, Any]) -> str:
    """Return JSON text that people can read too."""
    parts: list[str] = []  # what is not ASCII is escaped, so no mark acts on a terminal
    _write(tree, "", parts.append)
    return "".join(parts).replace("##[", r"#\u0023[") + "\n"  # a command of CI's


def envelope(report: model.Report) -> dict[str, Any]:
    """Return the report as plain dictionaries and lists, every key of the schema present."""
    found = copied(
        shape.Report,
        report,
        schema_version=SCHEMA_VERSION,
        tool=shape.Tool("gpumap", report.version or __version__),
        headline=report.headline and copied(shape.Headline, report.headline),
        map=_map(report),
        devices=list(map(_device, report.devices)),
        backends=[copied(shape.Backend, probe) for probe in report.backends],
        machine=shape.Machine(report.before, report.after),
        measurements=list(map(_row, report.measurements)),
        plans=list(map(_plan, report.plans)),
        fits=[copied(shape.Fit, fit) for fit in report.fits],
        break_evens=[copied(shape.BreakEven, found) for found in report.break_evens],
        selftest=report.selftest and _selftest(report.selftest),
        errors=[copied(shape.Problem, _note(each.diagnostic), each) for each in report.errors],
        notes=[] if report.source else list(map(_note, report.notes)),
        traces=list(map(_trace, report.traces)),
        ranks=list(map(_rank, report.ranks)),
        digest="",
    )
    tree: dict[str, Any] = plain(found)
    return {**tree, "digest": digest(tree)}


def _map(report: model.Report) -> shape.Map | None:
    if report.source is None:
        return None
    found = {binding.name: binding.device.id for binding in report.bindings}
    entries = report.map.entries if report.map else ()
    return copied(
        shape.Map,
        report.source,
        source=report.source.origin,
        source_path=report.source.path,
        entries=[shape.Entry(e.name, str(e.ref), found.get(e.name)) for e in entries],
        notes=[_note(note) for note in report.notes],
    )


def _note(note: Diagnostic) -> shape.Note:
    return copied(shape.Note, note, span=note.span and (note.span.start, note.span.stop))


def _rank(rank: model.Rank) -> Any:
    device = rank.binding.device.id if rank.binding else None
    return copied(shape.Rank, rank, name=rank.binding and rank.binding.name, device=device)


def _device(device: model.Device) -> Any:
    hardware = sorted(device.hardware)
    return copied(shape.Device, device, ref=str(device.ref), hardware=hardware, link=_link(device))


def _link(device: model.Device) -> shape.Link | None:
    facts: Mapping[str, Any] = device.facts
    generation, width = facts.get("max_link_generation"), facts.get("max_link_width")
    if generation is None or width is None:
        return None
    return shape.Link(generation, width, facts.get("link_width"))


def _row(row: model.Measurement) -> Any:
    case, samples = row.case, row.samples
    untaken = {} if samples else {"iterations_per_sample": None, "clock": None}
    return copied(
        shape.Row,
        row,
        case,
        samples or model.Samples(),
        devices=[binding.device.id for binding in case.bindings],
        route=row.route or case.route,
        work=_work(case),
        intervals=_intervals(samples) if samples else {},
        **untaken,
    )


def _intervals(samples: model.Samples) -> dict[str, shape.Spans]:
    return {
        name: shape.Spans(tuple(a for a, _ in spans), tuple(b for _, b in spans))
        for name, spans in samples.intervals.items()
    }


def _work(case: model.Case) -> dict[str, int]:
    work = case.work
    moved = {"bytes_to_device": work.bytes_to_device, "bytes_to_host": work.bytes_to_host}
    if not work.products:
        return {"bytes": sum(moved.values()), **moved}
    return {"products": work.products, "operations": work.operations, **moved}


def _plan(plan: model.Plan) -> Any:
    groups = [len(group.cases) for group in plan.groups]
    return copied(shape.Plan, plan, cases=[case.id for case in plan.cases], groups=groups)


def _selftest(found: model.SelfTest) -> shape.SelfTest:
    return copied(shape.SelfTest, found, round_trips=[*map(_round_trip, found.round_trips)])


def _round_trip(trip: model.RoundTrip) -> shape.RoundTrip:
    device, ref, passed = trip.device.id, str(trip.device.ref), trip.reason is None
    return copied(shape.RoundTrip, trip, trip.device, device=device, ref=ref, passed=passed)


def _trace(trace: model.Trace) -> Any:
    entries = [shape.TraceEntry(b.name, b.device.id, b.device.backend) for b in trace.bindings]
    found = copied(model.TraceSummary, summary(trace))
    return copied(shape.Trace, trace, entries=entries, summary=found)


def _write(value: Any, indent: str, say: Callable[[str], None]) -> None:
    inner = f"\n{indent}{_INDENT}"
    if isinstance(value, dict) and value:
        if not any(isinstance(item, dict | list) for item in value.values()):
            say(f"{{{inner}{_parted(f',{inner}')(value)[1:-1]}\n{indent}}}")
            return
        for n, (key, item) in enumerate(value.items()):
            say(f"{',' if n else '{'}{inner}{_LEAF(str(key))}: ")
            _write(item, indent + _INDENT, say)
        say(f"\n{indent}}}")
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        for n, item in enumerate(value):
            say(f"{',' if n else '['}{inner}")
            _write(item, indent + _INDENT, say)
        say(f"\n{indent}]")
    else:
        say(_LEAF(value))


@cache
def _parted(separator: str) -> Callable[[Any], str]:
    """Return what writes an object of plain values, with `separator` between them."""
    return json.JSONEncoder(allow_nan=False, separators=(separator, ": ")).encode
