"""Where the process of each name runs, and its environment.

A process is bound to the cores of its place when it is started (`launch/process.py`, `_become`),
one of a benchmark by `app/process_job.py`. Nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from gpumap.launch.visibility import visible
from gpumap.machine.topology import pci_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.launch.visibility import Visible
    from gpumap.machine.topology import Cpu, Topology
    from gpumap.model import Binding, Device

    Core = tuple[int, ...]  # the processors of one physical core


class Place(NamedTuple):
    """Where the process of a name is to run, and how that is known, or why it is not."""

    name: str
    device: Device
    node: int | None
    cores: tuple[int, ...]  # logical processors; none: the process is not bound
    threads: int  # physical cores of its share
    why: str


def joined(places: Sequence[Place]) -> Place:
    """Return the place of one process that has the devices and the cores of several names.

    It is bound where each of them would be.
    """
    bound = all(place.cores for place in places)
    cores = {core for place in places for core in place.cores}
    return places[0]._replace(
        name="+".join(place.name for place in places),
        cores=tuple(sorted(cores)) if bound else (),
        threads=sum(place.threads for place in places),
    )


_Near = tuple[int | None, str]  # the node of a device and how it is known, or why it has none


def places(
    bindings: Sequence[Binding], topology: Topology, *, bind: bool = True
) -> tuple[Place, ...]:
    """Return the place of each name's process, in the order of the map.

    A cpu name gets the cores that it resolved to. Devices with a PCI address get the cores of
    their NUMA node, shared evenly with the others of that node: physical cores, without overlap
    as long as there is one for each, and without those of cpu names as long as others are left.

    Args:
        bindings: the names and their devices.
        topology: the processors that this process may run on, and the devices of the PCI bus.
        bind: False: nothing is bound, and that is the reason.
    """
    rest = max(1, len(topology.physical) // max(1, len(bindings)))
    if not bind or not topology.pinnable:
        why = "this system cannot bind a process to cores" if bind else "--no-bind"
        return tuple(_place(b, (None, f"not bound: {why}"), (), rest) for b in bindings)
    near = {b.name: _near(b.device, topology) for b in bindings}
    shares = _shares(bindings, near, topology)
    return tuple(_place(b, near[b.name], shares.get(b.name, ()), rest) for b in bindings)


def _place(binding: Binding, near: _Near, cores: Sequence[Core], rest: int) -> Place:
    every = tuple(sorted(cpu for core in cores for cpu in core))
    return Place(binding.name, binding.device, near[0], every, len(cores) or rest, near[1])


def _near(device: Device, topology: Topology) -> _Near:
    if device.kind.row.cores:
        nodes = {cpu.numa_node for cpu in topology.cpus if cpu.index in device.cores}
        what = "the cores that it is" if len(device.cores) > 1 else "the core that it is"
        why = what if device.cores else "not bound: its backend names no core"
        return nodes.pop() if len(nodes) == 1 else None, why
    if device.in_host_memory:
        return None, "not bound: its driver places its threads itself"
    where = pci_address(device.pci or "")
    known = next((each for each in topology.pci if each.address == where), None)
    if known is None or known.numa_node is None:
        return None, "not bound: the system does not say where this device is"
    if not any(cpu.numa_node == known.numa_node for cpu in topology.cpus):
        note = f"not bound: node {known.numa_node} has no core that this process may run on"
        return known.numa_node, note
    return known.numa_node, "node of its PCI address"


def _shares(
    bindings: Iterable[Binding], near: Mapping[str, _Near], topology: Topology
) -> dict[str, list[Core]]:
    """Return the physical cores of each name that has some: its own, or a share of its node's."""
    found: dict[str, list[Core]] = {}
    taken = set[str]()
    names: defaultdict[int, list[str]] = defaultdict(list)
    for binding in bindings:
        device, node = binding.device, near[binding.name][0]
        if device.kind.row.cores:
            own = _physical(cpu for cpu in topology.cpus if cpu.index in device.cores)
            found[binding.name] = list(own.values())
            taken |= device.hardware
        elif node is not None:
            names[node].append(binding.name)
    for node, sharing in names.items():
        cores = _physical(cpu for cpu in topology.cpus if cpu.numa_node == node)
        free = [core for hardware, core in cores.items() if hardware not in taken]
        found |= _divided(sharing, free or list(cores.values()))
    return found


def _physical(cpus: Iterable[Cpu]) -> dict[str, Core]:
    """Return the processors of each physical core."""
    found: dict[str, Core] = {}
    for cpu in cpus:
        found[cpu.hardware] = (*found.get(cpu.hardware, ()), cpu.index)
    return found


def _divided(names: Sequence[str], cores: Sequence[Core]) -> dict[str, list[Core]]:
    """Return the cores of each name; where there are more names than cores, some have one core."""
    count, total = len(names), len(cores)
    bounds = [n * total // count for n in range(count + 1)]
    return {
        name: list(cores[first : max(last, first + 1)])
        for name, first, last in zip(names, bounds, bounds[1:], strict=False)
    }


TOKEN = "GPUMAP_RUN"  # noqa: S105 - the name of a variable: by its value a run knows its processes


def identity(device: Device) -> str:
    """Return a device as a map may name it, by what stays the same whatever is visible."""
    if "identity" in device.kind.row.forms and (known := device.uuid or device.pci):
        return f"{device.kind}@{known}"
    return str(device.ref)


def inside(place: Place, cores: tuple[int, ...], seen: Visible) -> str:
    """Return the device of a place as it is named in a process that may run on these cores alone.

    None: in one that is not bound. `seen` is what the process may see.
    """
    device = place.device
    if device.kind.row.cores and device.ref.index is not None and place.cores and cores:
        return f"{device.kind}{cores.index(place.cores[0])}"
    return seen.numbered.get(device.id) or identity(device)


def numbered(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables of a rank, as torchrun sets them."""
    own = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
    own |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks))
    return own | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def environment(
    places: Sequence[Place], token: str, given: Mapping[str, str], backend: str | None = None
) -> dict[str, str]:
    """Return the variables of a process that has one name or several, but for those of a rank.

    Args:
        places: where it would run by each of its names.
        token: what identifies the processes of a run.
        given: the environment in which its devices were found.
        backend: what is to drive them, if that was requested.
    """
    whole, seen = joined(places), visible([place.device for place in places], given)
    own_map = (f"{place.name}->{inside(place, whole.cores, seen)}" for place in places)
    found = {"GPUMAP_CONTEXTS": ";".join(own_map), TOKEN: token}
    if len(places) == 1:
        found["GPUMAP_NAME"] = whole.name
    if not given.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = str(whole.threads)
    driven = {"GPUMAP_BACKEND": backend} if backend else {}
    return found | dict(seen.variables) | driven
