"""Devices that really are there, the names of a map, and the cases to be measured on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpumap.errors import Diagnostic
from gpumap.model.maps import ContextMap, DeviceRef, Kind

Param = str | int | float | bool
ProbeCode = Literal["no-answer", "still-working", "crashed"]
Lack = Literal["no-library", "no-module", "unloadable", "no-driver", "old-driver"]
# In the names of OpenCL platforms and devices: Oclgrind (github.com/jrprice/Oclgrind), and Intel's
# emulator of its FPGAs. They say that they are accelerators, or everything.
_SIMULATORS = ("oclgrind", "fpga emulation")


@dataclass(frozen=True, slots=True)
class Device:
    """A device that really is there.

    Two devices whose `hardware` shares an element share hardware; `id` is unique on this machine.
    """

    id: str
    kind: Kind
    ref: DeviceRef
    name: str
    backend: str
    pci: str | None = None
    uuid: str | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    units: int | None = None  # compute units: cores, multiprocessors
    numa_node: int | None = None
    cores: tuple[int, ...] = ()  # the logical CPUs that it is, or that are near it
    hardware: frozenset[str] = frozenset()
    driver: str | None = None
    facts: Mapping[str, Param] = field(default_factory=dict, hash=False)  # for its backend alone

    @property
    def in_host_memory(self) -> bool:
        """Return whether it works in the host's memory: a core, or what OpenCL makes of some.

        The cores of a device that is plugged in are those near it.
        """
        if self.kind is Kind.CPU:
            return True
        return self.pci is None and (bool(self.cores) or self.facts.get("type") == "other")

    @property
    def simulated(self) -> bool:
        """Return whether it is a script's, a simulator, or of a library in a driver's place."""
        said = f"{self.name} {self.driver}".lower()
        if self.backend == "fake" or self.facts.get("simulated") is True:
            return True
        return any(word in said for word in _SIMULATORS)


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether a backend can be used here; if not, why, and the fix."""

    name: str
    usable: bool
    version: str | None = None
    reason: str | None = None
    fix: str | None = None
    devices: tuple[Device, ...] = ()
    notes: tuple[str, ...] = ()  # platforms without devices, parts that cannot be used
    code: ProbeCode | None = None  # how the process ended that asked, if it gave no answer
    opened: tuple[tuple[str, str], ...] = ()  # ids that a child opened, and why it could not
    lack: Lack | None = None  # what it does without, where `reason` is that


@dataclass(frozen=True, slots=True)
class Binding:
    """A name and the device that it really is."""

    name: str
    device: Device


@dataclass(frozen=True, slots=True)
class Resolution:
    """A map of which every name was found, and what is worth knowing about it."""

    map: ContextMap
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...] = ()


SHORTEST = 1e-3  # seconds of a sample: a thousand times what a timer resolves


@dataclass(frozen=True, slots=True)
class Work:
    """What one round of a case does."""

    products: int = 0
    operations: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row was skipped or failed: a stable code, and words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark at one set of parameters on named devices; `id` is free of hardware."""

    bench: str
    name: str
    params: Mapping[str, Param]
    bindings: tuple[Binding, ...]
    work: Work
    against: str | None = None  # the id of the reference
    skip: Reason | None = None  # why it cannot be measured here
    route: str | None = None
    ordered: bool = False  # from the first name to the second

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices that it runs on."""
        return tuple(binding.name for binding in self.bindings)

    @property
    def backend(self) -> str:
        """Return the backends that drive it."""
        return "+".join(dict.fromkeys(binding.device.backend for binding in self.bindings))

    @property
    def id(self) -> str:
        """Return what `compare` joins on: ``dot.one[dtype=float32,names=dev0,size=1024]``."""
        names = (">" if self.ordered else "+").join(map(_quoted, self.names))
        keys = {**self.params, "backend": self.backend, "names": names}
        inside = ",".join(f"{key}={keys[key]}" for key in sorted(keys) if key not in _NOT_IN_ID)
        return f"{self.bench}.{self.name}[{inside}]"


_NOT_IN_ID = ("size_name",)  # another word for the bytes
_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})  # would end a name in an id


def _quoted(name: str) -> str:
    return name.translate(_SPECIAL)


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that are compared with each other: every block holds each of them once.

    `order` has the places of cases that are measured or left out together, the most important
    first; the others follow as they stand. What the budget has no room for is left out.
    """

    cases: tuple[Case, ...]
    key: str = ""  # what its control stands beside
    order: tuple[tuple[int, ...], ...] = ()
    shortest: float = SHORTEST  # seconds of a sample, at least
    extra: bool = False  # it has what time the others leave
    first: int = 0  # of `order`: what is measured alone at first, where time is what ends a run
    insists: bool = False  # its most important cases are measured, however long that takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured, and the memory that it takes."""

    groups: tuple[Group, ...]
    memory: Mapping[str, int] = field(default_factory=dict)  # device id, or "host", to bytes
    largest_buffer: int = 0
    about: tuple[str, ...] = ()  # lines on what the cases work on

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return every case, in the order of measuring."""
        return tuple(case for group in self.groups for case in group.cases)
