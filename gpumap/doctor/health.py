"""The health of devices, as their drivers count it, against what a fit one has.

Drivers may hang: they are asked in a child process, ``python -m gpumap.doctor.health [cuda] FD``.
What cannot be read is "cannot tell"; what a device does not have is no item.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gpumap.backends.probe import answering, own_module, run_child
from gpumap.doctor.evidence import Health
from gpumap.machine.cuda import driver
from gpumap.machine.kernel_log import records, xids
from gpumap.machine.nvml import NvmlUnavailable, health
from gpumap.machine.state import name_of
from gpumap.model import FitnessCheck, Kind, replace
from gpumap.model.io import typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.doctor.requirements import Item, Requirements
    from gpumap.machine.nvml import GpuHealth
    from gpumap.machine.topology import Tree
    from gpumap.model import Binding, Device, LinkState

# Xid errors that a faulty program causes, and no faulty device (NVIDIA, "XID Errors").
_OF_PROGRAMS = frozenset((13, 31, 43, 45, 68))
_HARMLESS = ("power cap", "sync boost", "display clocks")
_AMD, _UNCORRECTED = "ras/umc_err_count", re.compile(r"^ue: (\d{1,18})$", re.MULTILINE)
_WATT = 1000  # milliwatts


def query(env: Mapping[str, str], limit: float, *words: str) -> Health:
    """Return the answers of a child process, or why there are none within `limit` seconds.

    Args:
        env: its environment.
        limit: seconds.
        words: "cuda": ask the CUDA driver too, which may take seconds for each GPU.
    """
    child = run_child(*own_module("gpumap.doctor.health", words, env), limit)
    if child.code is None:
        return Health(silent=f"it did not answer within {limit:.3g} s", hangs=True)
    try:
        return typed(json.loads(child.answer), Health)
    except ValueError:
        return Health(silent=f"it ended the process that asked (exit {child.code})")


def _asked(*words: str) -> Health:
    """Ask in this process."""
    known = Health(driver() if words else None)
    try:
        known = replace(known, xids=dict(xids(records())))
    except OSError as error:
        known = replace(known, log=error.strerror or "not readable")
    try:
        gpus = health()
    except NvmlUnavailable as error:
        return replace(known, nvml=error.reason, code=error.status)
    pids = {pid for gpu in gpus for pid in gpu.processes or ()}
    return replace(known, gpus=gpus, names={pid: name_of(pid) for pid in pids})


def checks(
    bindings: Sequence[Binding],
    known: Health,
    links: Mapping[str, LinkState],
    required: Requirements,
    tree: Tree,
) -> Iterator[FitnessCheck]:
    """Yield what the counters and settings of each device say, and what was required of them."""
    for lost in (gpu.gpu for gpu in known.gpus or () if gpu.gpu.problem is not None):
        yield FitnessCheck("driver", "unfit", f"GPU {lost.index}: {lost.problem}")
    for binding in bindings:
        every = [*_links(binding.device, links), *_of_nvidia(binding.device, known)]
        every += _of_amd(binding.device, tree)
        every += required.of_device(binding.device, known.of(binding.device))
        yield from (FitnessCheck(*item, name=binding.name) for item in every)


def _links(device: Device, links: Mapping[str, LinkState]) -> Iterator[Item]:
    """Yield whether a link has all of its lanes."""
    link = links.get(device.id)
    if link is not None and link.width and link.max_width:
        text = f"{link.width} of {link.max_width} lanes"
        yield _item("link", link.width, text, fit=link.width >= link.max_width)


def by_nvml(device: Device) -> bool:
    """Return whether NVML knows of a device; of a scripted one nothing on this machine does."""
    return device.kind.row.seen == "nvml" and device.backend != "fake"


def _of_nvidia(device: Device, known: Health) -> Iterator[Item]:
    """Yield what NVML and the kernel say of a device that they know."""
    if not by_nvml(device):
        return
    found = known.of(device)
    if found is None:
        why = f"NVIDIA's driver: {known.silent}" if known.silent else known.nvml
        yield "driver", "cannot-tell", why or "NVML does not know this device"
        return
    yield "driver", "fit", f"NVML answers; {found.gpu.driver or 'driver unknown'}"
    yield from _counters(found.facts)
    yield from _xids(found.gpu.pci, known)
    yield from _now(found, known)


def _of_amd(device: Device, tree: Tree) -> Iterator[Item]:
    """Yield the errors of a card's memory, as amdgpu counts them: ``ue: 0`` are uncorrected."""
    if device.kind is Kind.ROCM and device.backend != "fake":
        found = _UNCORRECTED.search(tree.text(f"sys/bus/pci/devices/{device.pci}/{_AMD}") or "")
        yield _errors(int(found[1]) if found else None)


def _counters(facts: Mapping[str, Any]) -> Iterator[Item]:
    """Yield errors of memory, replaced rows, and the limit of power."""
    if "ecc_errors" in facts:
        yield _errors(facts["ecc_errors"])
    if "remapped" in facts:
        rows = facts["remapped"]
        bad = rows and (rows[2] or rows[3])  # corrected, uncorrected, pending, failed
        text = "failed, or waits for a reset" if bad else "none failed or pending"
        yield _item("remapped-rows", rows, text, fit=not bad)
    if "power_limit" in facts and "power_default" in facts:
        limit, default = facts["power_limit"], facts["power_default"]
        if limit is None or default is None:
            yield "power", "cannot-tell", "its limit is not readable"
        else:
            text = f"limit {limit / _WATT:g} W of {default / _WATT:g} W"
            yield "power", "fit" if limit >= default else "unfit", text


def _item(what: str, value: Any, text: str, *, fit: bool) -> Item:
    if value is None:
        return what, "cannot-tell", "not readable"
    return what, "fit" if fit else "unfit", text


def _errors(count: int | None) -> Item:
    return _item("ecc", count, f"{count} uncorrected errors since boot", fit=not count)


def _xids(address: str | None, known: Health) -> Iterator[Item]:
    if known.log is not None or address is None:
        why = known.log or "which of its lines are of this device is not known"
        yield "xid", "cannot-tell", f"the kernel's log (/dev/kmsg): {why}"
        return
    numbers = known.xids.get(address, ())
    bad = [number for number in numbers if number not in _OF_PROGRAMS]
    text = f"Xid {', '.join(map(str, bad))} since boot" if bad else "none of hardware since boot"
    yield "xid", "unfit" if bad else "fit", text


def _now(found: GpuHealth, known: Health) -> Iterator[Item]:
    """Yield what holds a device back at this moment, and who else is on it."""
    reasons = None if found.throttle is None else [r for r in found.throttle if r not in _HARMLESS]
    text = ", ".join(reasons or ()) or "nothing holds it back"
    yield _item("throttle", reasons, text, fit=not reasons)
    processes = found.processes
    if not processes and found.hidden:
        yield "processes", "cannot-tell", f"{found.hidden} that this container does not show"
        return
    text = ", ".join(known.users(found)) or "no other process"
    yield _item("processes", processes, text, fit=not processes)


if __name__ == "__main__":
    import sys

    with answering(int(sys.argv[-1])) as say:
        say(_asked(*sys.argv[1:-1]))
