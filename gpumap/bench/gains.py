"""What several devices gain over one, and what they could, block by block.

`ideal` is T(one) over the time that the busiest hardware needs for its own work, by the solo times
of the same block: names that share hardware take turns. Which one is the busiest, the medians say:
the largest time of each block would be that of the largest noise. Where results are fetched, T(one)
is with its fetches, and each device has its own to do beside its product: as long as one of T(one)
takes. `ideal_balanced` is the sum of the solo rates over the best of them: what another split of
the work would reach; there is one where devices are clearly unequal. `efficiency` is the speed-up
over the ideal.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from gpumap.engine import stats
from gpumap.engine.ceilings import hardware_groups
from gpumap.engine.estimates import by_block, difference, overlap, quotient, ratio, time_and_rate
from gpumap.engine.sampling import UNEQUAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.model import Binding, Case, Estimate, Group, Samples

    Times = Mapping[int, float]  # by block

# Cases that are the same, but that no result comes to the host.
FETCHING = {"one+fetch": "one", "many+fetch": "many", "many+fetch+threads": "many"}


class Figures:
    """The metrics of a group of cases."""

    def __init__(self, group: Group, samples: Mapping[str, Samples], confidence: float) -> None:
        """Take the samples of a group.

        Args:
            group: its cases; those of the role `solo` are each device alone.
            samples: by the id of a case.
            confidence: of the intervals.
        """
        self._samples = samples
        self._confidence = confidence
        self._blocks = {i: by_block(s) for i, s in samples.items()}
        measured = [case for case in group.cases if case.id in self._blocks]
        self._called = {case.name: self._blocks[case.id] for case in reversed(measured)}
        self._one = self._called.get("one", {})
        self._solo = {c.bindings[0]: self._blocks[c.id] for c in measured if c.role == "solo"}

    def of(self, case: Case) -> dict[str, Estimate]:
        """Return the figures of one case."""
        figures = time_and_rate(case, self._samples[case.id], self._confidence)
        found = self._gains(case) if case.against else {}
        return figures | {name: gain for name, gain in found.items() if gain is not None}

    def _gains(self, case: Case) -> dict[str, Estimate | None]:
        mine = self._blocks[case.id]
        reference = self._blocks.get(case.against or "", {})
        whole: Times = self._one
        solo: Mapping[Binding, Times] = self._solo
        if plain := FETCHING.get(case.name):
            whole, solo = self._with_fetches(case.work.products, reference, self._one)
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

    def _with_fetches(
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
