"""What the CUDA driver says of itself, by its own C interface: no context, no library of CUDA's.

Libraries that drive devices hide it: CuPy says "insufficient" of a driver that is missing as of
one that is old, libgpuarray says that a file cannot be loaded, and CUDA's runtime gives a MIG
instance the UUID of the GPU that it is a part of. A driver may crash or hang: call it where a
backend is probed, in a child process.
"""

from __future__ import annotations

from ctypes import CDLL, byref, c_int, create_string_buffer
from dataclasses import dataclass
from typing import Any

from gpumap.machine.pci import address

LIBRARY = "libcuda.so.1"
_TEXT = 256  # bytes for a name
_UUID = 16  # bytes; CuPy cuts what it tells at the first zero, and half of one is none


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device that this process may see, as its driver knows it; its index is its place."""

    name: str
    pci: str | None = None  # dddd:bb:dd.f, lower case
    uuid: str | None = None  # without GPU- or MIG-, which the driver leaves away


@dataclass(frozen=True, slots=True)
class CudaDriver:
    """A driver's library that could be loaded."""

    status: int  # cuInit's answer, 0 where all is well
    version: int  # of CUDA: 13020 is 13.2; 0: not told
    devices: tuple[CudaDevice, ...] = ()


def driver(name: str = LIBRARY) -> CudaDriver | None:
    """Return what the driver answers; None where there is none."""
    try:
        library = CDLL(name)
        version = c_int(0)
        library.cuDriverGetVersion(byref(version))
        status = library.cuInit(0)
        return CudaDriver(status, version.value, () if status else _devices(library))
    except (OSError, AttributeError):  # no file, or not a driver's
        return None


def version_text(number: int) -> str:
    """Return CUDA's 13020 as "CUDA 13.2"."""
    return f"CUDA {number // 1000}.{number % 1000 // 10}"


def uuid_text(raw: bytes | None) -> str | None:
    """Return the sixteen bytes of a UUID as nvidia-smi writes them; None if they tell nothing."""
    if raw is None or len(raw) < _UUID or not any(raw[:_UUID]):
        return None
    digits = raw[:16].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _devices(library: Any) -> tuple[CudaDevice, ...]:
    count, found = c_int(0), []
    if library.cuDeviceGetCount(byref(count)):
        return ()
    for index in range(count.value):
        handle = c_int(0)
        library.cuDeviceGet(byref(handle), index)
        name, pci, uuid = (create_string_buffer(_TEXT) for _ in range(3))
        library.cuDeviceGetName(name, _TEXT - 1, handle)
        library.cuDeviceGetPCIBusId(pci, _TEXT - 1, handle)
        told = library.cuDeviceGetUuid_v2(uuid, handle) == 0
        found.append(
            CudaDevice(
                name.value.decode(errors="replace"),
                address(pci.value.decode(errors="replace")),
                uuid_text(uuid.raw) if told else None,
            )
        )
    return tuple(found)
