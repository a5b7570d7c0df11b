"""Explain copies that are slower than they could be: at most one cause for each row.

In this order: concurrent copies (`shared`), pairs with the other pairs of their group
(`outlier_pairs`), each row with its link (`slow`).

N devices with separate links move N times what one does; copies both ways on one device are 2 times
as fast as one after the other, at best. Below 90 % of that a row has a cause. What accounts for all
of the time is tried first, then what is known for sure, and last what is left over: a link is only
blamed for time in which bytes move. A link that carries one way at a time is half-duplex: in host
memory that is normal.

A group has one route, mode and size, and one kind of link as far as that is known (PCIe's
generation and lanes at either end). A pair is an outlier where its whole interval is below 90 % of
the group's median.

A copy below 30 % of what its link can carry is slow: by its memory, or by what doctor looks at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.keys import CopyKey
from gpumap.judge.bottlenecks import MAIN, SLOWER, Concurrent, Finding, contended, seconds
from gpumap.judge.inconclusive import ENOUGH, too_few
from gpumap.model import Estimate, Explanation, replace
from gpumap.units import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.model import Binding, Cause, Measurement

    Isolated = Mapping[tuple[str | int, ...], Measurement]

_MOVING = 0.5  # of a copy's time: with less, it is not the bytes that take it


@dataclass(frozen=True, slots=True)
class Copies(Concurrent):
    """Concurrent copies, and each of them isolated: by name, or by direction if both ways."""

    isolated: Mapping[str, float]  # seconds of one copy, waited for
    moving: Mapping[str, float]  # seconds of one copy more, in a queue
    calls: Mapping[str, float]  # seconds in which the host hands over one of those

    @property
    def both_ways(self) -> bool:
        """Return whether it is one device, and its copies go both ways."""
        return self.row.case.name == "bidir"

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
    for cause, find, both_ways in _FINDERS:
        if both_ways in (None, evidence.both_ways) and (why := find(evidence)) is not None:
            figures = {"gain": evidence.gain, "together": evidence.row.metrics["bandwidth"]}
            return Explanation(cause, f"{_gained(evidence)}: {why[0]}", figures | why[1])
    return None


def _gained(evidence: Copies) -> str:
    """Return the text of the gain; both ways without the value, which differs by name."""
    if evidence.both_ways:
        return f"both ways at once are below {2 * ENOUGH:g} times one after the other"
    count = len(evidence.bindings)
    return f"{count} names at once move {evidence.gain.value:.2f} times what one does"


def _one_hardware(evidence: Copies) -> Finding | None:
    """Names share hardware, by its identity or the system's topology."""
    groups = evidence.shared()
    if not groups:
        return None
    element, names = min(groups, key=lambda each: (-len(each[1]), each[0]))  # as `explain` names it
    what = "the cores that copy" if evidence.on_host else "a link"
    return f"they share {what}: {', '.join(names)} are one piece of hardware ({element})", {}


def _unequal(evidence: Copies) -> Finding | None:
    """The slowest copy sets the time, and is as slow if isolated."""
    times = evidence.isolated
    slow, fast = (pick(times, key=times.__getitem__) for pick in (max, min))
    if evidence.gain.high < ENOUGH * evidence.ideal or times[slow] < SLOWER * times[fast]:
        return None
    taken = f"alone {slow} takes {time_of(times[slow])} and {fast} {time_of(times[fast])}"
    text = f"{taken}, and all end with the slowest"
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
    return "they share a link, or the host's memory", {}


def _one_way(evidence: Copies) -> Finding | None:
    """The link carries one way at a time."""
    if evidence.on_host:
        return "both are copies in the host's own memory, where that is normal", {}
    return "the link, a copy engine or the host's memory carries one way at a time", {}


# Cause -> how it is found, in this order, and whether of copies both ways; None: of any. The last
# one of each is left over.
_FINDERS: tuple[tuple[Cause, Callable[[Copies], Finding | None], bool | None], ...] = (
    ("cpu-contention", lambda evidence: contended(evidence.row), None),
    ("unequal-devices", _unequal, False),  # the slowest takes all time: who shares adds none
    ("shared-link", _one_hardware, False),
    ("synchronisation", _waiting, None),
    ("cpu-contention", lambda each: each.busy(len(each.bindings) - each.gain.value), False),
    ("serialised", _calls, None),
    ("synchronisation", _slower, False),
    ("shared-link", _link, False),
    ("half-duplex", _one_way, True),
)


_FEWEST = 3  # of two pairs either may be the outlier
_BELOW = 0.9
CAUSES = ("shared-link", "half-duplex", "odd-pair", "slow-link")  # besides those of `explain`
_WAYS = ("h2d", "d2h")
SHARE = 0.3  # of the ceiling
BYTES = 1 << 20  # of smaller copies latency takes its part


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
        if row.metrics["bandwidth"].high < _BELOW * middle
    }


def _sort(row: Measurement) -> tuple[object, ...]:
    """Return what the rows of a group have in common."""
    copy, links = CopyKey.of(row.case), []
    for device in (binding.device for binding in row.case.bindings):
        facts = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
        links.append((device.backend, str(device.kind), *map(str, facts)))
    links.sort()
    return row.route, copy.bytes, copy.mode, copy.pattern, *links


def _outlier(row: Measurement, middle: float) -> Explanation:
    figure = row.metrics["bandwidth"]
    pair, group = (units.single(value, figure.unit) for value in (figure.value, middle))
    text = f"{'->'.join(row.case.names)}: {pair}, its group {group}"
    figures = {"pair": figure, "group": Estimate.exact(middle, figure.unit)}
    return Explanation("odd-pair", text, figures)


def copies_explained(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return all rows of a group, each copy that is too slow with its cause.

    A row with too few samples for an interval has none, and none rests on it.
    """
    done = (row for row in rows if not row.case.is_control and row.status == "ok")
    copies = [row for row in done if not too_few(row)]
    outliers, isolated = outlier_pairs(copies), _isolated(copies)
    whys = {row.case.id: _why(row, isolated, outliers) for row in copies}
    return [replace(row, explanation=whys.get(row.case.id) or row.explanation) for row in rows]


def _isolated(rows: Iterable[Measurement]) -> dict[tuple[str | int, ...], Measurement]:
    """Return isolated copies by direction, device, memory, size and mode."""
    return {
        _key(row.case.name, row.case.bindings[0], copy, copy.mode): row
        for row, copy in ((row, CopyKey.of(row.case)) for row in rows if row.case.name in _WAYS)
        if copy.pattern == "alone" and not too_few(row)
    }


def _key(way: str, binding: Binding, copy: CopyKey, mode: str) -> tuple[str | int, ...]:
    return way, binding.device.id, copy.memory, copy.bytes, mode


def _why(
    row: Measurement, isolated: Isolated, outliers: Mapping[str, Explanation]
) -> Explanation | None:
    evidence = _evidence(row, isolated) if "speedup" in row.metrics else None
    if (explanation := shared(evidence) if evidence is not None else None) is not None:
        return explanation
    if contended(row) is not None:
        return None  # under CPU contention no other cause is sure
    return outliers.get(row.case.id) or slow(row)


def _evidence(row: Measurement, isolated: Isolated) -> Copies | None:
    """Return the evidence on a row; None where an isolated copy was not measured."""
    case, bindings = row.case.name, row.case.bindings
    parts = {way: (way, bindings[0]) for way in _WAYS}
    if case != "bidir":
        parts = {binding.name: (case, binding) for binding in bindings}
    copy = CopyKey.of(row.case)
    waited = {part: isolated.get(_key(*place, copy, "sync")) for part, place in parts.items()}
    queued = {part: isolated.get(_key(*place, copy, "queued")) for part, place in parts.items()}
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
    )  # fmt: skip


def slow(row: Measurement) -> Explanation | None:
    """Return why a row is far below the bandwidth of its links; None if it is not."""
    top = row.ceiling
    if top is None or top.metric != "bandwidth" or top.share >= SHARE or too_few(row):
        return None
    if CopyKey.of(row.case).bytes < BYTES:
        return None
    why = "`gpumap doctor` looks at its lanes, and at the NUMA node of the process"
    if CopyKey.of(row.case).memory == "pageable":
        why = "a driver copies pageable memory once more, into memory of its own"
    source = top.source.removeprefix("reported: ")
    figures = {
        "bandwidth": row.metrics["bandwidth"],
        "ceiling": Estimate.exact(top.value, top.unit),
        "share": Estimate.exact(top.share),
    }
    return Explanation("slow-link", f"less than {SHARE:.0%} of {source}: {why}", figures)
