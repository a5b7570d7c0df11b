"""GM3..: the machine gives less than the device could take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.doctor.causes.cause import IDEAL, Rule, Shown, exact
from gpumap.errors import Exit
from gpumap.model import Kind
from gpumap.text import printable

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
    return Shown(words, {"quota": exact(quota), "cores": exact(len(cores))})


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
    if together.speedup.high >= IDEAL * together.ideal.value:
        return None
    words = {"who": "others", "what": printable(said.text)}
    return Shown(words, {"speedup": together.speedup, "ideal": together.ideal})


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
    return Shown(words, {"foreign": exact(seen.cores)})


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


RULES = {
    "GM301": Rule("not used", _affinity, Exit.ABSENT),
    "GM302": Rule("partly", _quota),
    "GM303": Rule("partly", _busy),
    "GM304": Rule("partly", _shared),
    "GM305": Rule("partly", _numa),
    "GM306": Rule("partly", _narrow),
}
