"""The complete form of a report: its keys are what scripts, limits and `compare` stand on.

History of `schema_version`:
    1: the first.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.judge.traces import summary
from gpumap.model import Samples
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.errors import Diagnostic
    from gpumap.judge.traces import Busy, Ran
    from gpumap.model import (
        Acceptance,
        Alarms,
        BreakEven,
        Case,
        Ceiling,
        Cell,
        Check,
        Device,
        Diagnosis,
        Estimate,
        Example,
        Explanation,
        Finding,
        Fingerprint,
        Fit,
        GpuState,
        LeftOut,
        Measurement,
        Plan,
        Prediction,
        Probe,
        Problem,
        Published,
        Rank,
        Report,
        RoundTrip,
        SelfTest,
        Shares,
        State,
        Stop,
        Trace,
        TraceEvent,
        Verdict,
    )
    from gpumap.report import Style

SCHEMA_VERSION = 1
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
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": report.kind,
        "tool": {"name": "gpumap", "version": report.version or __version__},
        "argv": list(report.argv),
        "started": report.started,
        "ended": report.ended,
        "elapsed_s": report.elapsed,
        "status": report.status,
        "exit_code": report.exit_code,
        "simulated": report.simulated,
        "settings": dict(report.settings),
        "map": _map(report),
        "devices": [_device(device) for device in report.devices],
        "backends": [_backend(probe) for probe in report.backends],
        "fingerprint": _fingerprint(report.fingerprint),
        "environment": dict(report.environment),
        "machine": {"before": _state(report.before), "after": _state(report.after)},
        "measurements": [_row(row) for row in report.measurements],
        "plans": [_plan(plan) for plan in report.plans],
        "fits": [_fit(fit) for fit in report.fits],
        "break_evens": [_break_even(found) for found in report.break_evens],
        "verdicts": [_verdict(verdict) for verdict in report.verdicts],
        "selftest": _selftest(report.selftest),
        "errors": [_problem(problem) for problem in report.errors],
        "notes": [] if report.source else [_note(note) for note in report.notes],
        "accepted": [_acceptance(entry) for entry in report.accepted],
        "traces": [_trace(trace) for trace in report.traces],
        "diagnoses": [_diagnosis(found) for found in report.diagnoses],
        "ranks": [_rank(rank) for rank in report.ranks],
        "prediction": _prediction(report.prediction),
        "published": _published(report.published),
    }


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
            {"name": e.name, "asked": str(e.ref), "device": found.get(e.name)} for e in entries
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


def _acceptance(entry: Acceptance) -> dict[str, Any]:
    return {
        "when": entry.when,
        "reason": entry.reason,
        "verdicts": dict(entry.verdicts),
        "base_started": entry.base_started,
        "new_started": entry.new_started,
    }


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
        "silicon": sorted(device.silicon),
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


def _fingerprint(fingerprint: Fingerprint | None) -> dict[str, Any] | None:
    if fingerprint is None:
        return None
    return {
        "hash": fingerprint.hash,
        "cpu": fingerprint.cpu,
        "cores": fingerprint.cores,
        "os": fingerprint.os,
        "python": fingerprint.python,
        "libraries": dict(fingerprint.libraries),
        "devices": list(fingerprint.devices),
        "drivers": dict(fingerprint.drivers),
        "links": list(fingerprint.links),
    }


def _state(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "load1": state.load1,
        "steal": state.steal,
        "busy": state.busy,
        "clocks_hz": dict(state.clocks_hz),
        "gpus": [_gpu(gpu) for gpu in state.gpus],
        "others": state.others
        and {
            "cores": state.others.cores,
            "of": state.others.of,
            "processes": [{"name": p.name, "cores": p.cores} for p in state.others.processes],
        },
    }


def _gpu(gpu: GpuState) -> dict[str, Any]:
    return {
        "device": gpu.device,
        "clocks_hz": dict(gpu.clocks_hz),
        "power_w": gpu.power,
        "temperature_c": gpu.temperature,
        "throttle": None if gpu.throttle is None else list(gpu.throttle),
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
        "reason": {"code": row.reason.code, "text": row.reason.text} if row.reason else None,
        "flags": list(row.flags),
        "work": _work(case),
        **_samples(row.samples),
        "around": _around(row),
        "stop": _stop(row.stop),
        "check": _check(row.check),
        "metrics": {name: estimated(figure) for name, figure in row.metrics.items()},
        "against": case.against,
        "ceiling": _ceiling(row.ceiling),
        "explanation": _explanation(row.explanation),
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
    held = fit.held_back
    return {
        "id": fit.id,
        "fits": fit.fits,
        "regimes": fit.regimes,
        "sizes_bytes": list(fit.sizes),
        "residual_max": _finite(fit.residual),
        "held_back": held
        and {"bytes": held.nbytes, "predicted_s": held.predicted, "measured_s": held.measured},
        "lines": _lines(fit.lines),
        "metrics": {name: estimated(figure) for name, figure in fit.metrics.items()},
    }


def _break_even(found: BreakEven) -> dict[str, Any]:
    return {
        "id": found.id,
        "workload": found.workload,
        "against": found.against,
        "wins": [list(range_) for range_ in found.wins],
        "measured_to_bytes": found.measured_to,
        "why_stopped": found.why_stopped,
        "reason": {"code": found.reason.code, "text": found.reason.text} if found.reason else None,
        "check": _check(found.check),
        "metrics": {name: estimated(figure) for name, figure in found.metrics.items()},
        "shares": {str(nbytes): _shares(shares) for nbytes, shares in found.shares.items()},
    }


def _shares(shares: Shares) -> dict[str, Any]:
    return {
        "calls": shares.calls,
        "total_s": shares.total,
        "host_s": shares.host,
        "upload": shares.upload,
        "compute": shares.compute,
        "download": shares.download,
        "overhead": shares.overhead,
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
        "samples": [_finite(seconds) for seconds in samples.seconds],
        "blocks": list(samples.blocks),
        "rounds_per_sample": samples.rounds_per_sample if taken else None,
        "clock": samples.clock if taken else None,
        "marks": [{"sample": m.sample, "mark": m.mark, "detail": m.detail} for m in samples.marks],
        "queue_s": list(samples.queue),
        "cpu_s": list(samples.cpu),
        "empty_sync_s": samples.empty_sync,
        "worked_s": {name: list(seconds) for name, seconds in samples.worked.items()},
        "spans": {
            name: {"start_s": [a for a, _ in spans], "stop_s": [b for _, b in spans]}
            for name, spans in samples.spans.items()
        },
        "phases_s": {name: list(seconds) for name, seconds in samples.phases.items()},
    }


def _around(row: Measurement) -> dict[str, Any] | None:
    around = row.around
    if around is None:
        return None
    return {
        "foreign_cores": around.foreign,
        "steal": around.steal,
        "busy_cores_before": around.before,
        "cores": around.cores,
    }


def _ceiling(ceiling: Ceiling | None) -> dict[str, Any] | None:
    if ceiling is None:
        return None
    return {
        "metric": ceiling.metric,
        "share": ceiling.share,
        "value": ceiling.value,
        "unit": ceiling.unit,
        "source": ceiling.source,
        "origin": ceiling.origin,
    }


def _explanation(explanation: Explanation | None) -> dict[str, Any] | None:
    if explanation is None:
        return None
    figures = _figures(explanation.figures)
    return {"cause": explanation.cause, "text": explanation.text, "figures": figures}


def _stop(stop: Stop | None) -> dict[str, Any] | None:
    if stop is None:
        return None
    return {
        "why": stop.why,
        "n": stop.n,
        "warmup": stop.warmup,
        "autocorrelation": stop.autocorrelation,
        "effective_n": stop.effective_n,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "rule": verdict.rule,
        "text": verdict.text,
        "id": verdict.id,
        "metric": verdict.metric,
        "verdict": verdict.verdict,
        "value": _finite(verdict.value),
        "low": _finite(verdict.low),
        "high": _finite(verdict.high),
        "limit": verdict.limit,
        "base": _finite(verdict.base),
        "threshold": verdict.threshold,
        "reason": verdict.reason,
        "relative": estimated(verdict.relative) if verdict.relative else None,
    }


def _selftest(found: SelfTest | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "round_trips": [_round_trip(trip) for trip in found.round_trips],
        "alarms": [_alarms(alarms) for alarms in found.alarms],
    }


def _round_trip(trip: RoundTrip) -> dict[str, Any]:
    reason = trip.reason
    return {
        "device": trip.device.id,
        "ref": str(trip.device.ref),
        "backend": trip.device.backend,
        "name": trip.name,
        "passed": reason is None,
        "reason": {"code": reason.code, "text": reason.text} if reason else None,
    }


def _alarms(alarms: Alarms) -> dict[str, Any]:
    return {
        "id": alarms.id,
        "device": alarms.device,
        "name": alarms.name,
        "threshold": alarms.threshold,
        "run_blocks": alarms.run_blocks,
        "false": alarms.false,
        "passed": alarms.passed,
        "inconclusive": alarms.inconclusive,
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
        "events": [_event(event) for event in trace.events],
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


def _event(event: TraceEvent) -> dict[str, Any]:
    return {
        "name": event.name,
        "device": event.device,
        "kind": event.kind,
        "bytes": event.nbytes,
        "shape": list(event.shape),
        "implicit": event.implicit,
        "start_s": event.start,
        "stop_s": event.stop,
        "line": event.line,
    }


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    first = found.findings[0] if found.findings else None
    return {
        "name": found.name,
        "asked": found.asked,
        "verdict": found.verdict,
        "code": first and first.code,
        "cause": first and first.cause,
        "evidence": {
            "text": first.text if first else found.evidence,
            "figures": _figures(first.figures if first else {}),
        },
        "fix": first and first.fix,
        "behind": [_finding(finding) for finding in found.findings[1:]],
        "seen": {"text": found.evidence, "figures": _figures(found.figures)},
        "examples": [_example(example) for example in found.examples],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "code": found.code,
        "cause": found.cause,
        "evidence": {"text": found.text, "figures": _figures(found.figures)},
        "fix": found.fix,
    }


def _example(example: Example) -> dict[str, Any]:
    return {
        "workload": example.workload,
        "words": example.words,
        "calls": example.calls,
        "device": estimated(example.device),
        "host": estimated(example.host),
        "shares": _shares(example.shares) if example.shares else None,
        "outcome": example.outcome,
        "found": _finding(example.found) if example.found else None,
    }


def _figures(figures: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: estimated(figure) for name, figure in figures.items()}


def _check(check: Check | None) -> dict[str, Any] | None:
    if check is None:
        return None
    found: dict[str, Any] = {"method": check.method, "passed": check.passed}
    if check.nbytes is not None:
        return {**found, "first_bad_offset": check.first_bad_offset, "bytes": check.nbytes}
    return {**found, "max_error": _finite(check.max_error), "bound": check.bound}


def _prediction(found: Prediction | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "bytes": found.nbytes,
        "network": found.network,
        "scaling": found.scaling,
        "compute_s": found.compute,
        "batch": found.batch,
        "link": {
            "source": found.link.source,
            "latency": estimated(found.link.latency),
            "bandwidth": estimated(found.link.bandwidth),
            "lines": _lines(found.link.lines),
        },
        "forecasts": [
            {"algorithm": f.algorithm, "devices": f.devices, "metrics": _figures(f.metrics)}
            for f in found.forecasts
        ],
        "payoffs": [
            {"algorithm": p.algorithm, "pays": p.pays, "best_devices": p.best,
             "metrics": _figures(p.metrics)}
            for p in found.payoffs
        ],
    }  # fmt: skip


def _published(found: Published | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "origin": found.origin,
        "source": list(found.source),
        "cells": [_cell(cell) for cell in found.cells],
        "fitted_devices": list(found.fitted),
        "models": [_left_out(model) for model in found.models],
        "other_links": [
            {"devices": other.devices, "ratio": list(other.ratio),
             "bandwidth": None if other.bandwidth is None else list(other.bandwidth)}
            for other in found.others
        ],
    }  # fmt: skip


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "row": cell.row,
        "network": cell.network,
        "devices": cell.devices,
        "text": cell.text,
        "train_s": cell.train,
        "comm_s": cell.comm,
        "batch": cell.batch,
        "examples": cell.examples,
        "bytes": cell.nbytes,
        "metrics": _figures(cell.metrics),
        "flags": list(cell.flags),
    }


def _left_out(model: LeftOut) -> dict[str, Any]:
    return {
        "row": model.row,
        "fixed_s": model.fixed,
        "bandwidth": _finite(model.bandwidth),
        "exchanges": [
            {"devices": e.devices, "predicted_s": e.predicted, "measured_s": e.measured}
            for e in model.exchanged
        ],
    }


def _lines(lines: Sequence[tuple[float, float, float]]) -> list[dict[str, float]]:
    return [
        {"from_bytes": start, "latency_s": latency, "per_byte_s": per_byte}
        for start, latency, per_byte in lines
    ]


def estimated(figure: Estimate) -> dict[str, Any]:
    """Return a figure with its interval; JSON has no infinity and no NaN: null, and which it is.

    Two null ends and nothing more mean that it has no interval.
    """
    found: dict[str, Any] = {
        "value": _finite(figure.value),
        "low": _finite(figure.low),
        "high": _finite(figure.high),
        "unit": figure.unit,
    }
    if figure.impossible:
        return {**found, "nonfinite": "impossible"}
    ends = (figure.low, figure.high) if figure.has_interval else ()
    odd = [x for x in (figure.value, *ends) if not math.isfinite(x)]
    return {**found, "nonfinite": str(odd[0])} if odd else found


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


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
