"""The likely reasons for a copy that reaches less than 30 % of what its link can carry.

They are an explanation of the row, and not a remark of one format alone, so that JSON has them too:
they hold for the moment of measuring, and a saved report cannot ask the system again. Each reason
was checked, or says why it cannot be; those that speak for it come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpumap.bench.keys import CopyKey
from gpumap.bench.registry import specified
from gpumap.escape import printable
from gpumap.judge.few import few
from gpumap.model import Estimate, Explanation, LinkState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumap.model import Ceiling, Measurement

CAUSE: Final = "slow-link"
SHARE = 0.3  # of the ceiling
BYTES = 1 << 20  # of smaller copies latency takes its part
_REPORTED = "reported: "
_GIGA = 1e9
_BITS = 8  # of a byte, at least: encoding takes more
_UNKNOWN = LinkState(translated_by="not checked")


@dataclass(frozen=True, slots=True)
class Finding:
    """What may make a link slow; whether it does here, None if unknown; the evidence."""

    topic: str
    likely: bool | None
    seen: str

    def words(self, name: str) -> str:
        """Return the reason as a part of a sentence; `name` is empty where it needs none."""
        of = f" of {name}" if name else ""
        checked = "cannot be checked here" if self.likely is None else "checked"
        return f"{self.topic}{of}: {checked}: {self.seen}"


def slow(row: Measurement, states: Callable[[], Mapping[str, LinkState]]) -> Explanation | None:
    """Return why a row is far below the bandwidth of its links; None if it is not.

    Args:
        row: a copy of host memory, with its ceiling.
        states: looks at the links, by the device's id.
    """
    top = row.ceiling
    if top is None or top.metric != "bandwidth" or top.share >= SHARE or few(row):
        return None
    if CopyKey.of(row.case).bytes < BYTES:
        return None
    found = sorted(_findings(row, states()), key=_rank)
    said = "; ".join(finding.words(name) for name, finding in found)
    source = printable(top.source.removeprefix(_REPORTED))
    return Explanation(CAUSE, f"less than {SHARE:.0%} of {source}. {said}", _figures(row, top))


def _figures(row: Measurement, top: Ceiling) -> dict[str, Estimate]:
    most = Estimate(top.value, top.value, top.value, top.unit)
    share = Estimate(top.share, top.share, top.share, "1")
    return {"bandwidth": row.metrics["bandwidth"], "ceiling": most, "share": share}


def _rank(named: tuple[str, Finding]) -> int:
    """Return the place of a reason: what is the case, what is not known, what is not the case."""
    return (True, None, False).index(named[1].likely)


def _findings(row: Measurement, states: Mapping[str, LinkState]) -> Iterator[tuple[str, Finding]]:
    names = {binding.device.id: printable(binding.name) for binding in row.case.bindings}
    ways = 2 if specified(row.case).both_ways else 1
    carried = row.metrics["bandwidth"].value / (ways * len(names))
    yield "", _pageable(CopyKey.of(row.case).memory)
    for id_, name in names.items():
        state = states.get(id_, _UNKNOWN)
        for finding in (_node(state), _width(state), _speed(state, carried), _iommu(state)):
            yield (name if len(names) > 1 else ""), finding


def _pageable(memory: str) -> Finding:
    if memory == "pageable":
        seen = "it is, and a driver copies such bytes once more, into memory of its own"
        return Finding("pageable memory", likely=True, seen=seen)
    return Finding("pageable memory", likely=False, seen=f"it is {memory}")


def _node(state: LinkState) -> Finding:
    """Return whether bytes come from the memory of another processor."""
    near, nodes = state.node, state.nodes
    if near is None or not nodes:
        what = "the device's node" if near is None else "the nodes of the cores"
        return Finding("NUMA", None, f"the system does not tell {what}")
    if near not in nodes:
        seen = f"the device is near node {near}, and no core of this process is"
        return Finding("NUMA", likely=True, seen=f"{seen}: numactl --cpunodebind={near}")
    if state.core_node not in (None, near):
        seen = f"the device is near node {near}, and the process ran on node {state.core_node}"
        return Finding("NUMA", likely=True, seen=f"{seen}: numactl --cpunodebind={near}")
    if len(nodes) > 1 and state.core_node is None:
        return Finding(
            "NUMA", None, f"the device is near node {near}, the process may run on others"
        )
    return Finding("NUMA", likely=False, seen=f"the device and the process are on node {near}")


def _width(state: LinkState) -> Finding:
    """Return whether lanes are missing, at the device or above it."""
    if state.width is None or state.max_width is None:
        return Finding("link width", None, "the system does not tell it")
    if state.width < state.max_width:
        seen = f"x{state.width} of x{state.max_width}: look at the slot, or a riser"
        return Finding("link width", likely=True, seen=seen)
    if state.narrow is not None:
        address, lanes = state.narrow
        seen = f"x{state.width}, but the bridge {printable(address)} above has x{lanes}"
        return Finding("link width", likely=True, seen=seen)
    return Finding("link width", likely=False, seen=f"all of x{state.max_width}")


def _speed(state: LinkState, carried: float) -> Finding:
    """Return whether the link is slower than it can be.

    It slows down when copies end: then it has `carried` more, in B/s one way, than it could now.
    """
    if state.speed is None or state.max_speed is None:
        return Finding("link speed", None, "the system does not tell it")
    now, most = (f"{speed / _GIGA:g}" for speed in (state.speed, state.max_speed))
    if state.speed >= state.max_speed:
        return Finding("link speed", likely=False, seen=f"all of {most} GT/s")
    if state.width and carried > state.speed * state.width / _BITS:
        return Finding("link speed", likely=False, seen=f"{now} of {most} GT/s, but only when idle")
    return Finding("link speed", likely=True, seen=f"{now} of {most} GT/s, right after the copies")


def _iommu(state: LinkState) -> Finding:
    """Return whether each address that is copied to or from is translated first."""
    by = printable(state.translated_by)
    if state.translated is None:
        return Finding("IOMMU", None, by)
    if state.translated:
        return Finding("IOMMU", likely=True, seen=f"it translates ({by}): iommu=pt does not")
    return Finding("IOMMU", likely=False, seen=f"it does not translate ({by})")
