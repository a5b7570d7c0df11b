"""What several devices gain over one, and what their placement could gain at best.

`ideal` is T(one) over the time that the busiest silicon needs for its own work, by the solo times
of the same block: names that share silicon take turns. Which one is the busiest, the medians say:
the largest time of each block would be that of the largest noise. `ideal_balanced` is the sum of
the solo rates over the best of them: what another split of the work would reach. `efficiency` is
the speed-up over the ideal.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.figures import by_block, device_time, difference, overlap, ratio, time_and_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.model import Binding, Case, Estimate, Group, Samples

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
        busiest = self._busiest(case)
        one = self._blocks.get(self._one, {})
        ideal = ratio(one, busiest, self._confidence)
        # speed-up over ideal, block by block
        expected = {
            b: t * busiest[b] / one[b] for b, t in reference.items() if b in busiest and b in one
        }
        gains = {
            "speedup": ratio(reference, mine, self._confidence),
            "ideal": ideal,
            "efficiency": ratio(expected, mine, self._confidence),
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
        busiest = max(groups, key=lambda group: sum(map(self._alone, group)))
        return {
            block: sum(self._solo[b][block] for b in busiest) for block in self._shared_blocks()
        }

    def _alone(self, binding: Binding) -> float:
        """Return the median time of a device alone."""
        return median(self._solo[binding].values())

    def _balanced(self, case: Case) -> Estimate | None:
        groups = silicon_groups([b for b in case.bindings if b in self._solo])
        chosen = sorted((min(group, key=self._alone) for group in groups), key=self._alone)
        total, best = {}, {}
        for block in self._shared_blocks():
            times = [self._solo[binding][block] for binding in chosen]
            if min(times) > 0.0:
                best[block] = times[0]
                total[block] = 1 / sum(1 / t for t in times)
        return ratio(best, total, self._confidence)

    def _unequal(self) -> bool:
        times = [*map(self._alone, self._solo)]
        return bool(times) and max(times) > UNEQUAL * min(times)

    def _shared_blocks(self) -> list[int]:
        blocks = [set(times) for times in self._solo.values()]
        return sorted(set.intersection(*blocks)) if blocks else []


def silicon_groups(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """Return the bindings, those that share silicon, directly or through others, together."""
    groups: list[list[Binding]] = []
    for binding in bindings:
        touching = [g for g in groups if any(b.device.silicon & binding.device.silicon for b in g)]
        merged = [b for group in touching for b in group] + [binding]
        groups = [group for group in groups if group not in touching] + [merged]
    return groups
