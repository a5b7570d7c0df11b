"""What the CUDA driver says of itself, by its own C interface: no context, no library of CUDA's.

Libraries that drive devices hide it: CuPy says "insufficient" of a driver that is missing as of
one that is old, libgpuarray says that a file cannot be loaded, and CUDA's runtime gives a MIG
instance the UUID of the GPU that it is a part of. A driver may crash or hang: call it where a
backend is probed, in a child process.

What CUDA_VISIBLE_DEVICES hides, in words: CUDA itself drops devices in silence.

The rules, of NVIDIA's CUDA Programming Guide, "CUDA Environment Variables": entries are indices or
UUIDs, a UUID may be cut short while it fits one device only, an empty list hides everything, and
an invalid entry hides itself and all that follow. Not in the guide: an index is read as C's
strtoul reads it ("1x" is 1), and a device that is named twice empties the list (as PyTorch, which
foretells the count of devices, has it). So what was foretold is said only if CUDA's own count
agrees. CUDA_DEVICE_ORDER changes which device an index means, never which indices there are.
"""

from __future__ import annotations

import re
from ctypes import CDLL, byref, c_int, create_string_buffer
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.machine.topology import Tree, no_gpu, pci_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Lack

VARIABLE = "CUDA_VISIBLE_DEVICES"
_LIST = "`nvidia-smi -L` lists the devices"
_LONGEST = 72  # characters of the variable that are shown
_INDEX = re.compile(r"\s*\+?([0-9]+)(.*)", re.DOTALL | re.ASCII)
_DIGITS = 9  # of an index; more name nothing that there could be
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/[0-9]+/[0-9]+", re.IGNORECASE | re.ASCII)
LIBRARY = "libcuda.so.1"
_NVIDIA = 0x10DE  # on the PCI bus
_TEXT = 256  # bytes for a name
_UUID = 16  # bytes; CuPy cuts what it tells at the first zero, and half of one is none


@dataclass(frozen=True, slots=True)
class Known:
    """What NVML tells of this machine; None where it does not answer."""

    count: int | None = None  # GPUs, whether CUDA may see them or not
    uuids: frozenset[str] | None = None  # of GPUs and of MIG instances


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


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    device: str | None = None  # what it names, the same for two entries that name the same
    wrong: str | None = None  # why it names no device
    known: bool = False  # it names one: NVML says so
    tail: str = ""  # what follows the digits of an index


def explain(text: str | None, known: Known, shown: int | None = None) -> Why | None:
    """Return what CUDA_VISIBLE_DEVICES hides though it names it; None if that is nothing.

    Args:
        text: the variable; None where it is not set.
        known: what there is to name.
        shown: how many devices CUDA shows; None where it could not be asked.
    """
    if text is None or known.count == 0:  # where there is nothing, nothing is hidden
        return None
    if not text.strip():
        return Why(f"{VARIABLE} is empty: every device is hidden", f"unset it; {_LIST}")
    parts = text.split(",")  # a comma at the end hides nothing
    parts = parts if parts[-1].strip() else parts[:-1] or parts
    entries = [_read(part, known) for part in parts]
    if shown is None:  # all that can be known: how many they name, by the rules
        wrong = next((n for n, entry in enumerate(entries) if entry.wrong), len(entries))
        shown = 0 if _twice(entries) else wrong
    odd = _hidden(entries, shown) if shown < len(entries) else _tails(entries)
    return Why(f"{VARIABLE}={_short(text)}: {odd.reason}", odd.fix) if odd else None


def _hidden(entries: Sequence[_Entry], shown: int) -> Why | None:
    """Return why CUDA shows only so many, fewer than there are entries."""
    entry = entries[shown]
    if shown == 0 and (twice := _twice(entries)):
        return Why(f"{twice}, which hides every device", _fix(entries))
    if entry.known:
        return _fewer(entries, shown) if shown else None  # it is not the variable's fault
    if entry.wrong is None and shown == 0:
        return Why("CUDA finds no device in it", _fix(entries))
    return Why(_wrong(entries, shown), _fix(entries))


def _read(text: str, known: Known) -> _Entry:
    """Return an entry as CUDA reads it."""
    word = text.strip()
    if word[:4].upper() in ("GPU-", "MIG-"):
        return _uuid(word, known)
    digits = _INDEX.match(text)
    if digits is None:
        return _Entry(word, wrong="names no device")
    index = int(digits[1][-_DIGITS:]) if len(digits[1].lstrip("0")) <= _DIGITS else None
    if index is None or (known.count is not None and index >= known.count):
        return _Entry(word, wrong="names no device")
    tail = digits[2].strip()  # with one, CUDA alone knows what it takes it for
    return _Entry(word, str(index), known=known.count is not None and not tail, tail=tail)


def _uuid(word: str, known: Known) -> _Entry:
    """Return an entry that is a UUID, or the beginning of one."""
    if known.uuids is None:
        return _Entry(word, word.lower())
    old = _OLD_MIG.fullmatch(word)  # its numbers are NVML's business, its GPU can be looked up
    start = (old[1] if old else word).lower()
    fits = [uuid for uuid in sorted(known.uuids) if uuid.lower().startswith(start)]
    if not fits:
        return _Entry(word, wrong="names no device")
    if len(fits) > 1:
        return _Entry(word, wrong=f"fits {len(fits)} devices")
    return _Entry(word, word.lower() if old else fits[0].lower(), known=not old)


def _twice(entries: Sequence[_Entry]) -> str:
    """Return that a device is named twice before an entry that names none."""
    first: dict[str, int] = {}
    for n, entry in enumerate(entries, 1):
        if entry.device is None:
            break
        if entry.device in first:
            return f'entries {first[entry.device]} and {n} ("{_short(entry.text)}") are one device'
        first[entry.device] = n
    return ""


def _wrong(entries: Sequence[_Entry], place: int) -> str:
    entry = entries[place]
    what = f'entry {place + 1} ("{_short(entry.text)}") {entry.wrong or "names no device"}'
    if place == 0:
        return f"{what}, so every device is hidden"
    later = ", so it and every later entry are hidden" if place + 1 < len(entries) else ""
    return what + later


def _fewer(entries: Sequence[_Entry], shown: int) -> Why:
    """Return that CUDA shows fewer devices than there are to name: it alone knows why."""
    reason = f"CUDA shows {shown} of these {len(entries)} devices"
    if any(entry.text[:4].upper() == "MIG-" for entry in entries):
        return Why(
            f"{reason}: a process sees one MIG instance", "run one process for each instance"
        )
    return Why(reason, _LIST)


def _tails(entries: Sequence[_Entry]) -> Why | None:
    """Return that a number with something behind it counts as the number alone."""
    odd = [(n, entry) for n, entry in enumerate(entries, 1) if entry.tail]
    if not odd:
        return None
    number, entry = odd[0]
    reason = f'entry {number} ("{_short(entry.text)}") is read as {entry.device}'
    return Why(reason, f"put commas between the entries, and nothing else; {_LIST}")


def _fix(entries: Sequence[_Entry]) -> str:
    """Return the list without what names nothing, where NVML vouches for the rest."""
    good = dict.fromkeys(entry.device for entry in entries if entry.known)
    kept = [next(e.text for e in entries if e.device == device) for device in good]
    unsure = any(entry.wrong is None and not entry.known for entry in entries)
    if kept and not unsure:
        return f"set {VARIABLE}={','.join(kept)}, or unset it; {_LIST}"
    return f"unset {VARIABLE}, or name devices that are there; {_LIST}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


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
        known = library.cuDeviceGetUuid_v2(uuid, handle) == 0
        found.append(
            CudaDevice(
                name.value.decode(errors="replace"),
                pci_address(pci.value.decode(errors="replace")),
                uuid_text(uuid.raw) if known else None,
            )
        )
    return tuple(found)
