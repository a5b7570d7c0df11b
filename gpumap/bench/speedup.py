"""What several devices gain over one, and what their placement could gain at best.

`ideal` is T(reference) over the least time that the placement can take. That is what the busiest
silicon needs for its own work, by the solo times of the same block: names that share silicon take
turns. With fetches it is no less than each name's part of the reference: what a fetch takes on
another device than that is not measured, and may be nothing. `ideal_balanced` is the sum of the
solo rates over the best of them: what another split of the work would reach. `efficiency` is the
speed-up over the ideal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.figures import by_block, device_time, difference, overlap, ratio, time_and_rate
from gpumap.judge.ceilings import silicon_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.model import Case, Estimate, Group, Samples

UNEQUAL = 1.1  # solo times further apart than this make devices unequal


class Figures:
    """The metrics of a group: the case `one` is the reference, `solo` each device alone."""

    def __init__(
        self, group: Group, samples: Mapping[str, Samples], confidence: float, one: str = "one"
    ) -> None:
        self._samples = samples
        self._confidence = confidence
        self._blocks = {i: by_block(s) for i, s in samples.items()}
        self._names = {case.id: case.name for case in group.cases if case.id in self._blocks}
        self._one = next((c.id for c in group.cases if c.name == one), "")
        self._solo = {
            case.bindings[0]: self._blocks[case.id]
            for case in group.cases
            if case.name == "solo" and case.id in self._blocks
        }

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
        least = self._busiest(case)
        one = self._blocks.get(self._one, {})
        if "fetch" in case.name:
            part = {b: t / len(case.bindings) for b, t in reference.items()}
            least = {b: max(t, part[b]) for b, t in least.items() if b in part}
        gains = {
            "speedup": ratio(reference, mine, self._confidence),
            "ideal": ratio(reference, least, self._confidence),
            "efficiency": ratio(least, mine, self._confidence),
            "overlap": overlap(self._samples[case.id], self._confidence),
        }
        if self._unequal():
            gains["ideal_balanced"] = self._balanced(case)
        if "fetch" in case.name:
            gains["fetch"] = difference(mine, self._plain(case), self._confidence)
        if case.name == "many+fetch":  # Theano's ratio: with the fetches, against none
            gains["speedup_over_one"] = ratio(one, mine, self._confidence)
        return gains

    def _plain(self, case: Case) -> dict[int, float]:
        """Return the times of the same case without its fetch."""
        name = case.name.partition("+")[0]
        return next((self._blocks[i] for i, n in self._names.items() if n == name), {})

    def _busiest(self, case: Case) -> dict[int, float]:
        """Return, for each block, the time of the silicon that has most to do."""
        groups = silicon_groups([b for b in case.bindings if b in self._solo])
        if sum(map(len, groups)) < len(case.bindings):
            return {}  # a device has no solo time: there is no ideal
        return {
            block: max(sum(self._solo[b][block] for b in group) for group in groups)
            for block in self._shared_blocks()
        }

    def _balanced(self, case: Case) -> Estimate | None:
        groups = silicon_groups([b for b in case.bindings if b in self._solo])
        total, best = {}, {}
        for block in self._shared_blocks():
            times = [min(self._solo[b][block] for b in group) for group in groups]
            if min(times) > 0.0:
                best[block] = 1 / max(1 / t for t in times)
                total[block] = 1 / sum(1 / t for t in times)
        return ratio(best, total, self._confidence)

    def _unequal(self) -> bool:
        from statistics import median

        times = [median(blocks.values()) for blocks in self._solo.values()]
        return bool(times) and max(times) > UNEQUAL * min(times)

    def _shared_blocks(self) -> list[int]:
        blocks = [set(times) for times in self._solo.values()]
        return sorted(set.intersection(*blocks)) if blocks else []
