"""The machine: its load, links and fingerprint, and the processes of a job with their devices."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from gpumap.model.devices import Binding
from gpumap.model.types import Count, Hash, Natural, Number, Positive, Share


class Rank(Struct, frozen=True, rename={"number": "rank", "local": "local_rank"}):
    """A process of a job.

    Attributes:
        number: Among all.
        local: Among those of its machine.
        host: Its machine, as that calls itself.
        process: Its number there.
        binding: Its device and the name of it; None: it has found none.
        name: Its entry of the map; null: it has found no device.
        device: The id of its device; null as above.
    """

    number: Natural
    local: Natural
    host: str
    process: Natural
    binding: Binding | None


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


class GpuState(Struct, frozen=True, rename={"power": "power_w", "temperature": "temperature_c"}):
    """How a CUDA device ran at one moment; what its driver does not tell is None.

    Attributes:
        device: Its id.
        clocks_hz: Clock (sm, memory) to its rate.
        power: What it takes, in watts.
        temperature: Of the chip, in degrees Celsius.
        throttle: What holds its clocks back, in words; being idle and clocks that someone has set
            are not counted.
    """

    device: str
    clocks_hz: Mapping[str, Positive] = field(default_factory=dict)
    power: Positive | None = None
    temperature: Number | None = None
    throttle: tuple[str, ...] | None = None


class State(Struct, frozen=True):
    """How busy the machine was: shares are of all its cores, over the time since the last look.

    Attributes:
        load1: Load average of one minute.
        steal: Share of time that other guests took.
        busy: Share of time that any process worked.
        clocks_hz: Device to clock.
        gpus: The map's CUDA devices, where NVML tells of them.
        others: What other processes took of the cores before a run on real devices; null: not
            observed.
    """

    load1: Positive | None
    steal: Share | None
    busy: Share | None
    clocks_hz: Mapping[str, Number]
    gpus: tuple[GpuState, ...] = ()
    others: Others | None = None


class LinkState(Struct, frozen=True):
    """What the system tells of a device's link to the host; what it does not tell is None."""

    node: int | None = None  # NUMA node that the device is near
    nodes: tuple[int, ...] = ()  # of the cores that this process may run on; empty: not known
    core_node: int | None = None  # of the core that it ran on last
    bridges: tuple[str, ...] | None = None  # PCI addresses above the device, the root's first
    width: int | None = None  # lanes, as it is now
    max_width: int | None = None
    speed: float | None = None  # transfers per second and lane, as it is now
    max_speed: float | None = None
    narrow: tuple[str, int] | None = None  # a bridge with fewer lanes than the device, and those
    translated: bool | None = None  # whether an IOMMU translates the addresses that it copies to
    translated_by: str = ""  # how that is known, or why not


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
        links: How devices are connected.
    """

    hash: Hash
    cpu: str
    cores: Count
    os: str
    python: str
    libraries: Mapping[str, str]
    devices: tuple[str, ...]
    drivers: Mapping[str, str]
    links: tuple[str, ...]
