"""What can be seen of GPUs from outside: DRM's engine times of open files, and NVML by process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gpumap.machine import usage
from gpumap.machine.nvml import Gpus
from gpumap.machine.pci import address
from gpumap.model import Device, Kind, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpumap.machine.nvml import GpuLook
    from gpumap.model.programs import Seeing, Unseen

_CONTEXT = 16 << 20  # bytes: to open a CUDA device takes many times that
_MICRO = 1e6


class Sight(NamedTuple):
    """What was seen of a device in one interval; None: not reported."""

    source: Seeing
    share: float | None = None
    memory: int | None = None
    power: float | None = None
    throttle: tuple[str, ...] = ()
    why: Unseen | None = None  # what keeps a verdict of not-used away
    sent: int | None = None  # since the start
    received: int | None = None


class Devices:
    """The GPUs of a map; what a driver in host memory does cannot be seen from outside."""

    def __init__(self, devices: Iterable[Device], root: str, library: object = None) -> None:
        every = {device.id: device for device in devices}.values()
        self._root = root
        self._devices = [d for d in every if not (d.kind is Kind.CPU and d.cores)]
        self._gauges = {
            d.id: gauges
            for d in self._devices
            if d.pci and not d.in_host_memory
            if (gauges := usage.Gauges(root, address(d.pci) or d.pci)).there
        }
        others = [d for d in self._devices if not d.in_host_memory and d.id not in self._gauges]
        self._gpus = Gpus((replace(d, kind=Kind.CUDA) for d in others if d.pci or d.uuid), library)
        self._gpus.__enter__()
        self._since = int(time.time() * _MICRO)
        self._clients: dict[tuple[str, int], usage.Client] = {}
        self._first: dict[str, GpuLook] = {}

    def close(self) -> None:
        """Look no more."""
        self._gpus.__exit__(None, None, None)

    def look(self, processes: Collection[int], passed: float) -> dict[str, Sight]:
        """Return what these processes did with each device in the last `passed` seconds."""
        if not self._devices:
            return {}
        opened = [usage.drm_use(self._root, p) for p in processes] if self._gauges else []
        since, self._since = self._since, int(time.time() * _MICRO)
        looks, found = self._gpus.look(since), {}
        for device in self._devices:
            if device.in_host_memory:
                found[device.id] = Sight("proc", why="host-threads")
            elif device.id in self._gauges:
                found[device.id] = self._drm(device, opened, passed)
            elif device.id in looks:
                found[device.id] = self._nvidia(device, looks[device.id], processes)
            else:
                known = device.pci or device.uuid
                found[device.id] = Sight("nvml", why="no-driver" if known else "no-address")
        for use in opened:
            self._clients |= use.clients
        return found

    def _drm(self, device: Device, opened: list[usage.DrmUse], passed: float) -> Sight:
        where, gauges = address(device.pci or ""), self._gauges[device.id]
        clients = {k: c for use in opened for k, c in use.clients.items() if k[0] == where}
        share: float | None = _engines(self._clients, clients, passed)
        why: Unseen | None = "opened-idle" if clients and not share else None
        if any(use.compute for use in opened):
            why = "compute-driver"
        elif any(use.hidden for use in opened):
            why = "no-permission"
        if not share and why in ("compute-driver", "no-permission"):
            share = None
        memory = sum(client.memory for client in clients.values())
        throttle = tuple(gauges.throttled())
        return Sight("fdinfo", share, memory, gauges.power(time.monotonic()), throttle, why)

    def _nvidia(self, device: Device, found: GpuLook, processes: Collection[int]) -> Sight:
        """Return what NVML says; its numbers of processes are the host's."""
        first = self._first.setdefault(device.id, found)
        shares = [share for pid, share in found.shares.items() if pid in processes]
        listed = found.processes or {}
        ours = [memory for pid, memory in listed.items() if pid in processes]
        alone = bool(ours) and len(ours) == len(listed)
        share = min(sum(shares), 1.0) if shares else found.busy if alone else 0.0
        why: Unseen | None = "opened-idle" if ours and not share else None
        grown = (found.used or 0) > (first.used or 0) + _CONTEXT
        if not ours and (grown or found.processes is None or first.used is None):
            why, share = "hidden-processes", None
        known = None not in (found.sent, found.received, first.sent, first.received)
        return Sight(
            "nvml",
            share,
            sum(memory or 0 for memory in ours) or None,
            found.power,
            found.throttle,
            why,
            max(0, (found.sent or 0) - (first.sent or 0)) if known else None,
            max(0, (found.received or 0) - (first.received or 0)) if known else None,
        )


def _engines(
    before: Mapping[tuple[str, int], usage.Client],
    now: Mapping[tuple[str, int], usage.Client],
    passed: float,
) -> float:
    """Return the share of time in which the busiest engine worked."""
    shares: dict[bytes, float] = {}
    for key, client in now.items():
        last = before[key].engines if key in before else {}
        for engine, (busy, total) in client.engines.items():
            old_busy, old_total = last.get(engine, (0, None))
            if total is not None and old_total is None:
                continue  # cycles since the device was started
            of = passed * 1e9 if total is None else total - (old_total or 0)
            share = max(0, busy - old_busy) / of if of > 0 else 0.0
            capacity = client.capacity.get(engine, 1)
            shares[engine] = shares.get(engine, 0.0) + share / capacity
    return min(max(shares.values(), default=0.0), 1.0)
