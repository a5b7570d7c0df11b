"""Devices that really are there, and the names that a map gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpumap.model.maps import ContextMap, DeviceRef, Kind

if TYPE_CHECKING:
    from gpumap.errors import Diagnostic

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
    """Whether a backend can be used here; if not, why, and what would mend it."""

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
