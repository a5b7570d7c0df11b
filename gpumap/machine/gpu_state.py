"""What NVML says of a map's CUDA devices while they work, and of who else is on them."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpumap.machine.nvml import NvmlUnavailable, ask, opened
from gpumap.model import Device, GpuState, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# nvml.h: nvmlClockType_t, nvmlTemperatureSensors_t.
_CLOCK = "nvmlDeviceGetClockInfo"
_CLOCKS = {"sm": 1, "memory": 2}
_SENSOR = 0
_LARGEST = 1 << 50  # bytes; more is NVML's way to say that it does not know

# nvml.h: nvmlClocksEventReason*, which were nvmlClocksThrottleReason* before driver 535.
_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat, slowed by the driver",
    0x40: "heat, slowed by the hardware",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability limit",
}
_IDLE = 0x1
_SETTING = 0x2  # clocks that someone has chosen are no surprise
_HIDDEN = _IDLE | _SETTING
_BITS = 64
_ANSWERS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# Without a version in the name, pynvml raises an error of another tree with an older driver.
_PROCESSES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Another process that computes on a device."""

    pid: int
    memory: int | None  # bytes


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Who is on a device, and the share of time in which it worked; None: nobody tells."""

    device: Device
    busy: float | None
    processes: tuple[GpuProcess, ...] | None


class Gpus:
    """NVML, kept open on the CUDA devices of a map; without NVML there is nothing to tell.

    Devices are found by PCI address or UUID. Without a CUDA device NVML is not even looked for.
    """

    def __init__(self, devices: Iterable[Device], library: Any = None) -> None:
        self._devices = [device for device in devices if device.kind is Kind.CUDA]
        self._library = library
        self._open = ExitStack()
        self._nvml: Any = None
        self._handles: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if self._devices:
            try:
                self._nvml = self._open.enter_context(opened(self._library))
            except NvmlUnavailable:
                return self
            self._handles = dict(self._found())
        return self

    def __exit__(self, *error: object) -> None:
        self._handles = {}
        with suppress(NvmlUnavailable):  # a driver that goes away takes no result with it
            self._open.close()

    def read(self) -> tuple[GpuState, ...]:
        """Return the state of each device that answers."""
        return tuple(self._state(id_, handle) for id_, handle in self._handles.items())

    def throttled(self) -> dict[str, tuple[str, ...]]:
        """Return what holds each device back right now, for those that are."""
        found = ((id_, self._reasons(handle)) for id_, handle in self._handles.items())
        return {id_: reasons for id_, reasons in found if reasons}

    def uses(self) -> Iterator[GpuUse]:
        """Yield who is on each device; a MIG instance is asked for itself."""
        for device in self._devices:
            handle = self._part(device)
            if handle is None:
                yield GpuUse(device, None, None)
            else:
                yield GpuUse(device, self._busy(handle), self._processes(handle))

    def _found(self) -> Iterator[tuple[str, Any]]:
        for device in self._devices:
            by_place = device.pci and ask(self._nvml, "nvmlDeviceGetHandleByPciBusId", device.pci)
            handle = by_place or self._by_uuid(device)
            if handle is not None:
                yield device.id, handle

    def _by_uuid(self, device: Device) -> Any:
        if device.uuid is None:
            return None
        return ask(self._nvml, "nvmlDeviceGetHandleByUUID", device.uuid)

    def _part(self, device: Device) -> Any:
        whole = self._handles.get(device.id)
        if whole is None or not (device.uuid or "").upper().startswith("MIG-"):
            return whole
        return self._by_uuid(device) or whole

    def _state(self, id_: str, handle: Any) -> GpuState:
        power = ask(self._nvml, "nvmlDeviceGetPowerUsage", handle)
        return GpuState(
            device=id_,
            clocks_hz=self._clocks(handle),
            power=None if power is None else power / 1e3,
            temperature=ask(self._nvml, "nvmlDeviceGetTemperature", handle, _SENSOR),
            throttle=self._reasons(handle),
        )

    def _clocks(self, handle: Any) -> Mapping[str, float]:
        rates = {n: ask(self._nvml, _CLOCK, handle, kind) for n, kind in _CLOCKS.items()}
        return {name: megahertz * 1e6 for name, megahertz in rates.items() if megahertz is not None}

    def _reasons(self, handle: Any) -> tuple[str, ...] | None:
        bits = self._first(_ANSWERS, handle)
        return None if bits is None else tuple(_words(bits & ~_HIDDEN))

    def _busy(self, handle: Any) -> float | None:
        rates = ask(self._nvml, "nvmlDeviceGetUtilizationRates", handle)
        return None if rates is None else rates.gpu / 100

    def _processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        """Return who else computes there, of those that this process can see.

        NVML's numbers are the host's: in a container this process has another one, and no folder
        of that name. Who works there unseen is told by the share of time, not by a number.
        """
        listed, own = self._first(_PROCESSES, handle), os.getpid()
        if listed is None:
            return None
        others = (p for p in listed if p.pid != own and Path(f"/proc/{p.pid}").exists())
        return tuple(GpuProcess(p.pid, _memory(p.usedGpuMemory)) for p in others)

    def _first(self, queries: Iterable[str], handle: Any) -> Any:
        """Return the first answer: pynvml and the driver may each be older than a query."""
        answers = (ask(self._nvml, query, handle) for query in queries)
        return next((answer for answer in answers if answer is not None), None)


def _memory(used: int | None) -> int | None:
    return used if used and used < _LARGEST else None


def _words(bits: int) -> Iterator[str]:
    for bit in (1 << place for place in range(_BITS)):
        if bits & bit:
            yield _REASONS.get(bit, f"reason {bit:#x}")
