"""What the NVIDIA driver says about its devices, without opening one.

NVML numbers all devices in the order of their PCI addresses and knows nothing of
CUDA_VISIBLE_DEVICES: join it with anything else by address or UUID, never by index.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gpumap.errors import AbsentError
from gpumap.extras import NVML, pip
from gpumap.machine.cuda import MISMATCH, NO_DRIVER
from gpumap.machine.topology import pci_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.machine.cuda import Nameable
    from gpumap.model import Device

_CLOCK_SM = 1  # nvmlClockType_t
NODE_WORDS = 16  # of 64 NUMA nodes each: the 1024 that Linux can have at most

_LARGEST = 1 << 50  # bytes; more is NVML's way to say that it does not know

# nvml.h: nvmlClocksEventReason*, which were nvmlClocksThrottleReason* before driver 535.
_REASONS = "nvmlDeviceGetCurrentClocksThrottleReasons"  # every driver has it by this name
_HELD_BACK = {
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
_HIDDEN = 0x1 | 0x2  # idle; clocks that someone has chosen are no surprise
_BITS = 64
_PROCESSES = "nvmlDeviceGetComputeRunningProcesses_v3"

# The codes of nvml.h, nvmlReturn_t.
NO_PERMISSION = 4
_PROBLEMS = {
    NO_PERMISSION: (
        "no permission to talk to the NVIDIA driver",
        "allow this user to open /dev/nvidiactl and /dev/nvidia*",
    ),
    9: ("the NVIDIA driver is not loaded", "load it (modprobe nvidia), or install it"),
    12: ("no NVIDIA driver library (libnvidia-ml.so.1)", NO_DRIVER.fix),
    15: ("a GPU is lost: it has fallen off the bus", "restart the machine"),
    17: ("the system blocked the NVIDIA driver", "see dmesg"),
    18: (MISMATCH.reason, MISMATCH.fix),
}


INSTALL = pip("install", NVML)


class NvmlUnavailable(AbsentError):
    """NVML is not available; has the reason and the fix."""

    code = "nvml-unavailable"

    def __init__(self, reason: str, fix: str | None = None, *, status: int | None = None) -> None:
        super().__init__(reason, hint=fix)
        self.status = status  # of nvml.h; None: no pynvml, which says nothing of the driver
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """One NVIDIA device, or a part of one that is cut up (MIG); what is not told is None."""

    index: int
    driver: str | None
    name: str | None = None
    pci: str | None = None  # dddd:bb:dd.f, lower case
    uuid: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    numa_node: int | None = None
    link_width: int | None = None
    max_link_generation: int | None = None
    max_link_width: int | None = None
    max_clock: int | None = None  # MHz, of the multiprocessors
    mig: bool = False  # cut into instances: CUDA then sees those
    instances: tuple[NvmlGpu, ...] = ()
    problem: str | None = None  # why the device itself does not answer


def gpus(library: Any = None) -> tuple[NvmlGpu, ...]:
    """Return every NVIDIA device, or raise NvmlUnavailable with the reason and the fix.

    Args:
        library: replaces the module `pynvml`.
    """
    with opened(library) as nvml:
        return tuple(_all(nvml))


def nameable(devices: Iterable[NvmlGpu] | None) -> Nameable | None:
    """Return what CUDA_VISIBLE_DEVICES can name."""
    if devices is None:
        return None
    return [(gpu.uuid, *(part.uuid for part in gpu.instances)) for gpu in devices]


_NOT_SUPPORTED = 3  # of nvmlReturn_t
# nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t.
_UNCORRECTED, _SINCE_BOOT = 1, 0
_HEALTH: Mapping[str, tuple[str, tuple[int, ...]]] = {  # fact: query, arguments behind the handle
    "ecc": ("nvmlDeviceGetEccMode", ()),
    "ecc_errors": ("nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _SINCE_BOOT)),
    "remapped": ("nvmlDeviceGetRemappedRows", ()),
    "compute_mode": ("nvmlDeviceGetComputeMode", ()),
    "power_limit": ("nvmlDeviceGetPowerManagementLimit", ()),
    "power_default": ("nvmlDeviceGetPowerManagementDefaultLimit", ()),
}


def health(library: Any = None) -> tuple[GpuHealth, ...]:
    """Return every NVIDIA device with its health, or raise NvmlUnavailable.

    Args:
        library: replaces the module `pynvml`.
    """
    with opened(library) as nvml:
        return tuple(_health(nvml, gpu) for gpu in _all(nvml))


def _health(library: Any, gpu: NvmlGpu) -> GpuHealth:
    if gpu.problem is not None:
        return GpuHealth(gpu)
    handle = library.nvmlDeviceGetHandleByIndex(gpu.index)
    asked = (
        (name, ask(library, query, handle, *arguments, lacking=_NONE))
        for name, (query, arguments) in _HEALTH.items()
    )
    facts = {name: value for name, value in asked if value is not _NONE}
    every = ask(library, _PROCESSES, handle)
    seen = _seen(every)
    hidden = len({one.pid for one in every or ()} - {os.getpid()}) - len(seen or ())
    held = held_back(library, handle)
    return GpuHealth(gpu, facts, held, seen, hidden, _busy(library, handle))


_NONE = object()  # the device has no such thing


@contextmanager
def opened(library: Any = None) -> Iterator[Any]:
    """Yield the module `pynvml`, its NVML initialised, or raise NvmlUnavailable.

    Args:
        library: replaces the module.
    """
    library = library or _pynvml()
    try:
        library.nvmlInit()
        try:
            yield library
        finally:
            library.nvmlShutdown()
    except library.NVMLError as error:
        raise NvmlUnavailable(*_problem(error), status=getattr(error, "value", None)) from error


def _pynvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailable("pynvml is not installed", INSTALL) from error
    return pynvml


def _problem(error: Any) -> tuple[str, str | None]:
    return _PROBLEMS.get(getattr(error, "value", 0), (f"NVML: {error}", None))


def _all(library: Any) -> Iterator[NvmlGpu]:
    driver = ask(library, "nvmlSystemGetDriverVersion")
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            # One lost device must not hide the others.
            yield NvmlGpu(index, driver, problem=_problem(error)[0])
        else:
            yield _gpu(library, handle, index=index, driver=driver)


def _gpu(
    library: Any, handle: Any, *, index: int, driver: str | None, whole: bool = True
) -> NvmlGpu:
    place = ask(library, "nvmlDeviceGetPciInfo", handle)
    memory = ask(library, "nvmlDeviceGetMemoryInfo", handle)
    modes = ask(library, "nvmlDeviceGetMigMode", handle) if whole else None
    mig = bool(modes and modes[0])
    words = ask(library, "nvmlDeviceGetMemoryAffinity", handle, NODE_WORDS, 0) or ()
    bits = sum(int(word) << (64 * place) for place, word in enumerate(words))
    return NvmlGpu(
        index=index,
        driver=driver,
        name=ask(library, "nvmlDeviceGetName", handle),
        pci=pci_address(place.busId) if place else None,
        uuid=ask(library, "nvmlDeviceGetUUID", handle),
        memory_total=memory.total if memory else None,
        memory_free=memory.free if memory else None,
        # the first of a bit set: its memory is near the device
        numa_node=(bits & -bits).bit_length() - 1 if bits else None,
        link_width=ask(library, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        max_link_generation=ask(library, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        max_link_width=ask(library, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        max_clock=ask(library, "nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM),
        mig=mig,
        instances=tuple(_instances(library, handle, driver)) if mig else (),
    )


def _instances(library: Any, handle: Any, driver: str | None) -> Iterator[NvmlGpu]:
    """Yield the instances of a device; its places for them need not all be taken."""
    for place in range(ask(library, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = ask(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if part is not None:
            yield _gpu(library, part, index=place, driver=driver, whole=False)


def ask(library: Any, query: str, *arguments: Any, lacking: Any = None) -> Any:
    """Return the answer to one query; None where the driver or pynvml has none.

    `lacking` is returned where the device does not have what is asked for.
    """
    function = getattr(library, query, None)
    if function is None:  # a pynvml older than the query
        return None
    try:
        return function(*arguments)
    except library.NVMLError as error:
        return lacking if getattr(error, "value", None) == _NOT_SUPPORTED else None


class GpuUse(NamedTuple):
    """Who is on a device, and the share of time in which it worked; None: not known."""

    device: Device
    busy: float | None
    processes: Mapping[int, int | None] | None  # others, and their bytes


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """A device's counters, settings and processes, for whether it may take a job.

    `facts` has no key where the device has no such thing, and None where it could not be read.
    """

    gpu: NvmlGpu
    facts: Mapping[str, Any] = field(default_factory=dict)
    throttle: tuple[str, ...] | None = None
    processes: Mapping[int, int | None] | None = None  # others, and their bytes
    hidden: int = 0  # more processes, which a container does not show
    busy: float | None = None  # share of time in which it worked, for whomever


class GpuLook(NamedTuple):
    """A device at one moment; what its driver does not tell is None."""

    busy: float | None  # share of time in which any kernel ran, for whomever
    shares: Mapping[int, float]  # of processes that used its multiprocessors since the last look
    processes: Mapping[int, int | None] | None  # those that have it open: bytes
    used: int | None  # bytes, by all of them


class Gpus:
    """NVML, kept open on the CUDA devices of a map; without NVML there is nothing to tell.

    Devices are found by PCI address or UUID. Without a CUDA device NVML is not even looked for.
    """

    def __init__(self, devices: Iterable[Device], library: Any = None) -> None:
        self._devices = [device for device in devices if device.kind.row.seen == "nvml"]
        self._library = library
        self._open = ExitStack()
        self._nvml: Any = None
        self._handles: dict[str, Any] = {}

    def __enter__(self) -> Self:
        with suppress(NvmlUnavailable):
            if self._devices:
                self._nvml = self._open.enter_context(opened(self._library))
                self._handles = dict(self._device_handles())
        return self

    def __exit__(self, *error: object) -> None:
        self._handles = {}
        with suppress(NvmlUnavailable):  # a driver that goes away takes no result with it
            self._open.close()

    def throttled(self) -> dict[str, tuple[str, ...]]:
        """Return what holds each device back right now, for those that are."""
        found = ((id_, held_back(self._nvml, handle)) for id_, handle in self._handles.items())
        return {id_: reasons for id_, reasons in found if reasons}

    def uses(self) -> Iterator[GpuUse]:
        """Yield who is on each device; a MIG instance is asked for itself."""
        for device in self._devices:
            handle = self._handles.get(device.id)
            if handle is not None and (device.uuid or "").upper().startswith("MIG-"):
                handle = self._by_uuid(device) or handle
            if handle is None:
                yield GpuUse(device, None, None)
            else:
                listed = ask(self._nvml, _PROCESSES, handle)
                yield GpuUse(device, _busy(self._nvml, handle), _seen(listed))

    def look(self, since: int) -> dict[str, GpuLook]:
        """Return each device that answers; shares are of the time after `since`, in microseconds.

        What kernels and copies did between two looks is in NVML's own samples, some per second.
        """
        return {id_: self._looked(handle, since) for id_, handle in self._handles.items()}

    def _looked(self, handle: Any, since: int) -> GpuLook:
        memory = ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        listed = ask(self._nvml, _PROCESSES, handle)
        shares: dict[int, float] = {}
        for sample in ask(self._nvml, "nvmlDeviceGetProcessUtilization", handle, since) or ():
            shares[sample.pid] = max(shares.get(sample.pid, 0.0), min(sample.smUtil / 100, 1.0))
        known = None if listed is None else _memories(listed)
        return GpuLook(_busy(self._nvml, handle), shares, known, memory.used if memory else None)

    def _device_handles(self) -> Iterator[tuple[str, Any]]:
        for device in self._devices:
            by_place = device.pci and ask(self._nvml, "nvmlDeviceGetHandleByPciBusId", device.pci)
            handle = by_place or self._by_uuid(device)
            if handle is not None:
                yield device.id, handle

    def _by_uuid(self, device: Device) -> Any:
        if device.uuid is None:
            return None
        return ask(self._nvml, "nvmlDeviceGetHandleByUUID", device.uuid)


def _busy(library: Any, handle: Any) -> float | None:
    rates = ask(library, "nvmlDeviceGetUtilizationRates", handle)
    return None if rates is None else rates.gpu / 100


def held_back(library: Any, handle: Any) -> tuple[str, ...] | None:
    """Return what holds a device back right now; None: that is not told."""
    bits = ask(library, _REASONS, handle)
    if bits is None:
        return None
    places = (1 << place for place in range(_BITS))
    return tuple(_HELD_BACK.get(b, f"reason {b:#x}") for b in places if b & bits & ~_HIDDEN)


def _seen(listed: Iterable[Any] | None) -> Mapping[int, int | None] | None:
    """Return who else computes on a device, of those that this process can see.

    NVML's numbers are the host's: in a container this process has another one, and no folder
    of that name. A process that is not visible shows in the share of time, not by its number.
    """
    if listed is None:
        return None
    own = os.getpid()
    return _memories(p for p in listed if p.pid != own and Path(f"/proc/{p.pid}").exists())


def _memories(listed: Iterable[Any]) -> Mapping[int, int | None]:
    """Return the bytes of each process; None: not told."""
    every = ((process.pid, process.usedGpuMemory) for process in listed)
    return {pid: used if used and used < _LARGEST else None for pid, used in every}
