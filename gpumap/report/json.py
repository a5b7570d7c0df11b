"""The complete form of a report: its keys are what scripts, limits and `compare` stand on."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.judge.traces import summary
from gpumap.model import Samples
from gpumap.model.trees import SCHEMA_VERSION, digest, finite, plain
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.errors import Diagnostic
    from gpumap.judge.traces import Busy, Ran
    from gpumap.model import (
        BreakEven,
        Case,
        Device,
        Fit,
        Measurement,
        Plan,
        Probe,
        Problem,
        Rank,
        Report,
        RoundTrip,
        SelfTest,
        Trace,
    )
    from gpumap.report import Style

_INDENT = "  "
_LEAF = json.JSONEncoder(allow_nan=False).encode  # made once: `dumps` makes one for each value


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as JSON: objects indented, each array of plain values on one line."""
    return written(envelope(report))


def written(tree: dict[str, Any]) -> str:
    """Return JSON text that people can read too."""
    return "".join(_written(tree, "")) + "\n"


def envelope(report: Report) -> dict[str, Any]:
    """Return the report as plain dictionaries and lists, every key of the schema present."""
    tree = {
        "schema_version": SCHEMA_VERSION,
        "kind": report.kind,
        "tool": {"name": "gpumap", "version": report.version or __version__},
        "argv": list(report.argv),
        "started": report.started,
        "ended": report.ended,
        "elapsed_s": report.elapsed,
        "status": report.status,
        "exit_code": report.exit_code,
        "headline": plain(report.headline),
        "simulated": report.simulated,
        "settings": dict(report.settings),
        "map": _map(report),
        "devices": [_device(device) for device in report.devices],
        "backends": [_backend(probe) for probe in report.backends],
        "fingerprint": plain(report.fingerprint),
        "environment": dict(report.environment),
        "machine": {"before": plain(report.before), "after": plain(report.after)},
        "measurements": [_row(row) for row in report.measurements],
        "plans": [_plan(plan) for plan in report.plans],
        "fits": [_fit(fit) for fit in report.fits],
        "break_evens": [_break_even(found) for found in report.break_evens],
        "verdicts": plain(report.verdicts),
        "selftest": _selftest(report.selftest),
        "errors": [_problem(problem) for problem in report.errors],
        "notes": [] if report.source else [_note(note) for note in report.notes],
        "accepted": plain(report.accepted),
        "traces": [_trace(trace) for trace in report.traces],
        "diagnoses": plain(report.diagnoses),
        "ranks": [_rank(rank) for rank in report.ranks],
        "prediction": plain(report.prediction),
        "published": plain(report.published),
    }
    return {**tree, "digest": digest(tree)}


def _map(report: Report) -> dict[str, Any] | None:
    if report.source is None:
        return None
    found = {binding.name: binding.device.id for binding in report.bindings}
    entries = report.map.entries if report.map else ()
    return {
        "text": report.source.text,
        "source": report.source.origin,
        "source_path": report.source.path,
        "entries": [
            {"name": e.name, "requested": str(e.ref), "device": found.get(e.name)} for e in entries
        ],
        "notes": [_note(note) for note in report.notes],
    }


def _note(note: Diagnostic) -> dict[str, Any]:
    return {
        "code": note.code,
        "severity": note.severity,
        "message": note.message,
        "entry": note.entry,
        "span": [note.span.start, note.span.stop] if note.span else None,
        "hint": note.hint,
        "name": note.name,
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {**_note(problem.diagnostic), "exit": problem.exit}


def _rank(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.number,
        "local_rank": rank.local,
        "host": rank.host,
        "process": rank.process,
        "name": rank.binding.name if rank.binding else None,
        "device": rank.binding.device.id if rank.binding else None,
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "id": device.id,
        "kind": str(device.kind),
        "ref": str(device.ref),
        "name": device.name,
        "backend": device.backend,
        "pci": device.pci,
        "uuid": device.uuid,
        "hardware": sorted(device.hardware),
        "memory_total_bytes": device.memory_total,
        "memory_free_bytes": device.memory_free,
        "units": device.units,
        "numa_node": device.numa_node,
        "cores": list(device.cores),
        "driver": device.driver,
        "link": _link(device),
    }


def _link(device: Device) -> dict[str, Any] | None:
    generation, width = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
    if generation is None or width is None:
        return None
    now = device.facts.get("link_width")
    return {"max_generation": generation, "max_width": width, "width": now}


def _backend(probe: Probe) -> dict[str, Any]:
    return {
        "name": probe.name,
        "usable": probe.usable,
        "version": probe.version,
        "reason": probe.reason,
        "fix": probe.fix,
        "notes": list(probe.notes),
        "code": probe.code,
    }


def _row(row: Measurement) -> dict[str, Any]:
    case = row.case
    return {
        "id": case.id,
        "bench": case.bench,
        "case": case.name,
        "params": dict(case.params),
        "names": list(case.names),
        "devices": [binding.device.id for binding in case.bindings],
        "backend": case.backend,
        "route": row.route or case.route,
        "status": row.status,
        "reason": plain(row.reason),
        "flags": list(row.flags),
        "work": _work(case),
        **_samples(row.samples),
        "around": plain(row.around),
        "stop": plain(row.stop),
        "check": plain(row.check),
        "metrics": plain(row.metrics),
        "against": case.against,
        "ceiling": plain(row.ceiling),
        "explanation": plain(row.explanation),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "cases": [case.id for case in plan.cases],
        "groups": [len(group.cases) for group in plan.groups],
        "memory_bytes": dict(plan.memory),
        "largest_buffer_bytes": plan.largest_buffer,
        "about": list(plan.about),
    }


def _fit(fit: Fit) -> dict[str, Any]:
    return {
        "id": fit.id,
        "fits": fit.fits,
        "regimes": fit.regimes,
        "sizes_bytes": list(fit.sizes),
        "residual_max": finite(fit.residual),
        "held_back": plain(fit.held_back),
        "lines": plain(fit.lines),
        "metrics": plain(fit.metrics),
    }


def _break_even(found: BreakEven) -> dict[str, Any]:
    return {
        "id": found.id,
        "workload": found.workload,
        "against": found.against,
        "wins": [list(range_) for range_ in found.wins],
        "measured_to_bytes": found.measured_to,
        "why_stopped": found.why_stopped,
        "reason": plain(found.reason),
        "check": plain(found.check),
        "metrics": plain(found.metrics),
        "shares": plain(found.shares),
    }


def _work(case: Case) -> dict[str, int]:
    work = case.work
    moved = {"bytes_to_device": work.bytes_to_device, "bytes_to_host": work.bytes_to_host}
    if not work.products:
        return {"bytes": sum(moved.values()), **moved}
    return {"products": work.products, "operations": work.operations, **moved}


def _samples(samples: Samples | None) -> dict[str, Any]:
    taken = samples is not None
    samples = samples or Samples()
    return {
        "samples": [finite(seconds) for seconds in samples.seconds],
        "blocks": list(samples.blocks),
        "iterations_per_sample": samples.iterations_per_sample if taken else None,
        "clock": samples.clock if taken else None,
        "sample_notes": plain(samples.sample_notes),
        "queue_s": list(samples.queue),
        "cpu_s": list(samples.cpu),
        "empty_sync_s": samples.empty_sync,
        "worked_s": {name: list(seconds) for name, seconds in samples.worked.items()},
        "intervals": {
            name: {"start_s": [a for a, _ in spans], "stop_s": [b for _, b in spans]}
            for name, spans in samples.intervals.items()
        },
        "phases_s": {name: list(seconds) for name, seconds in samples.phases.items()},
    }


def _selftest(found: SelfTest | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "round_trips": [_round_trip(trip) for trip in found.round_trips],
        "alarms": plain(found.alarms),
    }


def _round_trip(trip: RoundTrip) -> dict[str, Any]:
    reason = trip.reason
    return {
        "device": trip.device.id,
        "ref": str(trip.device.ref),
        "backend": trip.device.backend,
        "name": trip.name,
        "passed": reason is None,
        "reason": plain(reason),
    }


def _trace(trace: Trace) -> dict[str, Any]:
    found = summary(trace)
    return {
        "context": trace.number,
        "policy": trace.policy,
        "opened_s": trace.opened,
        "closed": trace.closed,
        "entries": [
            {"name": b.name, "device": b.device.id, "backend": b.device.backend}
            for b in trace.bindings
        ],
        "summary": {
            "span_s": found.span,
            "overlap": found.overlap,
            "untimed": found.untimed,
            "ran": [_ran(ran) for ran in found.ran],
            "moved": _sums(found.moved),
            "busy": [_busy(busy) for busy in found.busy],
        },
        "events": plain(trace.events),
    }


def _ran(ran: Ran) -> dict[str, Any]:
    return {"name": ran.name, "device": ran.device, "kind": ran.kind, "implicit": ran.implicit,
            **_sums(ran)}  # fmt: skip


def _sums(ran: Ran) -> dict[str, Any]:
    return {"count": ran.count, "bytes": ran.nbytes, "time_s": ran.seconds}


def _busy(busy: Busy) -> dict[str, Any]:
    return {
        "device": busy.device,
        "names": list(busy.names),
        "events": busy.events,
        "busy_s": busy.seconds,
        "share": busy.share,
    }


def _written(value: Any, indent: str) -> list[str]:
    """Return JSON text, in parts; what is not ASCII is escaped, so no mark acts on a terminal."""
    parts: list[str] = []
    _write(value, indent, parts.append)
    return parts


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
