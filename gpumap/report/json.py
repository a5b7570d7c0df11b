"""The complete form of a report: its keys are what scripts, limits and `compare` stand on.

History of `schema_version`:
    1: the first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.errors import Diagnostic
    from gpumap.model import Device, Fingerprint, Probe, Problem, Report, State
    from gpumap.report import Style

SCHEMA_VERSION = 1
_INDENT = "  "


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as JSON: objects indented, each array of plain values on one line."""
    return "".join(_written(envelope(report), "")) + "\n"


def envelope(report: Report) -> dict[str, Any]:
    """Return the report as plain dictionaries and lists, every key of the schema present."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": report.kind,
        "tool": {"name": "gpumap", "version": __version__},
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
        "measurements": [],
        "fits": [],
        "break_evens": [],
        "verdicts": [],
        "errors": [_problem(problem) for problem in report.errors],
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
    }


def _problem(problem: Problem) -> dict[str, Any]:
    diagnostic = problem.diagnostic
    note = _note(diagnostic)
    del note["severity"]
    return {**note, "name": diagnostic.name, "exit": problem.exit}


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
    }


def _backend(probe: Probe) -> dict[str, Any]:
    return {
        "name": probe.name,
        "usable": probe.usable,
        "version": probe.version,
        "reason": probe.reason,
        "fix": probe.fix,
        "notes": list(probe.notes),
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
    }


def _written(value: Any, indent: str) -> Iterator[str]:
    """Yield JSON text; `ensure_ascii` also keeps every control and bidirectional mark escaped."""
    inner = indent + _INDENT
    if isinstance(value, dict) and value:
        for n, (key, item) in enumerate(value.items()):
            yield f"{',' if n else '{'}\n{inner}{json.dumps(str(key))}: "
            yield from _written(item, inner)
        yield f"\n{indent}}}"
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for n, item in enumerate(value):
            yield f"{',' if n else '['}\n{inner}"
            yield from _written(item, inner)
        yield f"\n{indent}]"
    else:
        yield json.dumps(value, allow_nan=False)
