"""What the CUDA driver says of itself, by its own C interface: no context, no library of CUDA's.

Libraries that drive devices hide it: CuPy says "insufficient" of a driver that is missing as of
one that is old, libgpuarray says that a file cannot be loaded, and CUDA's runtime gives a MIG
instance the UUID of the GPU that it is a part of. A driver may crash or hang: call it where a
backend is probed, in a child process.

What CUDA_VISIBLE_DEVICES hides, in words: CUDA itself drops devices in silence.

The rules, of NVIDIA's CUDA Programming Guide, "CUDA Environment Variables": entries are indices or
UUIDs, a UUID may be cut short while it fits one device only, an empty list hides everything, and
an invalid entry hides itself and all that follow. Not in the guide: an index is read as C's strtoul
reads it ("1x" is 1), and a device that is named twice empties the list. CUDA_DEVICE_ORDER changes
which device an index means, never which indices there are.
"""

from __future__ import annotations

import re
from ctypes import CDLL, byref, c_int, create_string_buffer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from gpumap.machine.topology import Tree, no_gpu, pci_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Lack

    Nameable = Sequence[tuple[str | None, ...]]  # UUIDs of each GPU and of its instances

VARIABLE = "CUDA_VISIBLE_DEVICES"
_LIST = "`nvidia-smi -L` lists the devices"
_LONGEST = 72  # characters of the variable that are shown
_INDEX = re.compile(r"\+?0*([0-9]+)", re.ASCII)
_DIGITS = 9  # of an index; more name nothing that there could be
LIBRARY = "libcuda.so.1"
_NVIDIA = 0x10DE  # on the PCI bus
_TEXT = 256  # bytes for a name
_UUID = 16  # bytes; CuPy cuts what it tells at the first zero, and half of one is none


class Why(NamedTuple):
    """A reason why there is no device, what fixes it, and what lacks."""

    reason: str
    fix: str
    lack: Lack | None = None


NO_DRIVER = Why(
    "no NVIDIA driver: libcuda.so.1 cannot be loaded",
    "install NVIDIA's driver; start a container with --gpus all",
)
NO_GPU = Why(
    "this machine has no NVIDIA GPU: none is on the PCI bus",
    "map a device that `gpumap devices` lists, or use a machine with a GPU",
)
MISMATCH = Why(
    "the NVIDIA driver and its library differ in version",
    "restart the machine, or load the driver again: it was updated while in use",
)


def no_driver(root: Path = Path("/")) -> Why:
    """Return why no driver can be loaded: where there is nothing to drive, none would help."""
    return NO_GPU if no_gpu(Tree(root), _NVIDIA) else NO_DRIVER


def explain(text: str | None, gpus: Nameable | None, shown: int) -> Why | None:
    """Return what CUDA_VISIBLE_DEVICES hides though it names it; None if that is nothing.

    Args:
        text: the variable; None where it is not set.
        gpus: what there is to name; None where NVML does not answer.
        shown: how many devices CUDA shows.
    """
    if text is None or (gpus is not None and not gpus):  # where there is nothing, nothing is hidden
        return None
    if not text.strip():
        return Why(f"{VARIABLE} is empty: every device is hidden", f"unset it; {_LIST}")
    entries = [part.strip() for part in text.rstrip(", ").split(",")]
    wrong = next((n for n, entry in enumerate(entries) if not _names(entry, gpus)), len(entries))
    if shown >= len(entries):
        return None
    twice = len(set(entries)) < len(entries)
    if shown >= wrong or (gpus is None and not twice):
        entry = f'entry {shown + 1} ("{_short(entries[shown])}")'
        reason = f"{entry} names no device, so it and every later entry are hidden"
    elif shown or twice:  # CUDA alone knows why it ends here
        reason = f"CUDA shows {shown} of these {len(entries)} devices"
    else:
        return None  # it is not the variable's fault
    fix = f"unset {VARIABLE}, or name devices that are there, each once; {_LIST}"
    return Why(f"{VARIABLE}={_short(text)}: {reason}", fix)


def _names(entry: str, gpus: Nameable | None) -> bool:
    """Return whether an entry may name a device, by CUDA's rules."""
    if entry[:4].upper() in ("GPU-", "MIG-"):
        start = entry.lower()
        old = start.startswith("mig-gpu-")  # with numbers of instances, which are NVML's business
        uuids = [uuid for every in gpus or () for uuid in every]
        fits = [uuid for uuid in uuids if uuid is None or uuid.lower().startswith(start)]
        return gpus is None or None in fits or old or len(fits) == 1  # None could be any
    digits = _INDEX.match(entry)  # as C's strtoul, which stops at what is no digit
    if digits is None:
        return False
    return gpus is None or (len(digits[1]) <= _DIGITS and int(digits[1]) < len(gpus))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


class CudaDevice(NamedTuple):
    """A device that this process may see, as its driver knows it; its index is its place."""

    name: str
    pci: str | None = None  # dddd:bb:dd.f, lower case
    uuid: str | None = None  # without GPU- or MIG-, which the driver leaves away


class CudaDriver(NamedTuple):
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
    return str(UUID(bytes=raw[:_UUID]))


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
        known = library.cuDeviceGetUuid_v2(uuid, handle) == 0
        what, where = (buffer.value.decode(errors="replace") for buffer in (name, pci))
        own = uuid_text(uuid.raw) if known else None
        found.append(CudaDevice(what, pci_address(where), own))
    return tuple(found)
