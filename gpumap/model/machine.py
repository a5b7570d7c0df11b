"""The machine: how busy it was, how its devices are linked, what tells it from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Process:
    """Another process, and the cores that it kept busy."""

    pid: int | None  # None: of a saved report
    name: str  # as it calls itself: hostile
    cores: float


@dataclass(frozen=True, slots=True)
class Others:
    """What other processes took of the cores, and the few that took most of it."""

    cores: float
    of: int
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class State:
    """How busy the machine was: shares are of all its cores, over the time since the last look."""

    load1: float | None
    steal: float | None
    busy: float | None
    clocks_hz: Mapping[str, float]
    gpus: tuple[GpuState, ...] = ()  # the map's CUDA devices, where NVML tells
    others: Others | None = None  # before a run on real devices


@dataclass(frozen=True, slots=True)
class GpuState:
    """How a CUDA device ran at one moment; what its driver does not tell is None."""

    device: str  # its id
    clocks_hz: Mapping[str, float] = field(default_factory=dict)
    power: float | None = None
    temperature: float | None = None  # degrees Celsius
    throttle: tuple[str, ...] | None = None  # what holds it back; idleness and settings do not


@dataclass(frozen=True, slots=True)
class LinkState:
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


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What makes two reports comparable: the same machine with the same libraries."""

    hash: str
    cpu: str
    cores: int
    os: str
    python: str
    libraries: Mapping[str, str]
    devices: tuple[str, ...]
    drivers: Mapping[str, str]
    links: tuple[str, ...]
