"""Devices that really are there, their machine, the names of a map, and cases to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from gpumap.errors import Diagnostic
from gpumap.model.field_types import (
    Code,
    Count,
    Natural,
    Positive,
    Share,
    SomeId,
    Word,
)
from gpumap.model.maps import Compact, ContextMap, DeviceRef, Kind

Bench = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_-]*\Z")]
CaseName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_+-]*\Z")]
Key = Annotated[str, Meta(pattern=r"\A[a-z_0-9]+\Z")]
Value = Annotated[str, Meta(pattern=r"\A(?:(?![,=\[\]])[ -~])*\Z")]  # would end in an id elsewhere
Params = Mapping[Key, Value | int | float | bool]
Hash = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f.]+\Z")]
Param = str | int | float | bool
ProbeCode = Literal["no-answer", "crashed"]
# Each device with its own part, alone; what the host does; the control product; any other case.
Role = Literal["measured", "solo", "host", "control"]
Lack = Literal["no-library", "no-module", "unloadable", "no-driver", "old-driver"]
# In the names of OpenCL platforms and devices: Oclgrind (github.com/jrprice/Oclgrind), and Intel's
# emulator of its FPGAs. They say that they are accelerators, or everything.
_SIMULATORS = ("oclgrind", "fpga emulation")


class Device(Struct, frozen=True):
    """A device that is really there.

    Attributes:
        id: Unique on this machine.
        kind: Its family.
        ref: As a map writes it.
        name: As its driver calls it.
        backend: The library that drives it.
        pci: PCI bus id.
        uuid: As its driver prints it.
        memory_total: Its memory.
        memory_free: Of it, free when looked at.
        units: Compute units: cores, multiprocessors.
        numa_node: The NUMA node that it is near.
        cores: The logical CPUs that it is, or that are near it.
        hardware: The hardware that it is; devices that share an element share it.
        driver: Its driver and version.
        facts: What else its driver tells, by name: how it is plugged in, what type it is.
    """

    id: str
    kind: Kind
    ref: DeviceRef
    name: str
    backend: Word
    pci: str | None = None
    uuid: str | None = None
    memory_total: Natural | None = field(default=None, name="memory_total_bytes")
    memory_free: Natural | None = field(default=None, name="memory_free_bytes")
    units: Natural | None = None
    numa_node: int | None = None
    cores: tuple[Natural, ...] = ()
    hardware: frozenset[str] = frozenset()
    driver: str | None = None
    facts: Mapping[str, Param] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.id, self.backend))

    @property
    def in_host_memory(self) -> bool:
        """Return whether it works in the host's memory: a core, or what OpenCL makes of some.

        The cores of a device that is plugged in are those near it.
        """
        if self.kind.row.cores:
            return True
        return self.pci is None and (bool(self.cores) or self.facts.get("type") == "other")

    @property
    def accelerator(self) -> bool:
        """Return whether it is a GPU or the like; of OpenCL's devices the driver tells."""
        return self.kind.row.accelerators or self.facts.get("type") == "gpu"

    @property
    def simulated(self) -> bool:
        """Return whether it is a script's, a simulator, or of a library in a driver's place."""
        text = f"{self.name} {self.driver}".lower()
        if self.backend == "fake" or self.facts.get("simulated") is True:
            return True
        return any(part in text for part in _SIMULATORS)


class DeviceLibrary(Struct, frozen=True):
    """A library that was asked for devices.

    Attributes:
        name: As --backend takes it.
        usable: Whether it can be used here.
        version: Its version.
        reason: Why it cannot be used.
        fix: What would fix that.
        notes: What it could not use, and why.
        code: How the process ended that asked, if it gave no answer: no-answer (its driver hangs,
            or compiles), crashed.
    """

    name: Word
    usable: bool
    version: str | None = None
    reason: str | None = None
    fix: str | None = None
    notes: tuple[str, ...] = ()
    code: ProbeCode | None = None


class Probe(DeviceLibrary, frozen=True):
    """A library with what it drives, which a report has once, as its devices.

    Attributes:
        devices: What it drives.
        opened: Ids that a child opened, and why it could not.
        lack: What it does without, where `reason` is that.
    """

    devices: tuple[Device, ...] = ()
    opened: tuple[tuple[str, str], ...] = ()
    lack: Lack | None = None

    @property
    def library(self) -> DeviceLibrary:
        """Return it without its devices."""
        return DeviceLibrary(*(getattr(self, name) for name in DeviceLibrary.__struct_fields__))


class Binding(Compact):
    """A name and the device that it really is."""

    __slots__ = ("device", "name")

    def __init__(self, name: str, device: Device) -> None:
        self.name, self.device = name, device


class Resolution(Struct, frozen=True):
    """A map of which every name was found, and what is worth knowing about it."""

    map: ContextMap
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...] = ()


SHORTEST = 1e-3  # seconds of a sample: a thousand times what a timer resolves


class Work(Struct, frozen=True):
    """What one iteration of a case does.

    Attributes:
        products: Matrix products.
        operations: Of floating point.
        bytes_to_device: Copied to devices; in an exchange, sent.
        bytes_to_host: Copied to the host.
    """

    products: int = 0
    operations: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0


class Reason(Struct, frozen=True):
    """A code and words.

    Attributes:
        code: Stable.
        text: In words.
    """

    code: Code
    text: str


class Case(Struct, frozen=True):
    """A benchmark at one set of parameters on named devices; `id` is free of hardware.

    Attributes:
        bench: The benchmark.
        name: What of it.
        params: Size, type and whatever else it was run with.
        bindings: The names that it ran on, with their devices.
        work: What one iteration does.
        against: The id of the reference.
        skip: Why it cannot be measured here.
        ordered: Whether it is from the first name to the second.
        role: solo, each device with its own part, alone; host, what the host does; control, the
            product that tells how fast the machine is; or any other case.
        swept: Whether it is of the sizes that a model is fitted to.
        then: The id of the case that has to follow `against`: both do its work.
        id: BENCH.CASE[key=value,...]: keys sorted, names joined by + (ordered pairs by >); unique
            in a report, free of hardware. What `compare` joins on and a limit selects by prefix.
    """

    bench: Bench
    name: CaseName
    params: Params
    bindings: tuple[Binding, ...]
    work: Work
    against: SomeId | None = None
    skip: Reason | None = None
    ordered: bool = False
    role: Role = "measured"
    swept: bool = False
    then: SomeId | None = None

    @property
    def is_control(self) -> bool:
        """Return whether it is the control product, which no benchmark has of its own."""
        return self.role == "control"

    @property
    def requested(self) -> bool:
        """Return whether it is neither a control product nor of a sweep of sizes."""
        return not self.is_control and not self.swept

    id: str = ""  # it follows from the others

    def __post_init__(self) -> None:
        structs.force_setattr(self, "id", self._id())

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices that it runs on."""
        return tuple(binding.name for binding in self.bindings)

    @property
    def backend(self) -> str:
        """Return the backends that drive it."""
        return "+".join(dict.fromkeys(binding.device.backend for binding in self.bindings))

    def _id(self) -> str:
        """Return what `compare` joins on: ``dot.one[dtype=float32,names=dev0,size=1024]``."""
        names = (">" if self.ordered else "+").join(name.translate(_SPECIAL) for name in self.names)
        keys = {**self.params, "backend": self.backend, "names": names}
        inside = ",".join(f"{key}={keys[key]}" for key in sorted(keys))
        return f"{self.bench}.{self.name}[{inside}]"


_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})  # would end a name in an id


class Group(Struct, frozen=True):
    """Cases that are compared with each other: every block holds each of them once.

    What the budget has no room for is left out.

    Attributes:
        cases: Its cases.
        key: What its control is measured with.
        order: Places of cases that are measured or left out together, the most important first;
            the others follow as they stand.
        shortest: Seconds of a sample, at least.
        extra: Whether it has only what time the others leave.
        first: Of order: what is measured alone at first, where time is what ends a run.
        insists: Whether its most important cases are measured, however long that takes.
        blocks: At most so many, without a warm-up; 0: as many as there is time for.
    """

    cases: tuple[Case, ...]
    key: str = ""
    order: tuple[tuple[Natural, ...], ...] = ()
    shortest: Positive = field(default=SHORTEST, name="shortest_s")
    extra: bool = False
    first: Natural = 0
    insists: bool = False
    blocks: Natural = 0


class Plan(Struct, frozen=True):
    """What a dry run would have measured.

    Attributes:
        groups: Its cases, in the order of measuring.
        memory: Device id, or host, to what it takes at most.
        largest_buffer: The largest single buffer on a device.
        about: What the cases work on, in words: of a network its layers and how a batch is split.
    """

    groups: tuple[Group, ...]
    memory: Mapping[str, Natural] = field(default_factory=dict, name="memory_bytes")
    largest_buffer: Natural = field(default=0, name="largest_buffer_bytes")
    about: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return every case, in the order of measuring."""
        return tuple(case for group in self.groups for case in group.cases)


class Rank(Struct, frozen=True):
    """A process of a job.

    Attributes:
        number: Among all.
        local: Among those of its machine.
        host: Its machine, as that calls itself.
        process: Its number there.
        binding: Its entry of the map, and its device; null: it has found none.
    """

    number: Natural = field(name="rank")
    local: Natural = field(name="local_rank")
    host: str
    process: Natural
    binding: Binding | None

    @property
    def label(self) -> str:
        """Return the rank's name in messages: ``node/name (rank 1, process 4711)``."""
        name = self.binding.name if self.binding else "?"
        return f"{self.host}/{name} (rank {self.number}, process {self.process})"


class Process(Struct, frozen=True):
    """Another process, and the cores that it kept busy.

    Attributes:
        pid: Its number.
        name: As the process calls itself.
        cores: Cores that it kept busy.
    """

    pid: int
    name: str
    cores: Positive


class Others(Struct, frozen=True):
    """What other processes took of the cores, and the few that took most of it.

    Attributes:
        cores: Cores that they kept busy.
        of: Cores of the machine.
        processes: Those that took most: the name of the program, without arguments.
    """

    cores: Positive
    of: Natural
    processes: tuple[Process, ...]


class State(Struct, frozen=True):
    """How busy the machine was: shares are of all its cores, over the time since the last look.

    Attributes:
        load1: Load average of one minute.
        steal: Share of time that other guests took.
        busy: Share of time that any process worked.
        others: What other processes took of the cores before a run on real devices; null: not
            observed.
    """

    load1: Positive | None
    steal: Share | None
    busy: Share | None
    others: Others | None = None


class LinkState(Struct, frozen=True):
    """What the system tells of a device's link to the host; what it does not tell is None."""

    node: int | None = None  # NUMA node that the device is near
    nodes: tuple[int, ...] = ()  # of the cores that this process may run on; empty: not known
    width: int | None = None  # lanes, as it is now
    max_width: int | None = None


class Fingerprint(Struct, frozen=True):
    """What makes two reports comparable: the same machine with the same libraries.

    Attributes:
        hash: Of all that follows.
        cpu: Model name.
        cores: Logical CPUs.
        os: System and version.
        python: Version.
        libraries: Name to version.
        devices: Their ids.
        drivers: Device or kind to driver.
    """

    hash: Hash
    cpu: str
    cores: Count
    os: str
    python: str
    libraries: Mapping[str, str]
    devices: tuple[str, ...]
    drivers: Mapping[str, str]
