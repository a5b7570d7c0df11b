"""The system's own files, read through a root folder (`/`, or a captured tree); PCI devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CPUS_MAX = 65536  # a list that names more is not about processors
FILE_MAX = 16 * 2**20  # the largest real one, /proc/cpuinfo of 2048 processors, has 4 MiB

_RANGE = re.compile(r"\s*([0-9]{1,20})(?:-([0-9]{1,20}))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tree:
    """Files below a root folder; what is missing or does not parse is None or empty, no error."""

    root: Path

    @property
    def live(self) -> bool:
        """Whether these are the files of the running system."""
        return self.root == Path("/")

    def text(self, path: str) -> str | None:
        """Return the text of a file, without the white space around it."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(FILE_MAX).decode(errors="replace").strip()
        except (OSError, ValueError):  # ValueError: a path with a NUL, out of a broken file
            return None

    def number(self, path: str, base: int = 10) -> int | None:
        """Return the whole number that is all of a file."""
        return number(self.text(path), base)

    def natural(self, path: str) -> int | None:
        """Return the number from 0 up that is all of a file: the kernel writes -1 for "unknown"."""
        value = self.number(path)
        return value if value is not None and value >= 0 else None

    def cpus(self, path: str) -> tuple[int, ...]:
        """Return the processors that a file lists."""
        return cpu_list(self.text(path) or "")

    def allowed(self, what: str, process: str = "self") -> tuple[int, ...] | None:
        """Return the Cpus or Mems that a process may use; None where the system does not tell."""
        key = f"{what}_allowed_list:"
        lines = (self.text(f"proc/{process}/status") or "").splitlines()
        return next((cpu_list(line[len(key) :]) for line in lines if line.startswith(key)), None)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        try:
            return tuple(sorted(entry.name for entry in (self.root / path).iterdir()))
        except (OSError, ValueError):
            return ()


def number(text: str | None, base: int = 10) -> int | None:
    """Return the whole number that `text` is, else None."""
    try:
        return int(text or "", base)
    except ValueError:
        return None


def cpu_list(text: str) -> tuple[int, ...]:
    """Return the ascending processor numbers of a kernel list; parts that do not parse are dropped.

    cpus  = range { "," range }
    range = number [ "-" number ]
    """
    cpus: list[int] = []
    for first, last in sorted(filter(None, map(_range, text.split(",")))):
        # Starting behind what is there keeps a list of overlapping ranges linear in its result.
        cpus.extend(range(max(first, cpus[-1] + 1 if cpus else 0), last + 1))
    return tuple(cpus)


def _range(part: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(part)
    if match is None:
        return None
    first = int(match[1])
    return first, min(int(match[2] or first), CPUS_MAX - 1)


CLASSES = frozenset({0x03, 0x12})  # display controllers, processing accelerators

_FOLDER = "sys/bus/pci/devices"
_HEX = "[0-9a-f]"
_ADDRESS = re.compile(f"(?:({_HEX}{{1,8}}):)?({_HEX}{{1,2}}):({_HEX}{{1,2}})\\.([0-7])")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One device. Speeds are in transfers per second and lane, widths in lanes."""

    address: str  # dddd:bb:dd.f, lower case
    vendor: int | None
    device: int | None
    class_code: int
    numa_node: int | None
    local_cpus: tuple[int, ...]
    link_speed: float | None
    link_width: int | None
    max_link_speed: float | None
    max_link_width: int | None


def pci_devices(tree: Tree) -> tuple[PciDevice, ...]:
    """Return the display and accelerator devices, in the order of their addresses."""
    found = (_device(tree, name) for name in tree.names(_FOLDER))
    return tuple(sorted(filter(None, found), key=lambda d: (len(d.address), d.address)))


def pci_address(text: str) -> str | None:
    """Return a PCI address as dddd:bb:dd.f in lower case; None for what is not one.

    NVML writes eight digits of domain, CUDA capitals, people none at all: `0000:09:00.0` is
    also `00000000:09:00.0` and `09:00.0`.
    """
    match = _ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, slot = (int(digits or "0", 16) for digits in match.groups()[:3])
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{match[4]}"


def _device(tree: Tree, name: str) -> PciDevice | None:
    folder, place = f"{_FOLDER}/{name}", pci_address(name)
    code = tree.number(f"{folder}/class", 16)
    if place is None or code is None or code >> 16 not in CLASSES:
        return None
    return PciDevice(
        address=place,
        vendor=tree.number(f"{folder}/vendor", 16),
        device=tree.number(f"{folder}/device", 16),
        class_code=code,
        numa_node=tree.natural(f"{folder}/numa_node"),
        local_cpus=tree.cpus(f"{folder}/local_cpulist"),
        link_speed=_speed(tree.text(f"{folder}/current_link_speed")),
        link_width=_width(tree.text(f"{folder}/current_link_width")),
        max_link_speed=_speed(tree.text(f"{folder}/max_link_speed")),
        max_link_width=_width(tree.text(f"{folder}/max_link_width")),
    )


def _speed(text: str | None) -> float | None:
    """Return "16.0 GT/s PCIe" as 16e9; "Unknown" is None."""
    match = re.match(r"([0-9]{1,4}(?:\.[0-9]{1,4})?) GT/s", text or "")
    return float(match[1]) * 1e9 if match else None


def _width(text: str | None) -> int | None:
    lanes = number(text)
    return lanes if lanes is not None and 0 < lanes <= 32 else None  # noqa: PLR2004  255: unknown
