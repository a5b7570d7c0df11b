"""A machine that a file tells of, asked in place of this one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.given_map import Where, read_map
from gpumap.backends import REGISTRY
from gpumap.errors import Diagnostic, SourceError
from gpumap.inventory import Inventory
from gpumap.model import ContextMap, Probe, Report, io, replace
from gpumap.resolve import default_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpumap.app.recording import Draft

NOTHING_RAN = "the machine is that of a file, and nothing was run on it"
_NOT_ASKED = "it was not asked when the file was written"


def replay(draft: Draft, backend: str | None, path: Path) -> tuple[Inventory, Report]:
    """Return what a machine's file tells, as if it had been asked, and the file's report.

    Raises:
        SourceError: the file is no report, or lists no devices.
    """
    report = io.read(path)
    if report.kind != "devices" or not report.backends:
        raise SourceError(
            f"{path} is a report of {report.kind}: it lists no machine",
            "gpumap env --output FILE.json, or gpumap devices --output FILE.json, writes one",
        )
    env = {name: value for name, value in report.environment.items() if value is not None}
    host = draft.program.host()  # whose affinity, quota and files are not that machine's
    topology = replace(host.topology, quota=None, online=len(host.topology.cpus))
    host = replace(host, env=env, topology=topology, notes=(), root=path / "nothing")
    inventory = Inventory(host, backend)
    for probe in _probes(report):
        inventory.know(probe)
    text = f"the devices are those of {path}, of {report.started}: none was looked for"
    draft.remarks.append(Diagnostic("replayed", text, severity="note"))
    draft.backends = report.backends
    return inventory, report


def replay_map(draft: Draft, where: Where, path: Path) -> tuple[Inventory, ContextMap]:
    """Return a machine's file as `replay` does, and the map that is given here, or else its own.

    Raises:
        SourceError: the file is no report, or lists no devices.
        MapError: the map does not parse.
    """
    inventory, report = replay(draft, where.backend, path)
    if (where.argument, where.option) == (None, None) and report.map is not None:
        draft.map, draft.source = report.map, report.source
        return inventory, report.map
    return inventory, read_map(draft, where, partial(default_map, inventory))


def _probes(report: Report) -> Iterator[Probe]:
    """Yield what each backend found; one that was not asked then is not asked now."""
    recorded = {library.name: library for library in report.backends}
    fix = f"add --backend {' or '.join(name for name in REGISTRY if name in recorded)}"
    for name in REGISTRY:
        devices = tuple(device for device in report.devices if device.backend == name)
        library = recorded.get(name)
        if library is None:
            yield Probe(name, usable=False, reason=_NOT_ASKED, fix=fix)
        else:
            known = {key: getattr(library, key) for key in library.__struct_fields__}
            yield Probe(**known, devices=devices)
