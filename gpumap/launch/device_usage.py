"""What processes take of cores and devices, seen from outside: the kernel's files, DRM's, NVML.

Every function takes a root folder: "" for the running system, or a recorded tree. Formats: proc(5);
https://docs.kernel.org/gpu/drm-usage-stats.html.

Files are split as bytes: to look must cost next to nothing, and psutil has no processor of a
thread, and no children without a look at every process.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gpumap.machine.nvml import Gpus
from gpumap.machine.process_control import read
from gpumap.machine.topology import pci_address
from gpumap.model import Device, Kind, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpumap.machine.nvml import GpuLook
    from gpumap.model.programs import Unseen


TICKS = os.sysconf("SC_CLK_TCK")
_FIELDS = 37  # of /proc/PID/stat behind the name, up to the processor
_UTIME, _STIME, _THREADS, _START, _PROCESSOR = 11, 12, 17, 19, 36
_WAITED = slice(13, 15)  # time of children that were waited for
_MICRO = 1e6
_NODES = ("/dev/dri/", "/dev/accel/")
_COMPUTE = "/dev/kfd"  # of ROCm's programs: their work is in no drm-engine key
_WORKED = 1, 2, 3, 6, 7  # of a processor in /proc/stat: user, nice, system, irq and softirq
_NVIDIA = b"0x10de"


class Spent(NamedTuple):
    """CPU time of a process or thread, and the processor that it last ran on."""

    seconds: float
    processor: int


class ProcessSnapshot(NamedTuple):
    """A process at one moment."""

    start: int  # with the id it is unique
    threads: dict[int, Spent]  # those that live
    children: tuple[int, ...]
    waited: float  # seconds of the children that it has waited for
    ended: bool  # and was not waited for yet


# What one open DRM file says, by engine: busy nanoseconds and None, or cycles and of how many.
Client = dict[bytes, tuple[int, int | None, int]]


class DrmUse(NamedTuple):
    """What a process has open: each DRM client by device and id; and why that may not be all."""

    clients: dict[tuple[str, int], Client]
    why: Unseen | None = None


def process(root: str, pid: int) -> ProcessSnapshot | None:
    """Return a process, its threads and its children; None: it is gone.

    The time of threads that have ended is of no known core.
    """
    folder = f"{root}/proc/{pid}"
    fields = _fields(read(f"{folder}/task/{pid}/stat"))
    if fields is None:
        return None
    ids, threads = [pid], {pid: _spent(fields)}
    if fields[_THREADS] != b"1":
        ids += [int(n) for n in _names(f"{folder}/task") if n.isdigit() and int(n) != pid]
        every = ((id_, _fields(read(f"{folder}/task/{id_}/stat"))) for id_ in ids[1:])
        threads |= {thread: _spent(found) for thread, found in every if found}
    children = b" ".join(read(f"{folder}/task/{thread}/children") for thread in ids)
    pids = tuple(int(word) for word in children.split() if word.isdigit())
    ended = fields[0] == b"Z" and fields[_THREADS] == b"1"
    waited = sum(map(int, fields[_WAITED])) / TICKS
    return ProcessSnapshot(int(fields[_START]), threads, pids, waited, ended)


def processors(root: str) -> dict[int, int]:
    """Return the ticks in which each processor worked, for whomever."""
    lines = (line.split() for line in read(f"{root}/proc/stat").splitlines())
    every = (words for words in lines if words and words[0][3:].isdigit())
    return {int(words[0][3:]): sum(int(words[n]) for n in _WORKED) for words in every}


def drm_use(root: str, pid: int) -> DrmUse:
    """Return what a process has open of DRM devices; a client counts once, whoever shares it."""
    folder = f"{root}/proc/{pid}/fd"
    found = DrmUse({})
    try:
        numbers = os.listdir(folder)  # noqa: PTH208 - pathlib is slow
    except OSError as error:
        seen = process(root, pid)  # files of a process that has ended are root's
        hidden = isinstance(error, PermissionError) and seen is not None and not seen.ended
        return DrmUse({}, "hidden-processes" if hidden else None)
    for number in numbers:
        with suppress(OSError):  # closed in the meantime
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115 - as above
            if target == _COMPUTE:
                found = found._replace(why="compute-driver")
            elif target.startswith(_NODES):
                found.clients.update(_client(read(f"{root}/proc/{pid}/fdinfo/{number}")))
    return found


def _client(text: bytes) -> dict[tuple[str, int], Client]:
    lines = (line.partition(b":") for line in text.splitlines() if line.startswith(b"drm-"))
    keys = {key[4:]: value.split() for key, _, value in lines}
    pdev, number = keys.get(b"pdev"), _number(keys.get(b"client-id"))
    if not pdev or number is None:
        return {}
    engines: Client = {}
    for key, value in keys.items():
        kind, _, engine = key.partition(b"-")
        busy, total = _number(value), _number(keys.get(b"total-" + key))
        counts = kind == b"engine" and not engine.startswith(b"capacity-")
        if busy is not None and (counts or (kind == b"cycles" and total is not None)):
            units = _number(keys.get(b"engine-capacity-" + engine)) or 1
            engines[engine] = busy, total, units
    return {(pdev[0].decode(errors="replace").lower(), number): engines}


def _number(value: list[bytes] | None) -> int | None:
    return int(value[0]) if value and value[0].isdigit() else None


def _has_drm(root: str, pci: str) -> bool:
    """Return whether a device counts in the files that processes have open: NVIDIA's does not."""
    folder = f"{root}/sys/bus/pci/devices/{pci}"
    return bool(_names(f"{folder}/drm")) and read(f"{folder}/vendor").strip() != _NVIDIA


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - pathlib is slow
    return []


def _fields(stat: bytes) -> list[bytes] | None:
    """Return the fields behind the name, which may hold blanks and brackets."""
    fields = stat[stat.rfind(b")") + 1 :].split()
    return fields if len(fields) >= _FIELDS else None


def _spent(fields: list[bytes]) -> Spent:
    return Spent((int(fields[_UTIME]) + int(fields[_STIME])) / TICKS, int(fields[_PROCESSOR]))


_CONTEXT = 16 << 20  # bytes: to open a CUDA device takes many times that


class Sight(NamedTuple):
    """What was seen of a device in one interval; None: not reported."""

    share: float | None = None
    why: Unseen | None = None  # what keeps a verdict of not-used away


class Devices:
    """The GPUs of a map; what a driver in host memory does cannot be seen from outside."""

    def __init__(self, devices: Iterable[Device], root: str, library: object = None) -> None:
        every = {device.id: device for device in devices}.values()
        self._root = root
        self._devices = [d for d in every if not (d.kind.row.cores and d.cores)]
        placed = [d for d in self._devices if not d.in_host_memory and (d.pci or d.uuid)]
        at = {d.id: pci_address(d.pci or "") or d.pci or "" for d in placed}
        self._drm_at = {id_: pci for id_, pci in at.items() if _has_drm(root, pci)}
        others = (replace(d, kind=Kind.CUDA) for d in placed if d.id not in self._drm_at)
        self._gpus = Gpus(others, library).__enter__()
        self._since = int(time.time() * _MICRO)
        self._clients: dict[tuple[str, int], Client] = {}
        self._first: dict[str, GpuLook] = {}

    def close(self) -> None:
        """Look no more."""
        self._gpus.__exit__(None, None, None)

    def look(self, processes: Collection[int], passed: float) -> dict[str, Sight]:
        """Return what these processes did with each device in the last `passed` seconds."""
        if not self._devices:
            return {}
        opened = [drm_use(self._root, p) for p in processes] if self._drm_at else []
        since, self._since = self._since, int(time.time() * _MICRO)
        looks, found = self._gpus.look(since), {}
        for device in self._devices:
            if device.in_host_memory:
                found[device.id] = Sight(why="host-threads")
            elif device.id in self._drm_at:
                found[device.id] = self._drm(self._drm_at[device.id], opened, passed)
            elif device.id in looks:
                found[device.id] = self._nvidia(device, looks[device.id], processes)
            else:
                found[device.id] = Sight(why="no-driver")
        for use in opened:
            self._clients |= use.clients
        return found

    def _drm(self, where: str, opened: list[DrmUse], passed: float) -> Sight:
        clients = {k: c for use in opened for k, c in use.clients.items() if k[0] == where}
        if share := _engines(self._clients, clients, passed):
            return Sight(share)
        if hidden := [use.why for use in opened if use.why]:
            return Sight(why=hidden[0])
        return Sight(0.0, "opened-idle" if clients else None)

    def _nvidia(self, device: Device, found: GpuLook, processes: Collection[int]) -> Sight:
        """Return what NVML says; its numbers of processes are the host's."""
        first = self._first.setdefault(device.id, found)
        shares = [share for pid, share in found.shares.items() if pid in processes]
        listed = found.processes or {}
        ours = [pid for pid in listed if pid in processes]
        alone = bool(ours) and len(ours) == len(listed)
        share = min(sum(shares), 1.0) if shares else found.busy if alone else 0.0
        why: Unseen | None = "opened-idle" if ours and not share else None
        grown = (found.used or 0) > (first.used or 0) + _CONTEXT
        if not ours and (grown or found.processes is None or first.used is None):
            why, share = "hidden-processes", None
        return Sight(share, why)


def _engines(
    before: Mapping[tuple[str, int], Client], now: Mapping[tuple[str, int], Client], passed: float
) -> float:
    """Return the share of time in which the busiest engine worked."""
    shares: dict[bytes, float] = {}
    for key, client in now.items():
        last = before.get(key, {})
        for engine, (busy, total, units) in client.items():
            old_busy, old_total, _ = last.get(engine, (0, None, units))
            if total is not None and old_total is None:
                continue  # cycles since the device was started
            of = units * (passed * 1e9 if total is None else total - (old_total or 0))
            share = max(0, busy - old_busy) / of if of > 0 else 0.0
            shares[engine] = shares.get(engine, 0.0) + share
    return min(max(shares.values(), default=0.0), 1.0)
