"""The cores of the host as devices; to list them takes no NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model import Device, DeviceRef, Kind

if TYPE_CHECKING:
    from gpumap.machine.topology import Topology

NAME = "numpy"


def cores(topology: Topology) -> tuple[Device, ...]:
    """Return every core by its place in the affinity mask, and all of them as one device."""
    every = tuple(range(len(topology.cpus)))
    each = (_device(topology, DeviceRef(Kind.CPU, n), (n,)) for n in every)
    return (*each, _device(topology, DeviceRef(Kind.CPU), every))


def _device(topology: Topology, ref: DeviceRef, places: tuple[int, ...]) -> Device:
    cpus = [topology.cpus[n] for n in places]
    nodes = {cpu.numa_node for cpu in cpus}
    return Device(
        id="cpu" if ref.index is None else f"cpu:{ref.index}",
        kind=Kind.CPU,
        ref=ref,
        name=topology.model,
        backend=NAME,
        memory_total=topology.memory_total,
        memory_free=topology.memory_available,
        units=len({cpu.hardware for cpu in cpus}),
        numa_node=nodes.pop() if len(nodes) == 1 else None,
        cores=tuple(cpu.index for cpu in cpus),
        hardware=frozenset(cpu.hardware for cpu in cpus),
    )
