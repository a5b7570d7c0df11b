"""Read settings, files, drivers and the machine, which decide placement. Nothing read is run.

Drivers may crash or hang: they are queried in subprocesses, concurrently, each with a time limit.
"""

from __future__ import annotations

import os
from collections import ChainMap
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap import sources
from gpumap.config import mapped_device
from gpumap.doctor import health
from gpumap.doctor.evidence import BUSY, Evidence, Health, MapName
from gpumap.errors import AbsentError, Diagnostic, MapError, QuestionError, SourceError
from gpumap.kinds import KINDS
from gpumap.machine.state import link_states, others
from gpumap.machine.topology import Tree
from gpumap.model import Binding, ContextMap, Reason, replace
from gpumap.parse import parse_map
from gpumap.resolve import resolve
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.config import TheanoOptions
    from gpumap.doctor.screening import StepResult
    from gpumap.inventory import Inventory
    from gpumap.model import Entry, MapText

_FILES = "nvidiactl", "nvidia-uvm", "kfd", "nvidia[0-9]*", "dri/renderD[0-9]*"  # of devices


def configuration(cwd: str, source: MapText | None, inventory: Inventory) -> Evidence:
    """Return the evidence of settings and the machine's files, before drivers are queried."""
    theano, unreadable = _theano(inventory.host.env, cwd)
    return replace(_given(source, inventory), theano=theano, unreadable=unreadable)


def recorded(
    source: MapText | None, context_map: ContextMap, inventory: Inventory, why: str
) -> Evidence:
    """Return the evidence of a machine that a file tells of; `why` it is no more than that.

    A default map is no sign that it has none: the file has what `gpumap devices` would map.
    """
    known, unused = _given(source, inventory), Reason("replayed", why)
    every = map_names(context_map, inventory)
    names = tuple(replace(one, failure=unused if one.device else None) for one in every)
    return replace(known, probes=inventory.probes, nvidia=Health(silent=why), names=names)


def _given(source: MapText | None, inventory: Inventory) -> Evidence:
    """Return what is known before anything is asked: the processors, the map and variables."""
    return Evidence(inventory.host.topology, source, variables=inventory.host.env)


def theano_map(env: Mapping[str, str], cwd: str) -> ContextMap | None:
    """Return the map of the device that Theano's `device` sends all work to; None for none.

    Raises:
        MapError: it is no device.
    """
    theano, _ = _theano(env, cwd)
    device = mapped_device(theano)
    if device is None:
        return None
    if ";" in device or "->" in device or not device.startswith(("cuda", "opencl")):
        message = f"device={cut(device)} is no device"
        raise MapError((Diagnostic("unknown-device", message, hint="write device=cuda0"),))
    return parse_map(f"dev0->{device}")


def surroundings(known: Evidence, context_map: ContextMap, inventory: Inventory) -> Evidence:
    """Return the evidence with the answers of drivers, libraries and the system."""
    fake = inventory.requested == "fake"
    busy = None if fake else others()
    if busy is not None and busy.cores >= BUSY:  # a high load is read twice
        busy = min(busy, others(), key=lambda each: each.cores)
    with ThreadPoolExecutor(1) as pool:  # the driver and the backends concurrently
        ask = partial(health.query, inventory.host.env, inventory.patience, "cuda")
        pending = None if fake else pool.submit(ask)
        probe_backends(inventory)
        nvidia = pending.result() if pending else Health()
    names = map_names(context_map, inventory)
    devices = [named.device for named in names if named.device is not None]
    return replace(
        known,
        probes=inventory.probes,
        nvidia=nvidia,
        denied=() if fake else denied(Tree(Path("/"))),
        others=busy,
        links=link_states(devices),
        names=names,
    )


def bindings(known: Evidence) -> tuple[Binding, ...]:
    """Return the names that have a device."""
    return tuple(Binding(one.name, one.device) for one in known.names if one.device is not None)


def with_results(
    known: Evidence, devices: Sequence[Binding], results: Iterable[StepResult]
) -> Evidence:
    """Return the evidence with what came of the steps on each device, by its first name."""
    own: dict[str, list[StepResult]] = {one.device.id: [] for one in devices}
    ids, at_once = {one.name: one.device.id for one in devices}, known.at_once
    for result in results:
        if result.name is None:
            at_once = result
            if not result.figures and result.check.fitness in ("unfit", "wrong-data"):
                for every in own.values():  # it failed: of which of them is not known
                    every.append(result)
        else:
            own[ids[result.name]].append(result)
    names = (
        one if one.device is None else _measured(one, own[one.device.id]) for one in known.names
    )
    return replace(known, names=tuple(names), at_once=at_once)


def _measured(named: MapName, results: Sequence[StepResult]) -> MapName:
    """Return a name with its figures, of two of one name the first, and why its steps ended."""
    failures = [Reason(one.code, one.text) for one in results if one.code is not None]
    if not any(one.what == "costs" for one in results):
        failures.append(Reason("no-time", "the run was interrupted"))
    figures = dict(ChainMap(*(dict(one.figures) for one in results)))
    return replace(named, figures=figures, failure=next(iter(failures), None))


def denied(tree: Tree) -> tuple[str, ...]:
    """Return the existing device files that this process may not open."""
    paths = (path for name in _FILES for path in sorted(tree.root.glob(f"dev/{name}")))
    return tuple(str(p) for p in paths if p.exists() and not os.access(p, os.R_OK | os.W_OK))


def _theano(env: Mapping[str, str], cwd: str) -> tuple[TheanoOptions, Diagnostic | None]:
    try:
        return sources.theano_options(env=env, cwd=cwd), None
    except SourceError as error:
        return {}, error.diagnostics[0]


def probe_backends(inventory: Inventory) -> None:
    """Probe every default backend, or the requested one, concurrently."""
    every = sorted({name for row in KINDS.values() for name in row.backends})
    inventory.ask(every if inventory.requested is None else [inventory.requested])


def map_names(context_map: ContextMap, inventory: Inventory) -> tuple[MapName, ...]:
    """Return each name with its device or the reason for none."""
    entries = enumerate(context_map.entries, 1)
    return tuple(_map_name(entry, number, inventory) for number, entry in entries)


def _map_name(entry: Entry, number: int, inventory: Inventory) -> MapName:
    named = MapName(entry.name, entry.ref)
    try:
        resolved = resolve(ContextMap((entry,), str(entry)), inventory)
    except (AbsentError, QuestionError) as error:
        why = error.diagnostics[0]
        text = why.message.removeprefix(f"{entry.name}: ")  # who says it names it
        return replace(named, absent=replace(why, message=text, entry=number))
    return replace(named, device=resolved.bindings[0].device)
