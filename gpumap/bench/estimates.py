"""Metrics from samples: medians with their intervals, and ratios taken block by block.

Of several devices: `ideal` is T(one) over the time that the busiest hardware needs for its own
work, by the solo times of the same block: names that share hardware take turns. Which one is the
busiest, the medians say: the largest time of each block would be that of the largest noise. Where
results are fetched, T(one) is with its fetches, and each device has its own to do beside its
product: as long as one of T(one) takes. `ideal_balanced` is the sum of the solo rates over the best
of them: what another split of the work would reach; there is one where devices are clearly unequal.
`efficiency` is the speed-up over the ideal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from gpumap import stats
from gpumap.bench.registry import specified
from gpumap.dtypes import np
from gpumap.judge.ceilings import hardware_groups
from gpumap.model import Case, Estimate, Fit, HeldBack, separate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.model import Binding, Group, Measurement, Samples

    Times = Mapping[int, float]  # by block

UNEQUAL = 1.1  # solo times clearly further apart than this make devices unequal


def located(
    values: Sequence[float],
    unit: str,
    confidence: float,
    *,
    positive: bool = True,
    slow: bool = True,
) -> Estimate:
    """Return the median of values; of too few without an interval (`stats.location`)."""
    found = stats.location(values, confidence, positive=positive, slow=slow)
    return Estimate(found.value, found.low, found.high, unit)


def time_of(samples: Samples, confidence: float) -> Estimate:
    """Return the median time of one iteration, in seconds; its interval is for this run."""
    return located(samples.seconds, "s", confidence, slow=False)


def time_and_rate(case: Case, samples: Samples, confidence: float) -> dict[str, Estimate]:
    """Return the time of one iteration, and the rate of its operations that follows from it."""
    time = time_of(samples, confidence)
    return {"time": time, "rate": per_time(case.work.operations, time, "FLOP/s")}


def device_time(samples: Samples, confidence: float) -> Estimate | None:
    """Return the median of a device's own span for one iteration, if it has a clock."""
    lengths = [stop - start for spans in samples.intervals.values() for start, stop in spans]
    return located(lengths, "s", confidence, slow=False) if lengths else None


def per_time(amount: float, time: Estimate, unit: str) -> Estimate:
    """Return the rate of an amount of work, derived from the median time."""
    if not time.has_interval:
        return Estimate.without_interval(_divided(amount, time.value), unit)
    value, low, high = (_divided(amount, t) for t in (time.value, time.high, time.low))
    return Estimate(value, low, high, unit)


def by_block(samples: Samples) -> dict[int, float]:
    """Return the time of one iteration for each block."""
    return dict(zip(samples.blocks, samples.seconds, strict=True))


def ratio(
    over: Mapping[int, float], under: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the median of over/under with its interval, one number for each shared block.

    Where each was disturbed in blocks in which the other was not, it is the ratio of two medians.
    """
    if separate(over.keys(), under.keys()):
        sides = (located(list(times.values()), "s", confidence) for times in (over, under))
        return quotient(*sides)
    each = ratios(over, under)
    return located(each, "1", confidence) if each else None


def quotient(over: Estimate, under: Estimate) -> Estimate | None:
    """Return the ratio of two metrics of separate samples (MOVER, of their logarithms)."""
    if not (over.value > 0.0 < under.value):
        return None
    value = over.value / under.value
    if not (over.has_interval and under.has_interval and over.low > 0.0 < under.low):
        return Estimate.without_interval(value, "1")
    down = math.hypot(math.log(over.value / over.low), math.log(under.high / under.value))
    up = math.hypot(math.log(over.high / over.value), math.log(under.value / under.low))
    return Estimate(value, value * math.exp(-down), value * math.exp(up), "1")


def ratios(over: Mapping[int, float], under: Mapping[int, float]) -> list[float]:
    """Return over/under for each shared block, in order; none where a time is no time at all."""
    pairs = [(over[block], under[block]) for block in over if block in under]
    return [a / b for a, b in pairs] if all(a > 0.0 < b for a, b in pairs) else []


def difference(
    longer: Mapping[int, float], shorter: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the median of longer - shorter in seconds, one number for each shared block."""
    each = [longer[block] - shorter[block] for block in longer if block in shorter]
    return located(each, "s", confidence, positive=False) if each else None


def overlap(samples: Samples, confidence: float) -> Estimate | None:
    """Return how long all devices worked at once, as a share of what the least busy one worked."""
    shares = [_overlap(spans) for spans in zip(*samples.intervals.values(), strict=True)]
    if not shares:
        return None
    found = located(shares, "1", confidence, positive=False)
    if not found.has_interval:
        return found
    return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0), found.unit)


def _overlap(spans: Sequence[tuple[float, float]]) -> float:
    common = min(stop for _, stop in spans) - max(start for start, _ in spans)
    shortest = min(stop - start for start, stop in spans)
    return min(max(common, 0.0) / shortest, 1.0) if shortest > 0.0 else 0.0


def _divided(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0.0 else math.inf


class Figures:
    """The metrics of a group: the case `one` is the reference, `solo` each device alone."""

    def __init__(
        self, group: Group, samples: Mapping[str, Samples], confidence: float, one: str = "one"
    ) -> None:
        self._samples = samples
        self._confidence = confidence
        self._blocks = {i: by_block(s) for i, s in samples.items()}
        measured = [case for case in group.cases if case.id in self._blocks]
        self._called = {case.name: self._blocks[case.id] for case in reversed(measured)}
        self._one = self._called.get(one, {})
        self._solo = {c.bindings[0]: self._blocks[c.id] for c in measured if c.name == "solo"}

    def of(self, case: Case) -> dict[str, Estimate]:
        """Return the figures of one case."""
        figures = time_and_rate(case, self._samples[case.id], self._confidence)
        found = self._gains(case) if case.against else {}
        if len(case.bindings) == 1:
            found["device_time"] = device_time(self._samples[case.id], self._confidence)
        return figures | {name: gain for name, gain in found.items() if gain is not None}

    def _gains(self, case: Case) -> dict[str, Estimate | None]:
        mine = self._blocks[case.id]
        reference = self._blocks.get(case.against or "", {})
        whole: Times = self._one
        solo: Mapping[Binding, Times] = self._solo
        if plain := specified(case).fetch_of:
            whole, solo = self._fetching(case.work.products, reference, self._one)
        busiest = _busiest(case, solo)
        # speed-up over ideal, block by block
        expected = {
            b: t * busiest[b] / whole[b]
            for b, t in reference.items()
            if b in busiest and whole.get(b, 0.0) > 0.0
        }
        speedup = ratio(reference, mine, self._confidence)
        ideal = ratio(whole, busiest, self._confidence)
        alike = busiest.keys() <= (reference.keys() & mine.keys() & whole.keys())
        gains = {
            "speedup": speedup,
            "ideal": ideal,
            "efficiency": ratio(expected, mine, self._confidence)
            if alike or not (speedup and ideal)
            else quotient(speedup, ideal),
            "overlap": overlap(self._samples[case.id], self._confidence),
        }
        if self._unequal():
            gains["ideal_balanced"] = self._balanced(case, solo)
        if plain:
            gains["fetch"] = difference(mine, self._called.get(plain, {}), self._confidence)
        if case.name == "many+fetch":  # Theano's ratio: with the fetches, against none
            gains["speedup_over_one"] = ratio(self._one, mine, self._confidence)
        return gains

    def _fetching(
        self, products: int, with_: Times, without: Times
    ) -> tuple[Times, dict[Binding, Times]]:
        """Return the times of `one` and `solo`, with a fetch for each product.

        A fetch takes what fetches add to all products on one device; by noise less than nothing.
        """
        each = {b: max(t - without[b], 0.0) / products for b, t in with_.items() if b in without}
        solo: dict[Binding, Times] = {
            binding: {b: t + each[b] for b, t in times.items() if b in each}
            for binding, times in self._solo.items()
        }
        whole: Times = {b: without[b] + products * fetch for b, fetch in each.items()}
        return whole, solo

    def _balanced(self, case: Case, solo: Mapping[Binding, Times]) -> Estimate | None:
        groups = hardware_groups([b for b in case.bindings if b in solo])
        fastest = (min((solo[b] for b in group), key=_solo_time) for group in groups)
        chosen = sorted(fastest, key=_solo_time)
        total, best = {}, {}
        for block in _shared_blocks(solo):
            times = [alone[block] for alone in chosen]
            if min(times) > 0.0:
                best[block] = times[0]
                total[block] = 1 / sum(1 / t for t in times)
        return ratio(best, total, self._confidence)

    def _unequal(self) -> bool:
        """Return whether the slowest device alone is clearly slower than the fastest."""
        every = sorted(self._solo.values(), key=_solo_time)
        if not every:
            return False
        fast, slow = every[0], every[-1]
        found = ratio(slow, fast, self._confidence)
        known = stats.enough(len(fast.keys() & slow.keys()), self._confidence)
        return found is not None and known and found.low > UNEQUAL


def _busiest(case: Case, solo: Mapping[Binding, Times]) -> Times:
    """Return, for each block, the time of the hardware that has most to do."""
    groups = hardware_groups([b for b in case.bindings if b in solo])
    if sum(map(len, groups)) < len(case.bindings) or not groups:
        return {}  # a device has no solo time: there is no ideal
    busiest = max(groups, key=lambda group: sum(_solo_time(solo[b]) for b in group))
    blocks = _shared_blocks({b: solo[b] for b in busiest})
    return {block: sum(solo[b][block] for b in busiest) for block in blocks}


def _solo_time(times: Times) -> float:
    """Return the median time of a device alone; 0 where there is none."""
    return median(times.values()) if times else 0.0


def _shared_blocks(solo: Mapping[Binding, Times]) -> list[int]:
    blocks = [set(times) for times in solo.values()]
    return sorted(set.intersection(*blocks)) if blocks else []


# --- cost models of copies and exchanges, fitted to a size sweep
#
# The size that was held back is predicted: a model that only describes what it was fitted to would
# not be worth the name.

HELD_BACK = 1 << 17  # bytes: measured, and left out of the fit to see what that predicts
_FEWEST = 4  # sizes: two parameters, and something to be wrong about


def fits(rows: Iterable[Measurement], confidence: float, seed: int) -> tuple[Fit, ...]:
    """Return a model for whatever has a size sweep: rows that differ in their bytes alone."""
    sweeps: defaultdict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        if row.case.params.get("pattern") == "ladder" and row.samples:
            sweeps[fit_id(row.case)].append(row)
    found = (_fit(id_, sweep, confidence, seed) for id_, sweep in sweeps.items())
    return tuple(fit for fit in found if fit is not None)


def fit_id(case: Case) -> str:
    """Return ``transfer.h2d.fit[backend=...,memory=...,mode=...,names=a,pattern=alone]``."""
    params = {key: value for key, value in case.params.items() if key not in ("bytes", "size_name")}
    alone = Case(case.bench, f"{case.name}.fit", {**params, "pattern": "alone"}, case.bindings,
                 case.work, ordered=case.ordered)  # fmt: skip
    return alone.id


def _fit(id_: str, sweep: Sequence[Measurement], confidence: float, seed: int) -> Fit | None:
    from gpumap.fit import FITS, fitted, intervals

    good = sorted(
        (row for row in sweep if row.status == "ok"), key=lambda row: int(row.case.params["bytes"])
    )
    used = [row for row in good if row.case.params["bytes"] != HELD_BACK]
    blocks = set.intersection(*(set(_blocks(row)) for row in used)) if used else set()
    if len(used) < _FEWEST or not blocks:
        return None
    sizes = [int(row.case.params["bytes"]) for row in used]
    samples = np.array([[_blocks(row)[block] for row in used] for block in sorted(blocks)])
    model = fitted(sizes, np.median(samples, axis=0))
    row = next((row for row in good if row.case.params["bytes"] == HELD_BACK), None)
    held = None
    if row is not None:
        measured = median(_blocks(row).values())
        held = HeldBack(HELD_BACK, model.seconds(HELD_BACK), measured)
    good_for = model.fits and (held is None or abs(held.miss) <= FITS)
    return Fit(
        id_,
        used[0].case,
        good_for,
        len(model.lines),
        tuple(sizes),
        model.residual,
        held,
        intervals(sizes, samples, model, confidence, seed) if good_for else {},
        model.lines,
    )


def _blocks(row: Measurement) -> dict[int, float]:
    assert row.samples is not None
    return dict(zip(row.samples.blocks, row.samples.seconds, strict=True))
