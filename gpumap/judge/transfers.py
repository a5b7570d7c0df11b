"""Explain copies that are slower than their links allow: at most one cause for each row.

In this order: concurrent copies compared with isolated ones (`gpumap.judge.shared_links`), pairs
with the other pairs of their group (`outlier_pairs`), each row with its link (`slow`). A group has
one route, mode and size, and one kind of link as far as that is known (PCIe's generation and lanes
at either end). A pair is an outlier where its whole interval is below 90 %, or above 1/90 %, of the
group's median.

The likely reasons for a copy that reaches less than 30 % of what its link can carry are an
explanation of the row, and not a remark of one format alone, so that JSON has them too: they hold
for the time of measuring, and a saved report cannot read the system again. Each reason was
checked, or says why it cannot be; those that apply come first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.keys import CopyKey
from gpumap.bench.registry import is_control, specified
from gpumap.judge.bottlenecks import contended
from gpumap.judge.ceilings import too_few
from gpumap.judge.shared_links import Copies, shared
from gpumap.model import Estimate, Explanation, LinkState, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap.bench.registry import Look
    from gpumap.model import Binding, Measurement

    States = Callable[[], Mapping[str, LinkState]]

_FEWEST = 3  # of two pairs either may be the outlier
_BELOW = 0.9
_ABOVE = 1 / _BELOW
CAUSES = ("shared-link", "half-duplex", "odd-pair", "slow-link")  # besides those of `explain`
_WAYS = ("h2d", "d2h")
SHARE = 0.3  # of the ceiling
BYTES = 1 << 20  # of smaller copies latency takes its part
_REPORTED = "reported: "
_GIGA = 1e9
_BITS = 8  # of a byte, at least: encoding takes more
_UNKNOWN = LinkState(translated_by="not checked")


def outlier_pairs(rows: Iterable[Measurement]) -> dict[str, Explanation]:
    """Return the outliers of each group, by row id, with both bandwidths."""
    groups: defaultdict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        known = row.case.name == "d2d" and row.status == "ok" and "bandwidth" in row.metrics
        if known and row.metrics["bandwidth"].has_interval:
            groups[_sort(row)].append(row)
    return {
        row.case.id: _outlier(row, middle)
        for group in groups.values()
        if len(group) >= _FEWEST
        for middle in [median(row.metrics["bandwidth"].value for row in group)]
        for row in group
        for figure in [row.metrics["bandwidth"]]
        if figure.high < _BELOW * middle or figure.low > _ABOVE * middle
    }


def _sort(row: Measurement) -> tuple[object, ...]:
    copy = CopyKey.of(row.case)
    links = sorted(map(_link, row.case.bindings))
    return row.route, copy.bytes, copy.mode, copy.pattern, *links


def _link(binding: Binding) -> tuple[str, ...]:
    device = binding.device
    facts = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
    return device.backend, str(device.kind), *map(str, facts)


def _outlier(row: Measurement, middle: float) -> Explanation:
    figure = row.metrics["bandwidth"]
    pair, group = (units.together((value,), figure.unit)[0] for value in (figure.value, middle))
    text = f"{'->'.join(row.case.names)}: {pair}, its group {group}"
    nodes = [binding.device.numa_node for binding in row.case.bindings]
    if None not in nodes and len(set(nodes)) > 1:
        text += f" (across NUMA nodes {' and '.join(map(str, nodes))})"
    figures = {"pair": figure, "group": Estimate.exact(middle, figure.unit)}
    return Explanation("odd-pair", text, figures)


def copies_explained(rows: Sequence[Measurement], look: Look) -> list[Measurement]:
    """Return the rows of a group, each copy that is too slow with its cause.

    A row with too few samples for an interval has none, and none rests on it.

    Args:
        rows: all rows of the group: a copy is explained by others of its size.
        look: reads the state of the links; only if a row is too slow, and once.
    """
    copies = [row for row in rows if not is_control(row.case) and row.status == "ok"]
    copies = [row for row in copies if not too_few(row)]
    devices = {b.device.id: b.device for row in copies for b in row.case.bindings}
    states = cache(lambda: look(devices.values()))
    outliers, isolated = outlier_pairs(copies), _Isolated(copies)
    whys = {row.case.id: _why(row, isolated, outliers, states) for row in copies}
    return [replace(row, explanation=whys.get(row.case.id) or row.explanation) for row in rows]


class _Isolated:
    """Isolated copies by direction, device, memory, size and mode."""

    def __init__(self, rows: Iterable[Measurement]) -> None:
        self._rows = {
            _key(row.case.name, row.case.bindings[0], copy, copy.mode): row
            for row, copy in ((row, CopyKey.of(row.case)) for row in rows if row.case.name in _WAYS)
            if copy.pattern == "alone" and not too_few(row)
        }

    def find(self, row: Measurement, way: str, binding: Binding, mode: str) -> Measurement | None:
        """Return the isolated copy that equals one of a row's; of several names the first."""
        return self._rows.get(_key(way, binding, CopyKey.of(row.case), mode))


def _key(way: str, binding: Binding, copy: CopyKey, mode: str) -> tuple[str | int, ...]:
    return way, binding.device.id, copy.memory, copy.bytes, mode


def _why(
    row: Measurement, isolated: _Isolated, outliers: Mapping[str, Explanation], states: States
) -> Explanation | None:
    evidence = _evidence(row, isolated, states) if "speedup" in row.metrics else None
    if (explanation := shared(evidence) if evidence is not None else None) is not None:
        return explanation
    if contended(row) is not None:
        return None  # under CPU contention no other cause is sure
    return outliers.get(row.case.id) or slow(row, states)


def _evidence(row: Measurement, isolated: _Isolated, states: States) -> Copies | None:
    """Return the evidence on a row; None where an isolated copy was not measured."""
    case, bindings = row.case.name, row.case.bindings
    parts = {way: (way, bindings[0]) for way in _WAYS}
    if case != "bidir":
        parts = {binding.name: (case, binding) for binding in bindings}
    waited = {part: isolated.find(row, *place, "sync") for part, place in parts.items()}
    queued = {part: isolated.find(row, *place, "queued") for part, place in parts.items()}
    known = {part: one for part, one in waited.items() if one is not None}
    more = {part: one for part, one in queued.items() if one is not None}
    if len(known) < len(parts):
        return None
    return Copies(
        row,
        {part: one.metrics["time"].value for part, one in known.items()},
        {part: one.metrics["issue_interval"].value for part, one in more.items()},
        {part: median(one.samples.queue) for part, one in more.items()
         if one.samples and one.samples.queue},
        {part: one.metrics["bandwidth"] for part, one in known.items()},
        states,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """A possible reason for a slow link; whether it applies, None if unknown; the fact."""

    topic: str
    likely: bool | None
    fact: str

    def text(self, name: str) -> str:
        """Return the reason as a part of a sentence; `name` is empty where it needs none."""
        of = f" of {name}" if name else ""
        checked = "cannot be checked here" if self.likely is None else "checked"
        return f"{self.topic}{of}: {checked}: {self.fact}"


def slow(row: Measurement, states: Callable[[], Mapping[str, LinkState]]) -> Explanation | None:
    """Return why a row is far below the bandwidth of its links; None if it is not.

    Args:
        row: a copy of host memory, with its ceiling.
        states: reads the state of the links, by device id.
    """
    top = row.ceiling
    if top is None or top.metric != "bandwidth" or top.share >= SHARE or too_few(row):
        return None
    if CopyKey.of(row.case).bytes < BYTES:
        return None
    # what is the case, what is not known, what is not the case
    findings = sorted(
        _findings(row, states()), key=lambda f: (True, None, False).index(f[1].likely)
    )
    reasons = "; ".join(finding.text(name) for name, finding in findings)
    source = top.source.removeprefix(_REPORTED)
    figures = {
        "bandwidth": row.metrics["bandwidth"],
        "ceiling": Estimate.exact(top.value, top.unit),
        "share": Estimate.exact(top.share),
    }
    return Explanation("slow-link", f"less than {SHARE:.0%} of {source}. {reasons}", figures)


def _findings(row: Measurement, states: Mapping[str, LinkState]) -> Iterator[tuple[str, Finding]]:
    names = {binding.device.id: binding.name for binding in row.case.bindings}
    ways = 2 if specified(row.case).both_ways else 1
    carried = row.metrics["bandwidth"].value / (ways * len(names))
    memory = CopyKey.of(row.case).memory
    pageable, fact = memory == "pageable", f"it is {memory}"
    if pageable:
        fact = "it is, and a driver copies such bytes once more, into memory of its own"
    yield "", Finding("pageable memory", pageable, fact)
    for id_, name in names.items():
        state = states.get(id_, _UNKNOWN)
        for finding in (_node(state), _width(state), _speed(state, carried), _iommu(state)):
            yield (name if len(names) > 1 else ""), finding


def _node(state: LinkState) -> Finding:
    """Return whether bytes come from the memory of another processor."""
    node, nodes = state.node, state.nodes
    if node is None or not nodes:
        what = "the device's node" if node is None else "the nodes of the cores"
        return Finding("NUMA", None, f"the system does not tell {what}")
    if node not in nodes:
        fact = f"the device is near node {node}, and no core of this process is"
        return Finding("NUMA", likely=True, fact=f"{fact}: numactl --cpunodebind={node}")
    if state.core_node not in (None, node):
        fact = f"the device is near node {node}, and the process ran on node {state.core_node}"
        return Finding("NUMA", likely=True, fact=f"{fact}: numactl --cpunodebind={node}")
    if len(nodes) > 1 and state.core_node is None:
        return Finding(
            "NUMA", None, f"the device is near node {node}, the process may run on others"
        )
    return Finding("NUMA", likely=False, fact=f"the device and the process are on node {node}")


def _width(state: LinkState) -> Finding:
    """Return whether lanes are missing, at the device or above it."""
    if state.width is None or state.max_width is None:
        return Finding("link width", None, "the system does not tell it")
    if state.width < state.max_width:
        fact = f"x{state.width} of x{state.max_width}: look at the slot, or a riser"
        return Finding("link width", likely=True, fact=fact)
    if state.narrow is not None:
        address, lanes = state.narrow
        fact = f"x{state.width}, but the bridge {address} above has x{lanes}"
        return Finding("link width", likely=True, fact=fact)
    return Finding("link width", likely=False, fact=f"all of x{state.max_width}")


def _speed(state: LinkState, carried: float) -> Finding:
    """Return whether the link is slower than it can be.

    It slows down when copies end: then it has `carried` more, in B/s one way, than it could now.
    """
    if state.speed is None or state.max_speed is None:
        return Finding("link speed", None, "the system does not tell it")
    now, most = (f"{speed / _GIGA:g}" for speed in (state.speed, state.max_speed))
    if state.speed >= state.max_speed:
        return Finding("link speed", likely=False, fact=f"all of {most} GT/s")
    if state.width and carried > state.speed * state.width / _BITS:
        return Finding("link speed", likely=False, fact=f"{now} of {most} GT/s, but only when idle")
    return Finding("link speed", likely=True, fact=f"{now} of {most} GT/s, right after the copies")


def _iommu(state: LinkState) -> Finding:
    """Return whether each address that is copied to or from is translated first."""
    by = state.translated_by
    if state.translated is None:
        return Finding("IOMMU", None, by)
    if state.translated:
        return Finding("IOMMU", likely=True, fact=f"it translates ({by}): iommu=pt does not")
    return Finding("IOMMU", likely=False, fact=f"it does not translate ({by})")
