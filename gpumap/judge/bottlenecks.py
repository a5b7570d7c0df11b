"""Explain why several devices reach less than their ideal: one cause for each row, with figures.

The causes are tried in a fixed order: what is known for sure first, what is inferred from
figures next, and what is left over last. The time of an iteration is split: each device's interval
is compared with its solo time (do the others slow it down?), the intervals with each other (do they
overlap?), and the time outside of them with the host's work (launching, readback, waiting).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge.inconclusive import ENOUGH, conclusive
from gpumap.model import Estimate, Explanation, Measurement, replace
from gpumap.units import time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.model import Binding, Cause

MAIN = 0.5  # of a shortfall: what accounts for as much is its cause
_SERIAL = 0.5  # overlap below which devices take turns
SLOWER = 1.1  # a device that takes this much longer while others work shares something
_CONTENDED = 0.5  # cores that others take from the devices: then no figure tells another cause
_CORES = 0.75  # of one core for each device: less is not room enough for all
Finding = tuple[str, dict[str, Estimate]]


@dataclass(frozen=True, slots=True)
class Concurrent:
    """A row of devices that worked at the same time."""

    row: Measurement

    @property
    def time(self) -> float:
        """Return the seconds of one iteration."""
        return self.row.metrics["time"].value

    @property
    def bindings(self) -> Sequence[Binding]:
        """Return the names that worked concurrently, and their devices."""
        return self.row.case.bindings

    @property
    def on_host(self) -> bool:
        """Return whether every device works in the host's own memory."""
        return all(binding.device.in_host_memory for binding in self.bindings)

    def shared(self) -> list[tuple[str, list[str]]]:
        """Return the hardware that several of the devices have in common, with their names."""
        by_element: defaultdict[str, list[str]] = defaultdict(list)
        for binding in self.bindings:
            for element in binding.device.hardware:
                by_element[element].append(binding.name)
        return [(element, names) for element, names in by_element.items() if len(names) > 1]

    def busy(self, missing: float, then: str = "") -> Finding | None:
        """Return that others had most of the cores that are missing; None where they had less."""
        around, count = self.row.around, len(self.bindings)
        if around is None or not self.on_host:
            return None
        other_load, steal = around.foreign or 0.0, around.steal or 0.0
        if other_load + steal * count < MAIN * missing:
            return None
        return _by_others(other_load, steal, steal * count, then)


@dataclass(frozen=True, slots=True)
class Evidence(Concurrent):
    """A row with too little speed-up, and the rows of the same blocks that explain it."""

    isolated: Mapping[str, Measurement]  # each name with its product
    controls: Mapping[str, Measurement]  # by device id; of products, whose arithmetic they tell

    @property
    def solo(self) -> dict[str, float]:
        """Return the seconds of each name's isolated product."""
        return {name: row.metrics["time"].value for name, row in self.isolated.items()}

    @property
    def efficiency(self) -> float:
        """Return the share of the ideal that was reached."""
        return self.row.metrics["efficiency"].value

    @property
    def shortfall(self) -> float:
        """Return the seconds of an iteration beyond the ideal."""
        return max(self.time * (1.0 - self.efficiency), 0.0)

    @property
    def inequality(self) -> float:
        """Return the isolated time of the slowest device over that of the fastest."""
        times = self.solo.values()
        return _divided(max(times), min(times)) if times else 1.0

    @property
    def exclusive_cores(self) -> bool:
        """Return whether each device has exclusive cores of the host."""
        every = [core for binding in self.bindings for core in binding.device.cores]
        bound = all(binding.device.cores for binding in self.bindings)
        return self.on_host and bound and len(set(every)) == len(every)

    def intervals(self) -> dict[str, float]:
        """Return the median seconds that each device worked in an iteration."""
        intervals = self.row.samples.intervals if self.row.samples else {}
        return {n: median(stop - start for start, stop in each) for n, each in intervals.items()}

    def cores(self) -> float | None:
        """Return the CPU time of an iteration in cores, if that is known."""
        cpu = self.row.samples.cpu if self.row.samples else ()
        return median(cpu) / self.time if cpu and self.time > 0.0 else None


def explained(rows: Sequence[Measurement], *, products: bool = False) -> list[Measurement]:
    """Return the rows of a group, each of those below its ideal with a cause.

    That is 90 % of an ideal; or of the host only, where that was measured too. A row has
    none where it, or its reference, has too few samples for an interval.

    Args:
        rows: of a group, with its controls.
        products: they are products, of whose time the control tells how much is arithmetic.
    """
    results, solid = list(rows), {id(row) for row in conclusive(rows)}
    for index, row in enumerate(results):
        if row.status == "ok" and id(row) in solid:
            has_ideal = "ideal" in row.metrics and "efficiency" in row.metrics
            why = _explanation(_evidence(row, rows, products=products)) if has_ideal else None
            results[index] = replace(row, explanation=why or _host_faster(row, rows))
    return results


def _host_faster(row: Measurement, rows: Sequence[Measurement]) -> Explanation | None:
    """Return that the host does the same in clearly less time; None where it does not."""
    gain = row.metrics.get("speedup_over_host")
    if gain is None or gain.high >= 1.0:
        return None
    host = next(other for other in rows if other.case.role == "host")
    theirs, ours = host.metrics["time"].value, row.metrics["time"].value
    names = "+".join(row.case.names)
    text = f"the host takes {time_of(theirs)}, {names} {time_of(ours)}: the host is faster"
    return Explanation("host-faster", text, {"host": seconds(theirs), "time": seconds(ours)})


def _explanation(evidence: Evidence) -> Explanation | None:
    gain, count = evidence.row.metrics["speedup"].value, len(evidence.bindings)
    efficiency = evidence.row.metrics["efficiency"]  # its interval leaves out that nothing is lost
    below = efficiency.value < ENOUGH and efficiency.high < 1.0
    if not below and gain >= ENOUGH * count:
        return None
    for cause, finder, only_below in _FINDERS:
        if (below or not only_below) and (finding := finder(evidence)) is not None:
            return Explanation(cause, *finding)
    return None


def _shared(evidence: Evidence) -> Finding | None:
    """Names share hardware, by its identity or the system's topology."""
    shared = evidence.shared()
    if not shared:
        return None
    element, names = min(shared)
    who = " and ".join(names) if len(names) == 2 else f"{len(names)} names"  # noqa: PLR2004 - a pair
    text = f"{who} share hardware ({element}): together they do what one does"
    return text, _ratios(evidence, "speedup", "ideal")


def _unequal(evidence: Evidence) -> Finding | None:
    """The slowest device sets the time of an equal split: clearly so, or there is no balance."""
    if evidence.efficiency < ENOUGH or "ideal_balanced" not in evidence.row.metrics:
        return None
    slow, fast = (pick(evidence.solo, key=evidence.solo.__getitem__) for pick in (max, min))
    factor = evidence.inequality
    text = (
        f"{slow} takes {factor:.2f} times as long as {fast}, and an equal "
        "split ends with the slowest"
    )
    return text, {"slowest": seconds(evidence.solo[slow]), "fastest": seconds(evidence.solo[fast])}


def contended(row: Measurement) -> Finding | None:
    """Return that other processes use cores which the devices need, so that no other cause is sure.

    During the measurement or before it; only of devices that are made of the host's cores.
    """
    around, bindings, count = row.around, row.case.bindings, len(row.case.bindings)
    if around is None or not Concurrent(row).on_host:
        return None
    needed = sum(max(len(binding.device.cores), 1) for binding in bindings)
    spare = max((around.cores or needed) - needed, 0)
    other_load, steal = max(around.foreign or 0.0, around.before or 0.0), around.steal or 0.0
    stolen = steal * (around.cores or count)
    if other_load + stolen - spare < _CONTENDED:
        return None
    return _by_others(other_load, steal, stolen)


def _by_others(other_load: float, steal: float, stolen: float, then: str = "") -> Finding:
    """Return the load of other processes; the steal of the hypervisor where that is more."""
    text = f"other processes used {other_load:.2f} cores{then}"
    if stolen > other_load:
        text = f"the hypervisor took {steal:.0%} of the time from this machine"
    return text, {"foreign": Estimate.exact(other_load), "steal": Estimate.exact(steal)}


def _contended(evidence: Evidence) -> Finding | None:
    """CPU contention: the figures show no other cause."""
    if evidence.efficiency >= ENOUGH and evidence.inequality < SLOWER:
        return None
    return contended(evidence.row)


def _busy(evidence: Evidence) -> Finding | None:
    """Other processes, or other machines on the same hardware, had the cores that are missing."""
    below = evidence.efficiency < ENOUGH
    if not below and evidence.inequality < SLOWER:
        return None
    missing = len(evidence.bindings) - evidence.row.metrics["speedup"].value
    if below:
        missing = (1.0 - evidence.efficiency) * len(evidence.bindings)
    return evidence.busy(missing, f", and {missing:.2f} cores of speed-up are missing")


def _launch(evidence: Evidence) -> Finding | None:
    """Most of a product's time, even if isolated, is not arithmetic."""
    for binding in evidence.bindings:
        solo = evidence.isolated.get(binding.name)
        control = evidence.controls.get(binding.device.id)
        if solo is None or control is None:
            continue
        isolated, arithmetic = solo.metrics["time"].value, _arithmetic(solo, control)
        if arithmetic < MAIN * isolated:
            text = (
                f"on {binding.name} a product takes {time_of(isolated)}, of which "
                f"{time_of(arithmetic)} are arithmetic: the rest is launching it"
            )
            return text, {"product": seconds(isolated), "arithmetic": seconds(arithmetic)}
    return None


def _arithmetic(solo: Measurement, control: Measurement) -> float:
    """Return the most that is arithmetic of a product, in seconds, by the time of a larger one."""
    works = solo.case.work, control.case.work
    ours, theirs = (work.operations / max(work.products, 1) for work in works)
    return control.metrics["time"].value * ours / theirs


def _transfer(evidence: Evidence) -> Finding | None:
    """Moving the results takes the time, and clearly takes some."""
    readback, row = evidence.row.metrics.get("fetch"), evidence.row
    if readback is None or readback.low <= 0.0 or readback.value < MAIN * evidence.shortfall:
        return None
    moved = units.memory(row.case.work.bytes_to_host)
    text = f"fetching {moved} takes {time_of(readback.value)} of {time_of(evidence.time)}"
    return text, {"fetch": readback, "time": row.metrics["time"]}


def _serialised(evidence: Evidence) -> Finding | None:
    """The devices take turns: their intervals do not overlap."""
    overlap = evidence.row.metrics.get("overlap")
    if overlap is None or overlap.value >= _SERIAL:
        return None
    text = f"the devices take turns: they worked together for {overlap.value:.0%} of their time"
    return text, {"overlap": overlap}


def _steal(evidence: Evidence) -> Finding | None:
    """Each device has exclusive cores, and yet less CPU time than it worked: steal."""
    cores, ran = evidence.cores(), evidence.intervals()
    if cores is None or not evidence.exclusive_cores:
        return None
    worked = sum(ran.values()) / evidence.time
    if cores >= _CORES * worked:
        return None
    text = (
        f"each device has cores of its own, and in {worked:.2f} cores of work they had "
        f"{cores:.2f} cores of CPU time: something else ran there"
    )
    return text, {"cores": Estimate.exact(cores), "worked": Estimate.exact(worked)}


def _one_core(evidence: Evidence) -> Finding | None:
    """Intervals overlap, CPU time does not: several workers share fewer cores."""
    cores = evidence.cores()
    if cores is None or not evidence.on_host or evidence.exclusive_cores:
        return None
    if cores >= _CORES * len(evidence.bindings):
        return None
    text = (
        f"the spans overlap, but together the devices had {cores:.2f} cores of CPU time: "
        "they sit on the same ones"
    )
    return text, {"cores": Estimate.exact(cores), **_ratios(evidence, "overlap")}


def _slower_concurrent(evidence: Evidence) -> Finding | None:
    """Each works concurrently with the others, and takes longer than isolated."""
    ran = evidence.intervals()
    factors = {
        name: _divided(ran[name], isolated)
        for name, isolated in evidence.solo.items()
        if name in ran
    }
    if not factors or max(factors.values()) < SLOWER:
        return None
    worst = max(factors, key=factors.__getitem__)
    text = (
        f"{worst} takes {factors[worst]:.2f} times as long beside the others as alone: "
        "they share memory bandwidth, cache or power"
    )
    return text, {"alone": seconds(evidence.solo[worst]), "together": seconds(ran[worst])}


def _waiting(evidence: Evidence) -> Finding | None:
    """The devices are done long before the iteration is: the host synchronises."""
    outside = _outside(evidence)
    if outside is None or outside < MAIN * evidence.shortfall:
        return None
    text = f"{time_of(outside)} of {time_of(evidence.time)} pass while no device works"
    return text, {"outside": seconds(outside)}


def _little(evidence: Evidence) -> Finding | None:
    """An iteration is too short for its overheads."""
    iterations = evidence.row.samples.iterations_per_sample if evidence.row.samples else 1
    if iterations == 1:
        return None  # it is long enough to be a sample of its own
    text = f"an iteration takes only {time_of(evidence.time)}: give each device more to do"
    return text, {"time": seconds(evidence.time)}


def _unexplained(evidence: Evidence) -> Finding | None:
    text = f"{time_of(evidence.shortfall)} of {time_of(evidence.time)} are not accounted for"
    return text, _ratios(evidence, "speedup", "ideal", "overlap")


# Cause -> how it is found, and whether only a row below 90 % of its ideal can have it. A cause may
# have two finders: `shared-hardware` is known by identity, or inferred from figures.
_FINDERS: tuple[tuple[Cause, Callable[[Evidence], Finding | None], bool], ...] = (
    ("cpu-contention", _contended, False),  # it makes equal devices unequal, too
    ("shared-hardware", _shared, False),
    ("transfer-bound", _transfer, True),
    ("launch-bound", _launch, True),
    ("cpu-contention", _busy, False),
    ("unequal-devices", _unequal, False),
    ("serialised", _serialised, True),
    ("cpu-contention", _steal, True),
    ("shared-hardware", _one_core, True),
    ("shared-hardware", _slower_concurrent, True),
    ("synchronisation", _waiting, True),
    ("too-little-work", _little, True),
    ("unexplained", _unexplained, True),
)


def _evidence(row: Measurement, rows: Sequence[Measurement], *, products: bool) -> Evidence:
    timed = [other for other in rows if "time" in other.metrics]
    isolated = {other.case.names[0]: other for other in timed if other.case.role == "solo"}
    alone = [other for other in timed if other.case.is_control and len(other.case.bindings) == 1]
    controls = {other.case.bindings[0].device.id: other for other in alone if products}
    return Evidence(row, isolated, controls)


def _outside(evidence: Evidence) -> float | None:
    """Return the seconds of an iteration in which no device worked."""
    ran = evidence.row.samples.intervals if evidence.row.samples else {}
    if not ran:
        return None
    unions = [
        max(stop for _, stop in each) - min(start for start, _ in each)
        for each in zip(*ran.values(), strict=True)
    ]
    outside: float = evidence.time - median(unions)
    return max(outside, 0.0)


def _ratios(evidence: Evidence, *names: str) -> dict[str, Estimate]:
    return {name: evidence.row.metrics[name] for name in names if name in evidence.row.metrics}


def seconds(value: float) -> Estimate:
    """Return a time that is exact."""
    return Estimate.exact(value, "s")


def _divided(over: float, under: float) -> float:
    return over / under if under > 0.0 else float("inf")
