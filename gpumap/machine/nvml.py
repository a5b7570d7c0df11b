"""What the NVIDIA driver says about its devices, without opening one.

NVML numbers all devices in the order of their PCI addresses and knows nothing of
CUDA_VISIBLE_DEVICES: join it with anything else by address or UUID, never by index.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.errors import AbsentError
from gpumap.extras import NVML, pip
from gpumap.machine.pci import address

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOCK_SM = 1  # nvmlClockType_t
NODE_WORDS = 16  # of 64 NUMA nodes each: the 1024 that Linux can have at most

# The codes of nvml.h, nvmlReturn_t.
_NO_PERMISSION = 4
_PROBLEMS = {
    _NO_PERMISSION: (
        "no permission to talk to the NVIDIA driver",
        "allow this user to open /dev/nvidiactl and /dev/nvidia*",
    ),
    9: ("the NVIDIA driver is not loaded", "load it (modprobe nvidia), or install it"),
    12: (
        "no NVIDIA driver library (libnvidia-ml.so.1)",
        "install the NVIDIA driver; start a container with --gpus all",
    ),
    15: ("a GPU is lost: it has fallen off the bus", "restart the machine"),
    17: ("the system blocked the NVIDIA driver", "see dmesg"),
    18: (
        "the NVIDIA driver and its library differ in version",
        "restart the machine, or load the driver again: it was updated while in use",
    ),
}


NOT_INSTALLED = "pynvml is not installed"  # which says nothing of the driver
INSTALL = pip("install", NVML)


class NvmlUnavailable(AbsentError):
    """NVML cannot be asked; says why, and what would mend it."""

    code = "nvml-unavailable"

    def __init__(self, reason: str, fix: str | None = None, *, forbidden: bool = False) -> None:
        super().__init__(reason, hint=fix)
        self.forbidden = forbidden
        self.reason = reason
        self.fix = fix


@dataclass(frozen=True, slots=True)
class NvmlInstance:
    """A part of a device that is cut up (MIG): CUDA sees it as a device of its own."""

    uuid: str | None = None  # MIG-...
    name: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """One NVIDIA device; what its driver does not tell is None."""

    index: int
    driver: str | None
    name: str | None = None
    pci: str | None = None  # dddd:bb:dd.f, lower case
    uuid: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    numa_node: int | None = None
    cores: int | None = None  # arithmetic units, not multiprocessors
    link_generation: int | None = None  # as it is now: an idle link slows down
    link_width: int | None = None
    max_link_generation: int | None = None
    max_link_width: int | None = None
    max_clock: int | None = None  # MHz, of the multiprocessors
    mig: bool = False  # cut into instances: CUDA then sees those
    instances: tuple[NvmlInstance, ...] = ()
    problem: str | None = None  # why the device itself does not answer


def gpus(library: Any = None) -> tuple[NvmlGpu, ...]:
    """Return every NVIDIA device, or raise NvmlUnavailable with the reason and the fix.

    Args:
        library: stands in for the module `pynvml`.
    """
    with opened(library) as nvml:
        return tuple(_all(nvml))


@contextmanager
def opened(library: Any = None) -> Iterator[Any]:
    """Yield the module `pynvml`, its NVML initialised, or raise NvmlUnavailable.

    Args:
        library: stands in for the module.
    """
    library = library or _pynvml()
    try:
        library.nvmlInit()
        try:
            yield library
        finally:
            library.nvmlShutdown()
    except library.NVMLError as error:
        forbidden = getattr(error, "value", 0) == _NO_PERMISSION
        raise NvmlUnavailable(*_problem(error), forbidden=forbidden) from error


def _pynvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailable(NOT_INSTALLED, INSTALL) from error
    return pynvml


def _problem(error: Any) -> tuple[str, str | None]:
    return _PROBLEMS.get(getattr(error, "value", 0), (f"NVML: {error}", None))


def _all(library: Any) -> Iterator[NvmlGpu]:
    driver = _text(ask(library, "nvmlSystemGetDriverVersion"))
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
        except library.NVMLError as error:
            # One lost device must not hide the others.
            yield NvmlGpu(index, driver, problem=_problem(error)[0])
        else:
            yield _gpu(library, handle, index=index, driver=driver)


def _gpu(library: Any, handle: Any, *, index: int, driver: str | None) -> NvmlGpu:
    place = ask(library, "nvmlDeviceGetPciInfo", handle)
    memory = ask(library, "nvmlDeviceGetMemoryInfo", handle)
    modes = ask(library, "nvmlDeviceGetMigMode", handle)
    mig = bool(modes and modes[0])
    return NvmlGpu(
        index=index,
        driver=driver,
        name=_text(ask(library, "nvmlDeviceGetName", handle)),
        pci=address(_text(place.busId) or "") if place else None,
        uuid=_text(ask(library, "nvmlDeviceGetUUID", handle)),
        memory_total=memory.total if memory else None,
        memory_free=memory.free if memory else None,
        numa_node=_node(ask(library, "nvmlDeviceGetMemoryAffinity", handle, NODE_WORDS, 0)),
        cores=ask(library, "nvmlDeviceGetNumGpuCores", handle),
        link_generation=ask(library, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
        link_width=ask(library, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        max_link_generation=ask(library, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        max_link_width=ask(library, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        max_clock=ask(library, "nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM),
        mig=mig,
        instances=tuple(_instances(library, handle)) if mig else (),
    )


def _instances(library: Any, handle: Any) -> Iterator[NvmlInstance]:
    """Yield the instances of a device; its places for them need not all be taken."""
    for place in range(ask(library, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = ask(library, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if part is not None:
            memory = ask(library, "nvmlDeviceGetMemoryInfo", part)
            yield NvmlInstance(
                uuid=_text(ask(library, "nvmlDeviceGetUUID", part)),
                name=_text(ask(library, "nvmlDeviceGetName", part)),
                memory_total=memory.total if memory else None,
                memory_free=memory.free if memory else None,
            )


def ask(library: Any, query: str, *arguments: Any) -> Any:
    """Return the answer to one query; None where the device, driver or pynvml has none."""
    function = getattr(library, query, None)
    if function is None:  # a pynvml older than the query
        return None
    try:
        return function(*arguments)
    except library.NVMLError:
        return None


def _text(value: str | bytes | None) -> str | None:
    """Return a string of NVML's; pynvml before 11.5 gives bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _node(words: Any) -> int | None:
    """Return the first node of a bit set: the one whose memory is near the device."""
    bits = sum(int(word) << (64 * place) for place, word in enumerate(words or ()))
    return (bits & -bits).bit_length() - 1 if bits else None
