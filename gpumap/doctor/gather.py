"""Read settings, files, drivers and the machine, which decide placement. Nothing read is run.

Drivers may crash or hang: they are queried in subprocesses, concurrently, each with a time limit.

The child process for NVIDIA's driver and NVML is ``python -m gpumap.doctor.gather FD``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap import sources
from gpumap.backends import DEFAULTS
from gpumap.backends.probe import answer, in_child
from gpumap.config import default_device
from gpumap.doctor.evidence import Evidence, Gpu, MapName, Nvidia, Setting
from gpumap.errors import (
    AbsentError,
    Diagnostic,
    GpumapError,
    MapError,
    QuestionError,
    SourceError,
)
from gpumap.machine.nvml import NvmlUnavailable
from gpumap.machine.state import link_states, others
from gpumap.machine.topology import Tree
from gpumap.model import Binding, ContextMap, replace
from gpumap.model.trees import typed
from gpumap.parse import parse_map
from gpumap.resolve import held, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Entry, MapText
    from gpumap.resolve import Inventory

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "THEANO_GPU_IS_ALREADY_ACTIVE",
)
_PATIENCE, _SHARE = 8.0, 2 / 7  # seconds for a driver at least, and of the whole examination
BUSY = 0.5  # cores that others may use before their load is read again
_SHOWN = 80
_FILES = ("dev/nvidiactl", "dev/nvidia-uvm", "dev/kfd")
_NUMBERED = ("nvidia", "renderD")  # dev/nvidia0, dev/dri/renderD128


def query_nvidia(env: Mapping[str, str], time_limit: float) -> Nvidia:
    """Return the answers of the driver, or why there are none."""
    child = in_child("gpumap.doctor.gather", (), env, time_limit)
    if child.code is None:
        return Nvidia(silent=f"it did not answer within {time_limit:g} s", hangs=True)
    try:
        return typed(json.loads(child.answer), Nvidia)
    except ValueError:
        return Nvidia(silent=f"it ended the process that asked (exit {child.code})")


def _answer() -> Nvidia:
    """Query driver and NVML in this process."""
    from gpumap.machine.cuda import driver
    from gpumap.machine.nvml import gpus

    try:
        return Nvidia(driver(), tuple(_gpus(gpus())))
    except NvmlUnavailable as error:
        return Nvidia(driver(), nvml=error.reason, code=error.status, forbidden=error.forbidden)


def _gpus(known: tuple[NvmlGpu, ...]) -> list[Gpu]:
    """Return each GPU with the processes on it."""
    from gpumap.machine.nvml import Gpus
    from gpumap.machine.state import name_of
    from gpumap.model import Device, DeviceRef, Kind

    refs = [DeviceRef(Kind.CUDA, gpu.index) for gpu in known]
    devices = [
        Device(str(ref), Kind.CUDA, ref, "", "nvml", gpu.pci, gpu.uuid)
        for gpu, ref in zip(known, refs, strict=True)
    ]
    with Gpus(devices) as opened:
        uses = list(opened.uses())
    return [
        Gpu(
            gpu.index,
            gpu.pci,
            gpu.uuid,
            tuple(part.uuid for part in gpu.instances if part.uuid),
            gpu.mig,
            use.busy,
            tuple(f"pid {one.pid} {name_of(one.pid)}".strip() for one in use.processes or ()),
        )
        for gpu, use in zip(known, uses, strict=True)
    ]


if __name__ == "__main__":
    answer(int(sys.argv[1]), [_answer()])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program's settings are: its environment and folder."""

    env: Mapping[str, str]
    cwd: str


def patience(seconds: float) -> float:
    """Return how many of the examination's seconds a driver may take to list its devices.

    The probes need the rest.
    """
    return max(_PATIENCE, seconds * _SHARE)


def configuration(place: Place, source: MapText | None, inventory: Inventory) -> Evidence:
    """Return the evidence of settings and the machine's files, before drivers are queried."""
    theano, unreadable = _theano(place)
    return Evidence(
        topology=inventory.host.topology,
        source=source,
        variables={name: place.env[name] for name in VARIABLES if name in place.env},
        theano=theano,
        unreadable=unreadable,
    )


def theano_map(place: Place) -> ContextMap | None:
    """Return the map of the device that Theano's `device` sends all work to; None for none.

    Raises:
        MapError: it is no device.
    """
    theano, _ = _theano(place)
    device = default_device({k: (s.value, s.origin) for k, s in theano.items()})
    if device is None:
        return None
    if ";" in device or "->" in device:
        message = f"device={device[:_SHOWN]} is no device"
        raise MapError((Diagnostic("unknown-device", message, hint="write device=cuda0"),))
    return parse_map(f"dev0->{device}")


def surroundings(
    known: Evidence, context_map: ContextMap, inventory: Inventory, root: Path
) -> Evidence:
    """Return the evidence with the answers of drivers, libraries and the system."""
    fake = inventory.asked == "fake"
    busy = None if fake else others()
    if busy is not None and busy.cores >= BUSY:  # a high load is read twice
        busy = min(busy, others(), key=lambda each: each.cores)
    with ThreadPoolExecutor(1) as pool:  # the driver and the backends concurrently
        host = inventory.host
        pending = None if fake else pool.submit(query_nvidia, host.env, host.patience)
        probe_backends(inventory)
        nvidia = pending.result() if pending else Nvidia()
    names = _names(context_map, inventory)
    devices = [named.device for named in names if named.device is not None]
    return replace(
        known,
        probes=inventory.probes,
        nvidia=nvidia,
        denied=() if fake else denied(Tree(root)),
        others=busy,
        links=link_states(devices, root),
        names=names,
    )


def bindings(known: Evidence) -> tuple[Binding, ...]:
    """Return the names that have a device."""
    return tuple(Binding(one.name, one.device) for one in known.names if one.device is not None)


def denied(tree: Tree) -> tuple[str, ...]:
    """Return the existing device files that this process may not open."""
    numbered = [f"dev/{name}" for name in tree.names("dev") if name[6:].isdecimal()]
    numbered += [f"dev/dri/{name}" for name in tree.names("dev/dri") if name[7:].isdecimal()]
    files = (*_FILES, *(path for path in numbered if path.rpartition("/")[2].startswith(_NUMBERED)))
    paths = (tree.root / path for path in files)
    return tuple(str(p) for p in paths if p.exists() and not os.access(p, os.R_OK | os.W_OK))


def _theano(place: Place) -> tuple[dict[str, Setting], Diagnostic | None]:
    try:
        options = sources.theano_options(env=place.env, cwd=place.cwd)
    except SourceError as error:
        return {}, error.diagnostics[0]
    return {key: Setting(*setting) for key, setting in options.items()}, None


def probe_backends(inventory: Inventory) -> None:
    """Probe every default backend, or the requested one, concurrently."""
    every = sorted({name for names in DEFAULTS.values() for name in names})
    names = every if inventory.asked is None else [inventory.asked]
    with ThreadPoolExecutor(len(names)) as pool:
        for done in [pool.submit(inventory.probe, name) for name in names]:
            with suppress(GpumapError):  # reported where the names are resolved
                done.result()


def _names(context_map: ContextMap, inventory: Inventory) -> tuple[MapName, ...]:
    """Return each name with its device or the reason for none; offer no free device twice."""
    entries = list(enumerate(context_map.entries, 1))
    every = [_map_name(entry, number, inventory, set()) for number, entry in entries]
    taken = {element for one in every if one.device for element in held(one.device)}
    return tuple(
        one if one.device else _map_name(entry, number, inventory, taken)
        for one, (number, entry) in zip(every, entries, strict=True)
    )


def _map_name(entry: Entry, number: int, inventory: Inventory, taken: set[str]) -> MapName:
    ref = entry.ref
    named = MapName(entry.name, str(ref), ref.kind, ref.index)
    try:
        resolved = resolve(ContextMap((entry,), str(entry)), inventory, taken)
    except (AbsentError, QuestionError) as error:
        return replace(named, absent=replace(error.diagnostics[0], entry=number))
    return replace(named, device=resolved.bindings[0].device)
