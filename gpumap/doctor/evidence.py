"""The evidence of every diagnosis, read and measured, and the rules on it.

Nothing here gathers anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gpumap.errors import Diagnostic, Exit
from gpumap.machine.cuda import CudaDriver
from gpumap.machine.nvml import GpuHealth
from gpumap.model import Device, DeviceRef, Estimate, LinkState, MapText, Others, Probe, Reason
from gpumap.units import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.config import Setting
    from gpumap.doctor.screening import StepResult
    from gpumap.machine.topology import Topology
    from gpumap.model import DoctorVerdict, Kind

    Texts = Mapping[str, str]  # the sign of a cause: the fields of its text and fix
    Signs = Iterator[Texts]
    Test = Callable[["Evidence", "MapName"], Signs]

BUSY = 0.5  # cores that others use: so many are read again, and then are a cause


@dataclass(frozen=True, slots=True)
class Health:
    """Answers of NVIDIA's drivers and the kernel."""

    driver: CudaDriver | None = None  # None: there is none, or it was not asked
    gpus: tuple[GpuHealth, ...] | None = None  # None: NVML does not answer
    nvml: str | None = None  # why not
    code: int | None = None  # NVML's own, of nvml.h
    silent: str | None = None  # why there is no answer at all: it hung, or crashed
    hangs: bool = False
    xids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    log: str | None = None  # why the kernel's log cannot be read
    names: Mapping[int, str] = field(default_factory=dict)  # of processes, by their numbers

    def of(self, device: Device) -> GpuHealth | None:
        """Return what NVML says of a device."""
        gpus = self.gpus or ()
        by_place = (one for one in gpus if one.gpu.pci and one.gpu.pci == device.pci)
        by_uuid = (one for one in gpus if one.gpu.uuid and one.gpu.uuid == device.uuid)
        return next(by_place, None) or next(by_uuid, None)

    def users(self, gpu: GpuHealth) -> list[str]:
        """Return the processes of others on a device, as text."""
        return [
            f"pid {pid} {self.names.get(pid, '')}".strip() + (f" ({memory(used)})" if used else "")
            for pid, used in (gpu.processes or {}).items()
        ]


@dataclass(frozen=True, slots=True)
class MapName:
    """A name of the map, its device or why there is none, and what the probes on it measured.

    figures: launch, setup, product, host_product, double and waiting in s; bandwidth in B/s.
    What could not be measured is not there; `failure` says why the probes ended early.
    """

    name: str
    ref: DeviceRef
    device: Device | None = None
    absent: Diagnostic | None = None
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    failure: Reason | None = None


class Evidence(NamedTuple):
    """The evidence on one machine and one map."""

    topology: Topology
    source: MapText | None = None  # None: there is no map; its names are a default
    problems: tuple[Diagnostic, ...] = ()  # why the map cannot be read
    variables: Mapping[str, str] = {}  # of the environment, those that count
    theano: Mapping[str, Setting] = {}  # its options
    unreadable: Diagnostic | None = None  # why its settings cannot be read
    probes: tuple[Probe, ...] = ()
    nvidia: Health = Health()
    denied: tuple[str, ...] = ()  # files of devices that this process may not open
    others: Others | None = None
    links: Mapping[str, LinkState] = {}  # by the device's id
    names: tuple[MapName, ...] = ()
    at_once: StepResult | None = None  # of all devices: what limits them

    def of_kind(self, kind: Kind) -> tuple[Device, ...]:
        """Return every device of a kind that a backend found."""
        return tuple(d for probe in self.probes for d in probe.devices if d.kind is kind)

    def fake(self) -> bool:
        """Return whether the devices are a script's: the machine's own facts are none of theirs."""
        return any(probe.name == "fake" for probe in self.probes)


class Rule(NamedTuple):
    """The test of a cause, and its consequences.

    verdict: of a name with this cause; `used` makes it a note, and no cause. test: yields
        its sign, of several the one to be told first. exit: the exit code of the run.
    last: whether it counts only where no other cause explains a missing device.
    """

    verdict: DoctorVerdict
    test: Test
    exit: Exit = Exit.NO
    last: bool = False


def failed(named: MapName, *codes: str) -> Signs:
    """Yield why the probes of a name ended, if it is one of these codes."""
    if named.failure is not None and named.failure.code in codes:
        yield {"what": named.failure.text}


def limited(known: Evidence, named: MapName, code: str) -> Signs:
    """Yield what limits all devices at once, that of a name among them, if it is of this code."""
    limit = known.at_once
    if named.device is not None and limit is not None and limit.code == code:
        yield {"who": "others", "what": limit.text}


def problem(found: Diagnostic, fix: str = "") -> Texts:
    """Return a diagnostic as a sign, with another fix where it has none."""
    return {"what": found.message, "fix": found.hint or fix}
