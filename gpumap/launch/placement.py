"""Where the process of each name runs, and its environment.

A process is bound to the cores of its place when it is started (`launch/process.py`, `_become`),
one of a benchmark by `app/process_job.py`. Nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.launch.visibility import visible
from gpumap.machine.topology import pci_address
from gpumap.model import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.launch.visibility import Visible
    from gpumap.machine.topology import Topology
    from gpumap.model import Binding

    Core = tuple[int, ...]  # the processors of one physical core


_UNPLACED = "not bound: the system does not say where this device is"


@dataclass(frozen=True, slots=True)
class Place:
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
    first, *others = places
    if not others:
        return first
    cores = {core for place in places for core in place.cores}
    bound = all(place.cores for place in places)
    nodes = {place.node for place in places}
    return Place(
        "+".join(place.name for place in places),
        first.device,
        first.node if len(nodes) == 1 else None,
        tuple(sorted(cores)) if bound else (),
        sum(place.threads for place in places),
        first.why if not bound else "the cores of its names",
    )


_Near = tuple[int | None, str]  # the node of a device and how it is known, or why it has none


def places(
    bindings: Sequence[Binding],
    topology: Topology,
    *,
    bind: bool = True,
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
    if not bind:
        return tuple(_unbound(b, None, rest, "not bound: --no-bind") for b in bindings)
    if not topology.pinnable:
        why = "not bound: this system cannot bind a process to cores"
        return tuple(_unbound(b, None, rest, why) for b in bindings)
    near = {b.name: _near(b.device, topology) for b in bindings if not b.device.kind.row.cores}
    shares = _shares(bindings, near, topology)
    found: list[Place] = []
    for binding in bindings:
        if binding.device.kind.row.cores:
            found.append(_on_cores(binding, topology, rest))
            continue
        node, why = near[binding.name]
        cores, note = shares.get(binding.name, ((), ""))
        if cores:
            every = tuple(sorted(cpu for core in cores for cpu in core))
            reasons = "; ".join(filter(None, (why, note)))
            found.append(Place(binding.name, binding.device, node, every, len(cores), reasons))
        else:
            found.append(_unbound(binding, node, rest, why))
    return tuple(found)


def _unbound(binding: Binding, node: int | None, threads: int, why: str) -> Place:
    return Place(binding.name, binding.device, node, (), threads, why)


def _on_cores(binding: Binding, topology: Topology, rest: int) -> Place:
    """Return the place of a cpu name: exactly its cores."""
    device = binding.device
    if not device.cores:
        return _unbound(binding, None, rest, "not bound: its backend names no core")
    cpus = [cpu for cpu in topology.cpus if cpu.index in device.cores]
    nodes = {cpu.numa_node for cpu in cpus}
    node = nodes.pop() if len(nodes) == 1 else None
    what = "the cores that it is" if len(device.cores) > 1 else "the core that it is"
    threads = max(1, len({cpu.hardware for cpu in cpus}))
    return Place(binding.name, device, node, device.cores, threads, what)


def _near(device: Device, topology: Topology) -> _Near:
    if device.in_host_memory:
        return None, "not bound: its driver places its threads itself"
    if device.pci is None:
        return None, "not bound: its driver tells no PCI address"
    where = pci_address(device.pci)
    known = next((each for each in topology.pci if each.address == where), None)
    if known is None:
        return None, "not bound: the system does not list its PCI address"
    if known.numa_node is None:
        return None, f"{_UNPLACED} (node -1)"
    if not any(cpu.numa_node == known.numa_node for cpu in topology.cpus):
        note = f"not bound: node {known.numa_node} has no core that this process may run on"
        return known.numa_node, note
    return known.numa_node, "node of its PCI address"


def _shares(
    bindings: Iterable[Binding], near: Mapping[str, _Near], topology: Topology
) -> dict[str, tuple[list[Core], str]]:
    """Return the physical cores of each name that has a node with some, and what to say of them."""
    of_cpu_names = {core for b in bindings if b.device.kind.row.cores for core in b.device.hardware}
    names: defaultdict[int, list[str]] = defaultdict(list)
    for name, (node_of, _) in near.items():
        if node_of is not None:
            names[node_of].append(name)
    found: dict[str, tuple[list[Core], str]] = {}
    for node, sharing in names.items():
        cores: dict[str, Core] = {}  # physical ones
        for cpu in topology.cpus:
            if cpu.numa_node == node:
                cores[cpu.hardware] = (*cores.get(cpu.hardware, ()), cpu.index)
        free = [core for hardware, core in cores.items() if hardware not in of_cpu_names]
        found |= _divided(sharing, free or list(cores.values()), taken=not free)
    return found


def _divided(
    names: Sequence[str], cores: Sequence[Core], *, taken: bool
) -> dict[str, tuple[list[Core], str]]:
    note = "on cores of cpu names: no others are left" if taken and cores else ""
    count, total = len(names), len(cores)
    if not total:
        return {}
    if count > total:
        few = f"{count} names share {total} core{'s' * (total > 1)}: they overlap"
        reasons = "; ".join(filter(None, (note, few)))
        return {name: ([cores[n * total // count]], reasons) for n, name in enumerate(names)}
    bounds = [n * total // count for n in range(count + 1)]
    return {
        name: (list(cores[first:last]), note)
        for name, first, last in zip(names, bounds, bounds[1:], strict=False)
    }


TOKEN = "GPUMAP_RUN"  # noqa: S105 - the name of a variable: by its value a run knows its processes
_OF_ALL = ("GPUMAP_WORLD", TOKEN, "OMP_NUM_THREADS")  # in one process too


def world_of(places: Iterable[Place]) -> str:
    """Return the whole map, devices by their identity."""
    return ";".join(f"{place.name}->{identity(place.device)}" for place in places)


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


def environment_of_all(
    places: Sequence[Place], token: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of one process that has several names; it is no rank of a job."""
    whole, seen = joined(places), visible([place.device for place in places], given)
    own = environment_of_name(whole, world_of(places), token, given)
    found = {key: value for key, value in own.items() if key in _OF_ALL}
    found["GPUMAP_COUNT"] = str(len(places))
    own_map = (f"{place.name}->{inside(place, whole.cores, seen)}" for place in places)
    return found | {"GPUMAP_CONTEXTS": ";".join(own_map), **seen.variables}


def numbered(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the variables of a rank, as torchrun sets them."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def environment_of_name(
    place: Place, world: str, token: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a process that has one name, without those that number it.

    Args:
        place: where it runs.
        world: the whole map.
        token: what identifies the processes of a run.
        given: the environment in which its device was found.
    """
    seen = visible([place.device], given)
    found = {
        "GPUMAP_NAME": place.name,
        "GPUMAP_DEVICE": identity(place.device),
        "GPUMAP_CONTEXTS": f"{place.name}->{inside(place, place.cores, seen)}",
        "GPUMAP_WORLD": world,
        TOKEN: token,
    }
    if not given.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = str(place.threads)
    return found | dict(seen.variables)
