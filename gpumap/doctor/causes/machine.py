"""GM3..: the machine gives less than the device could take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.doctor.causes.cause import Cause, Shown
from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.model import Estimate, Kind

if TYPE_CHECKING:
    from gpumap.doctor.evidence import Evidence, Named

_BUSY = 0.5  # cores


def _affinity(known: Evidence, named: Named) -> Shown | None:
    allowed, online = len(known.topology.cpus), known.topology.online
    if named.absent is None or named.kind is not Kind.CPU or named.index is None:
        return None
    if not allowed <= named.index < online:
        return None
    return Shown({"device": named.asked, "allowed": str(allowed), "online": str(online)})


def _quota(known: Evidence, named: Named) -> Shown | None:
    quota = known.topology.quota
    if quota is None or named.device is None or not named.device.in_host_memory or known.fake():
        return None
    on_host = [n.device for n in known.names if n.device and n.device.in_host_memory]
    cores = {element for device in on_host for element in device.hardware}
    if quota >= len(cores):
        return None
    words = {"quota": f"{quota:g}", "cores": str(len(cores))}
    return Shown(words, {"quota": _plain(quota), "cores": _plain(len(cores))})


def _shared(known: Evidence, named: Named) -> Shown | None:
    device = named.device
    if device is None:
        return None
    others = [
        one
        for one in known.names
        if one.device and one.name != named.name and one.device.id != device.id
        and one.device.hardware & device.hardware
    ]  # fmt: skip
    if others and others[0].device:
        hardware = min(others[0].device.hardware & device.hardware)
        return Shown({"who": printable(others[0].name), "what": printable(hardware)})
    together = known.together
    said = together.explanation if together else None
    if together is None or said is None or said.cause != "shared-hardware":
        return None
    if together.speedup.high >= _HALF * together.ideal.value:
        return None
    words = {"who": "others", "what": printable(said.text)}
    return Shown(words, {"speedup": together.speedup, "ideal": together.ideal})


_HALF = 0.75  # of the ideal: what noise alone does not take away


def _busy(known: Evidence, named: Named) -> Shown | None:
    seen = known.others
    if seen is None or named.device is None or not named.device.in_host_memory:
        return None
    if seen.cores < _BUSY:
        return None
    who = ", ".join(f"pid {one.pid} ({printable(one.name)})" for one in seen.processes)
    words = {
        "cores": f"{seen.cores:.2f}",
        "of": str(seen.of),
        "who": who or "processes that cannot be seen from here",
    }
    return Shown(words, {"foreign": _plain(seen.cores)})


def _numa(known: Evidence, named: Named) -> Shown | None:
    link = known.links.get(named.device.id) if named.device else None
    if link is None or link.node is None or not link.nodes or link.node in link.nodes:
        return None
    here = ", ".join(map(str, link.nodes))
    return Shown({"device": named.asked, "node": str(link.node), "here": here})


def _narrow(known: Evidence, named: Named) -> Shown | None:
    link = known.links.get(named.device.id) if named.device else None
    if link is None:
        return None
    if link.width and link.max_width and link.width < link.max_width:
        what = f"{link.width} of {link.max_width} lanes"
    elif link.narrow is not None:
        what = f"{link.narrow[1]} of {link.width} lanes at the bridge {link.narrow[0]}"
    else:
        return None
    return Shown({"device": named.asked, "what": what})


def _plain(value: float) -> Estimate:
    return Estimate(float(value), float(value), float(value), "1")


CAUSES = (
    Cause(
        "GM301", "affinity", "not used", _affinity,
        "this process may run on {allowed} of {online} processors, and {device} is none of them",
        "start it with more (taskset, numactl, docker --cpuset-cpus), or map fewer cores",
        "An affinity mask or a cpuset keeps a process from some cores: it cannot use them, and "
        "does not see them.",
        "The mask of the process is held against the processors that are on.",
        "man 2 sched_setaffinity; man 7 cpuset",
        Exit.ABSENT,
    ),
    Cause(
        "GM302", "quota", "partly", _quota,
        "a cgroup quota leaves {quota} cores for the {cores} that the map uses",
        "raise the quota (docker --cpus, resources.limits.cpu), or map fewer cores",
        "A quota stops a process in every period when its time is used up: all of its cores share "
        "that time.",
        "cpu.max, or cpu.cfs_quota_us, of the process's control groups is read.",
        "Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max",
    ),
    Cause(
        "GM303", "cpu-contention", "partly", _busy,
        "other processes keep {cores} of {of} cores busy: {who}",
        "end them, or wait; then ask again",
        "A core that others use is no core of this program, and its figures are worth little.",
        "The CPU time of all other processes is looked at for half a second, twice if it is much.",
        "man 5 proc, /proc/stat and /proc/PID/stat",
    ),
    Cause(
        "GM304", "shared-hardware", "partly", _shared,
        "it shares hardware with {who} ({what}): together they do what one does",
        "give each name a device of its own: `gpumap check --distinct` tells",
        "Two devices may be one piece of hardware: threads of a core, one card under two "
        "libraries, workers of one pool.",
        "The system's topology and PCI addresses are compared; then a product for each name at "
        "once is timed against the same ones in turn.",
        "gpumap.judge.explain",
    ),
    Cause(
        "GM305", "wrong-numa-node", "partly", _numa,
        "{device} is near NUMA node {node}, and this process runs on node {here}",
        "bind it: numactl --cpunodebind={node} --membind={node}",
        "Copies between a device and the memory of another node cross the link between both "
        "processors.",
        "sysfs tells the device's node, and those of the cores that this process may run on.",
        "Linux, Documentation/ABI/testing/sysfs-bus-pci, numa_node; man 8 numactl",
    ),
    Cause(
        "GM306", "narrow-link", "partly", _narrow,
        "{device} is linked by {what}",
        "put it into another slot, look at the riser and the firmware's bifurcation",
        "A card in a narrow slot, or behind one, moves its bytes that much slower.",
        "sysfs tells the lanes in use and the most that there could be, of the device and of every "
        "bridge above it.",
        "Linux, Documentation/ABI/testing/sysfs-bus-pci, current_link_width",
    ),
)  # fmt: skip
