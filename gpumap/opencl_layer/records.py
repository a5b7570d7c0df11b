"""The files of the OpenCL layer: one per process, read into counts per device.

The layout is that of `struct file` in layer.c; a file of another layout is refused.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.errors import Diagnostic, SourceError
from gpumap.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX = ".opencl"
_MAGIC, _VERSION, _DEVICES = b"gpumapCL", 1, 64
_LAYOUT, _HEADER = Struct("=8s4I"), Struct("=2i2I3Q64s384s")
_SLOT = Struct("=32Q3i5I4I16s96s48s48s")
_START = _LAYOUT.size + _HEADER.size
_SIZE = _START + (_DEVICES + 1) * _SLOT.size
_COUNTERS = 32  # places for them in a slot
_KINDS = {2: "cpu", 4: "gpu", 8: "accelerator"}  # bits of CL_DEVICE_TYPE


class Counts(NamedTuple):
    """What succeeded on one device, in the order of `enum counter` in layer.c.

    Times are nanoseconds. `first_ns` and `last_ns` are when the first and the last command were
    queued, on the clock of `time.monotonic_ns()`, to some milliseconds; 0: never. Maps are counted
    by the direction that the program asked for, whether or not the driver had to copy. `inits` are
    objects that were created with a copy of host data. `unknowns` are commands whose bytes or
    direction are unknown.
    """

    contexts: int
    queues: int
    kernels: int
    writes: int
    write_bytes: int
    reads: int
    read_bytes: int
    maps: int
    map_write_bytes: int
    map_read_bytes: int
    unmaps: int
    copies: int
    copy_bytes: int
    fills: int
    fill_bytes: int
    inits: int
    init_bytes: int
    unknowns: int
    unknown_bytes: int
    finishes: int
    event_waits: int
    blocking_calls: int
    wait_ns: int
    first_ns: int
    last_ns: int
    kernel_ns: int
    copy_ns: int
    timed: int
    untimed: int

    @property
    def bytes_up(self) -> int:
        """Bytes from the host to the device."""
        return self.write_bytes + self.map_write_bytes + self.init_bytes

    @property
    def bytes_down(self) -> int:
        """Bytes from the device to the host."""
        return self.read_bytes + self.map_read_bytes


class CountedDevice(NamedTuple):
    """A device that a program opened, as its OpenCL lists it, and what the program did with it.

    Attributes:
        platform: its index among the platforms; None: unknown.
        device: its own, or its parent's, among the devices of the platform; None: unknown.
        part: which sub-device of one partition it is; None: the device as a whole, or unknown.
        units: compute units, which tell a part of an unknown number from the whole.
    """

    platform: int | None
    device: int | None
    part: int | None
    units: int
    kind: str
    vendor_id: int
    pci: str | None
    uuid: str | None
    name: str
    vendor: str
    platform_name: str
    counts: Counts


class CountedProcess(NamedTuple):
    """One program in one process. A fork, and a program that replaces another, has its own.

    Attributes:
        opened_ns: when it first used OpenCL, on the clock of `time.monotonic_ns()`.
        times: whether device times were asked for.
        devices: none where it looked for devices and opened none.
        unplaced: counts of no known device, or of memory shared by several.
        functions: functions that the driver handed out, and that are not counted.
        function: the name of the first of them.
        loaders: further OpenCL loaders in the process, and forks of it, that could not be counted.
    """

    pid: int
    parent: int
    program: str
    opened_ns: int
    times: bool
    devices: tuple[CountedDevice, ...]
    unplaced: Counts
    functions: int
    function: str
    loaders: int

    @property
    def complete(self) -> bool:
        """Whether all that it did is counted: otherwise zero kernels do not mean "not used"."""
        return not (self.functions or self.loaders or any(self.unplaced))


class Reading(NamedTuple):
    """Every process that left a file, in the order in which they began, and files refused."""

    processes: tuple[CountedProcess, ...]
    refused: tuple[Diagnostic, ...]


def read(folder: Path) -> Reading:
    """Read the files of a run, during it or after it; a file that is not the layer's is refused."""
    processes: list[CountedProcess] = []
    refused: list[Diagnostic] = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            processes.append(_process(path))
        except SourceError as error:
            refused += error.diagnostics
    processes.sort(key=lambda process: process.opened_ns)
    return Reading(tuple(processes), tuple(refused))


def _process(path: Path) -> CountedProcess:
    data = read_bytes(path, "counts of an OpenCL program", _SIZE, own=True)
    layout = _LAYOUT.unpack_from(data.ljust(_LAYOUT.size, b"\0"))
    if len(data) != _SIZE or layout != (_MAGIC, _VERSION, _SIZE, _SLOT.size, _DEVICES):
        place = f"cannot read the counts of an OpenCL program {path!s}"
        if not data:
            raise SourceError(f"{place}: there was no room for them", "free TMPDIR; see ulimit -f")
        message = f"{place}: the file is incomplete, or not the layer's (version {_VERSION})"
        raise SourceError(message, "run it again: what this process did is unknown")
    head = _HEADER.unpack_from(data, _LAYOUT.size)
    pid, parent, times, used, opened, functions, loaders, function, program = head
    values = list(_SLOT.iter_unpack(data[_START:]))
    return CountedProcess(
        pid, parent, _text(program), opened, bool(times),
        tuple(_device(each) for each in values[: min(used, _DEVICES)]), _counts(values[_DEVICES]),
        functions, _text(function), loaders,
    )  # fmt: skip


def _counts(values: tuple[Any, ...]) -> Counts:
    return Counts(*values[: len(Counts._fields)])


def _device(values: tuple[Any, ...]) -> CountedDevice:
    platform, index, part, bits, vendor_id, units, has_pci, has_uuid, *rest = values[_COUNTERS:]
    domain, bus, device, function, uuid, *texts = rest
    pci = f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}" if has_pci else None
    kind = next((kind for bit, kind in _KINDS.items() if bits & bit), "other")
    where: list[Any] = [number if number >= 0 else None for number in (platform, index, part)]
    named: list[Any] = [pci, uuid.hex() if has_uuid else None, *map(_text, texts)]
    return CountedDevice._make([*where, units, kind, vendor_id, *named, _counts(values)])


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace").strip()
