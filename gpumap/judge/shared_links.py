"""Explain concurrent copies: N devices with separate links move N times what one does.

Copies both ways on one device are 2 times as fast as one after the other, at best. Below 90 % of
that a row has a cause. What accounts for all of the time is tried first, then what is known for
sure, and last what is left over: a link is only blamed for time in which bytes move, as
calls and waiting need no link. A link that carries one way at a time has a cause of its own,
half-duplex: in host memory that is normal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.bench.registry import specified
from gpumap.judge.bottlenecks import MAIN, SLOWER, Concurrent, contended, seconds, time_of
from gpumap.judge.ceilings import ENOUGH
from gpumap.model import Estimate, Explanation, LinkState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Cause, Device

    Finding = tuple[str, dict[str, Estimate]]

_MOVING = 0.5  # of a copy's time: with less, it is not the bytes that take it
_NAMED = 4  # names that are written out


@dataclass(frozen=True, slots=True)
class Copies(Concurrent):
    """Concurrent copies, and each of them isolated: by name, or by direction if both ways."""

    isolated: Mapping[str, float]  # seconds of one copy, waited for
    moving: Mapping[str, float]  # seconds of one copy more, in a queue
    calls: Mapping[str, float]  # seconds in which the host hands over one of those
    bandwidth: Mapping[str, Estimate]  # of one copy, waited for
    states: Callable[[], Mapping[str, LinkState]]  # reads the state of the links, by device id

    @property
    def both_ways(self) -> bool:
        """Return whether it is one device, and its copies go both ways."""
        return bool(specified(self.row.case).both_ways)

    @property
    def gain(self) -> Estimate:
        """Return what all at once move over what one does."""
        return self.row.metrics["speedup"]

    @property
    def slowest(self) -> float:
        """Return the seconds of the slowest isolated copy: all at once take no less."""
        return max(self.isolated.values())

    @property
    def ideal(self) -> float:
        """Return the gain where nothing is shared, as the slowest device allows it."""
        times = list(self.isolated.values())
        whole = sum(times) if self.both_ways else len(times) * times[0]
        return whole / self.slowest if self.slowest > 0.0 else float(len(times))


def shared(evidence: Copies) -> Explanation | None:
    """Return why copies at once gain less than they could; None where they gain enough."""
    best = evidence.ideal if evidence.both_ways else float(len(evidence.bindings))
    if evidence.gain.high >= ENOUGH * best:
        return None
    for cause, find in _BOTH_WAYS if evidence.both_ways else _AT_ONCE:
        if (why := find(evidence)) is not None:
            return Explanation(cause, f"{_gained(evidence)}: {why[0]}", _base(evidence) | why[1])
    return None


def _base(evidence: Copies) -> dict[str, Estimate]:
    """Return the figures that every cause uses: the gain, and its bandwidths."""
    figures = {"gain": evidence.gain, "together": evidence.row.metrics["bandwidth"]}
    if evidence.both_ways:
        there, back = evidence.bandwidth.values()
        return figures | {"there": there, "back": back}
    first = evidence.bandwidth[evidence.row.case.names[0]]
    return figures | {"names": Estimate.exact(len(evidence.bindings)), "alone": first}


def _gained(evidence: Copies) -> str:
    """Return the text of the gain; both ways without the value, which differs by name."""
    if evidence.both_ways:
        return f"both ways at once are below {2 * ENOUGH:g} times one after the other"
    count = len(evidence.bindings)
    distinct = len({binding.device.id for binding in evidence.bindings}) == count
    what = "devices" if distinct else "names"
    return f"{count} {what} at once move {evidence.gain.value:.2f} times what one does"


def _one_hardware(evidence: Copies) -> Finding | None:
    """Names share hardware, by its identity or the system's topology."""
    groups = evidence.holders(lambda device: device.hardware)
    if not groups:
        return None
    element, names = min(groups, key=lambda each: (-len(each[1]), each[0]))  # as `explain` names it
    what = "the cores that copy" if evidence.on_host else "a link"
    return f"they share {what}: {_and(names)} are one piece of hardware ({element})", {}


def _one_address(evidence: Copies) -> Finding | None:
    """Parts of one card, which are hardware of their own: instances of MIG."""
    groups = evidence.holders(lambda device: (device.pci,) if device.pci else ())
    if not groups:
        return None
    address, names = max(groups, key=lambda each: (len(each[1]), each[0]))
    return f"they share a link: {_and(names)} are parts of one card ({address})", {}


def _unequal(evidence: Copies) -> Finding | None:
    """The slowest copy sets the time, and is as slow if isolated."""
    times = evidence.isolated
    slow, fast = (pick(times, key=times.__getitem__) for pick in (max, min))
    if evidence.gain.high < ENOUGH * evidence.ideal or times[slow] < SLOWER * times[fast]:
        return None
    text = (
        f"alone {slow} takes {time_of(times[slow])} and {fast} "
        f"{time_of(times[fast])}, and all end with the slowest"
    )
    return text, {"slowest": seconds(times[slow]), "fastest": seconds(times[fast])}


def _waiting(evidence: Copies) -> Finding | None:
    """Most of a copy's time, even if isolated, no byte moves: then no link is the limit."""
    part = max(evidence.isolated, key=evidence.isolated.__getitem__)
    isolated, moving = evidence.isolated[part], evidence.moving.get(part)
    if moving is None or moving >= _MOVING * isolated:
        return None
    text = (
        f"of {time_of(isolated)} that a copy takes alone ({part}), moving it takes "
        f"{time_of(moving)}; the rest are calls and waiting, and one host does them for all"
    )
    return text, {"copy": seconds(isolated), "moving": seconds(moving)}


def _busy(evidence: Copies) -> Finding | None:
    """Other processes, or other machines on the same hardware, had the cores that copy."""
    return evidence.busy(len(evidence.bindings) - evidence.gain.value)


def _slower(evidence: Copies) -> Finding | None:
    """At once they take longer than one after the other, which no shared link can cause."""
    whole = sum(evidence.isolated.values())
    if evidence.gain.high >= 1.0 or evidence.time <= whole:
        return None
    text = (
        f"at once they take {time_of(evidence.time)}, one after the other {time_of(whole)}; the "
        "rest are calls and waiting, and one host does them for all"
    )
    return text, {"time": seconds(evidence.time), "copy": seconds(whole)}


def _calls(evidence: Copies) -> Finding | None:
    """The host hands over one copy after the other, and a call takes as long as a copy."""
    calls = evidence.calls.values()
    shortfall = evidence.time - evidence.slowest
    if len(calls) < len(evidence.isolated) or shortfall <= 0.0:
        return None
    if sum(calls) - max(calls) < MAIN * shortfall:
        return None
    text = (
        f"the host's calls take {time_of(sum(calls))} of {time_of(evidence.time)}, one after the "
        "other: a driver may copy inside of its call"
    )
    return text, {"calls": seconds(sum(calls)), "time": seconds(evidence.time)}


def _link(evidence: Copies) -> Finding | None:
    """Concurrent copies take longer than isolated ones: they share a link."""
    if evidence.on_host:
        return "they share the bandwidth of the host's memory: no link is in between", {}
    states = evidence.states()
    bridge = _bridge(evidence, states)
    if bridge is not None:
        address, names = bridge
        return f"they share a link: {address} is upstream of {_and(names)}", {}
    nodes = {_numa_node(binding.device, states) for binding in evidence.bindings}
    node = nodes.pop() if len(nodes) == 1 else None
    where = "" if node is None else f": all are near NUMA node {node}"
    return f"they share a link, or the host's memory{where}", {}


def _one_way(evidence: Copies) -> Finding | None:
    """The link carries one way at a time."""
    if evidence.on_host:
        return "both are copies in the host's own memory, where that is normal", {}
    return "the link, a copy engine or the host's memory carries one way at a time", {}


# Cause -> how it is found, in this order; the last one is left over.
_AT_ONCE: tuple[tuple[Cause, Callable[[Copies], Finding | None]], ...] = (
    ("cpu-contention", lambda evidence: contended(evidence.row)),
    ("unequal-devices", _unequal),  # the slowest takes all of the time: who shares adds none
    ("shared-link", _one_hardware),
    ("shared-link", _one_address),
    ("synchronisation", _waiting),
    ("cpu-contention", _busy),
    ("serialised", _calls),
    ("synchronisation", _slower),
    ("shared-link", _link),
)
_BOTH_WAYS: tuple[tuple[Cause, Callable[[Copies], Finding | None]], ...] = (
    ("cpu-contention", lambda evidence: contended(evidence.row)),
    ("synchronisation", _waiting),
    ("serialised", _calls),
    ("half-duplex", _one_way),
)


def _bridge(evidence: Copies, states: Mapping[str, LinkState]) -> tuple[str, list[str]] | None:
    """Return the bridge upstream of most names, and of those the closest."""

    def above(device: Device) -> tuple[str, ...]:
        state = states.get(device.id)
        return (state.bridges or ()) if state else ()

    groups = evidence.holders(above)
    most = max((len(names) for _, names in groups), default=0)
    return next((each for each in reversed(groups) if len(each[1]) == most), None)


def _numa_node(device: Device, states: Mapping[str, LinkState]) -> int | None:
    state = states.get(device.id)
    return state.node if state and state.node is not None else device.numa_node


def _and(names: Sequence[str]) -> str:
    *others, last = names
    if len(names) > _NAMED:
        return f"{', '.join(others[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return f"{', '.join(others)} and {last}"
