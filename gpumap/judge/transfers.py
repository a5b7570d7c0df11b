"""Why copies are slower than their links allow: at most one cause for each row.

In this order: copies at once compared with copies alone (`gpumap.judge.together`), pairs with the
other pairs of their group (`odd_pairs`), each row with its link (`gpumap.judge.slow_link`). A group
has one route, mode and size, and one kind of link as far as that is known (PCIe's generation and
lanes at either end). A pair is odd where its whole interval is below 90 %, or above 1/90 %, of the
group's median.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Final

from gpumap import units
from gpumap.bench.keys import CopyKey
from gpumap.bench.registry import is_control
from gpumap.escape import printable
from gpumap.judge.explain import contended
from gpumap.judge.few import few
from gpumap.judge.slow_link import slow
from gpumap.judge.together import Together, shared
from gpumap.model import Estimate, Explanation, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.bench.registry import Look
    from gpumap.model import Binding, LinkState, Measurement

    States = Callable[[], Mapping[str, LinkState]]

CAUSE: Final = "odd-pair"
_FEWEST = 3  # of two pairs nobody can tell which one is odd
_BELOW = 0.9
_ABOVE = 1 / _BELOW
CAUSES = ("shared-link", "half-duplex", CAUSE, "slow-link")  # beside those of `explain`
_WAYS = ("h2d", "d2h")


def odd_pairs(rows: Iterable[Measurement]) -> dict[str, Explanation]:
    """Return what falls out of its group, by the row's id, with both bandwidths."""
    groups: defaultdict[tuple[object, ...], list[Measurement]] = defaultdict(list)
    for row in rows:
        known = row.case.name == "d2d" and row.status == "ok" and "bandwidth" in row.metrics
        if known and row.metrics["bandwidth"].has_interval:
            groups[_sort(row)].append(row)
    return {
        row.case.id: _named(row, middle)
        for group in groups.values()
        if len(group) >= _FEWEST
        for middle in [median(row.metrics["bandwidth"].value for row in group)]
        for row in group
        if _outside(row.metrics["bandwidth"], middle)
    }


def _sort(row: Measurement) -> tuple[object, ...]:
    copy = CopyKey.of(row.case)
    links = sorted(map(_link, row.case.bindings))
    return row.route, copy.bytes, copy.mode, copy.pattern, *links


def _link(binding: Binding) -> tuple[str, ...]:
    device = binding.device
    facts = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
    return device.backend, str(device.kind), *map(str, facts)


def _outside(figure: Estimate, middle: float) -> bool:
    return figure.high < _BELOW * middle or figure.low > _ABOVE * middle


def _named(row: Measurement, middle: float) -> Explanation:
    figure = row.metrics["bandwidth"]
    own, group = (units.together((value,), figure.unit)[0] for value in (figure.value, middle))
    text = f"{printable('->'.join(row.case.names))}: {own}, its group {group}"
    nodes = [binding.device.numa_node for binding in row.case.bindings]
    if None not in nodes and len(set(nodes)) > 1:
        text += f" (across NUMA nodes {' and '.join(map(str, nodes))})"
    figures = {"pair": figure, "group": Estimate(middle, middle, middle, figure.unit)}
    return Explanation(CAUSE, text, figures)


def copies_explained(rows: Sequence[Measurement], look: Look) -> list[Measurement]:
    """Return the rows of a group, those of copies that want explaining each with its cause.

    A row with too few samples for an interval has none, and none rests on it.

    Args:
        rows: the whole of what was measured together: a copy is explained by others of its size.
        look: asks the system of the links; only if a row wants explaining, and once.
    """
    copies = [row for row in rows if not is_control(row.case) and row.status == "ok"]
    copies = [row for row in copies if not few(row)]
    devices = {b.device.id: b.device for row in copies for b in row.case.bindings}
    states = cache(lambda: look(devices.values()))
    odd, alone = odd_pairs(copies), _Alone(copies)
    whys = {row.case.id: _why(row, alone, odd, states) for row in copies}
    return [replace(row, explanation=whys.get(row.case.id) or row.explanation) for row in rows]


class _Alone:
    """Copies by themselves: by direction, device, memory, size and mode."""

    def __init__(self, rows: Iterable[Measurement]) -> None:
        self._rows = {
            _key(row.case.name, row.case.bindings[0], copy, copy.mode): row
            for row, copy in ((row, CopyKey.of(row.case)) for row in rows if row.case.name in _WAYS)
            if copy.pattern == "alone" and not few(row)
        }

    def find(self, row: Measurement, way: str, binding: Binding, mode: str) -> Measurement | None:
        """Return the same copy as one of a row's, run alone; of several names the first has it."""
        return self._rows.get(_key(way, binding, CopyKey.of(row.case), mode))


def _key(way: str, binding: Binding, copy: CopyKey, mode: str) -> tuple[str | int, ...]:
    return way, binding.device.id, copy.memory, copy.bytes, mode


def _why(
    row: Measurement, alone: _Alone, odd: Mapping[str, Explanation], states: States
) -> Explanation | None:
    evidence = _evidence(row, alone, states) if "speedup" in row.metrics else None
    if (found := shared(evidence) if evidence is not None else None) is not None:
        return found
    if contended(row.around, row.case.bindings) is not None:
        return None  # of a busy machine no other cause can be told
    return odd.get(row.case.id) or slow(row, states)


def _evidence(row: Measurement, alone: _Alone, states: States) -> Together | None:
    """Return what a row is judged by; None where the copy alone was not measured."""
    case, bindings = row.case.name, row.case.bindings
    parts = {way: (way, bindings[0]) for way in _WAYS}
    if case != "bidir":
        parts = {binding.name: (case, binding) for binding in bindings}
    waited = {part: alone.find(row, *place, "sync") for part, place in parts.items()}
    queued = {part: alone.find(row, *place, "queued") for part, place in parts.items()}
    known = {part: one for part, one in waited.items() if one is not None}
    more = {part: one for part, one in queued.items() if one is not None}
    if len(known) < len(parts):
        return None
    return Together(
        row,
        {part: one.metrics["time"].value for part, one in known.items()},
        {part: one.metrics["issue_interval"].value for part, one in more.items()},
        {part: median(one.samples.queue) for part, one in more.items()
         if one.samples and one.samples.queue},
        {part: one.metrics["bandwidth"] for part, one in known.items()},
        states,
    )  # fmt: skip
