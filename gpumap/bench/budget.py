"""Which cases a group's time has room for: the most important first, each with what it needs.

A case is kept with the case that it is compared with, and with the controls of its devices. It is
kept if every case that is kept can then be measured in FEWEST blocks: fewer have no interval. What
it takes is known once it was verified and calibrated; before that it is expected from the work of
what has been measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import is_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.bench.timing import Series
    from gpumap.model import Case, Group

FEWEST = 6  # blocks, the fewest of which there is an interval
_WARM = 1  # samples before them, where calibrating has taken the others
_CALIBRATED = 3  # samples that calibrating takes
_VERIFIED = 3  # rounds: one to be verified, what that takes, and once more at the end


def units(group: Group) -> Iterator[list[Case]]:
    """Yield the cases that are kept or left out together with all that they need.

    A control of a device that no case of the group uses comes last.
    """
    ordered = {place for places in group.order for place in places}
    others = (place for place in range(len(group.cases)) if place not in ordered)
    by_id = {case.id: case for case in group.cases}
    controls = [case for case in group.cases if is_control(case)]
    unused = {case.id: case for case in controls}
    for places in (*group.order, *((place,) for place in others)):
        cases = [group.cases[place] for place in places]
        if not all(map(is_control, cases)):
            found = _with_needs(cases, by_id, controls)
            unused = {id_: case for id_, case in unused.items() if case not in found}
            yield found
    yield from ([case] for case in unused.values())


def _with_needs(
    cases: Iterable[Case], by_id: Mapping[str, Case], controls: Iterable[Case]
) -> list[Case]:
    """Return the references of cases, the cases, and the controls of their devices."""
    found: dict[str, Case] = {}
    for case in cases:
        line = [case]
        while (reference := by_id.get(line[0].against or "")) is not None:
            line.insert(0, reference)
        found |= {one.id: one for one in line}
    used = {binding.device.id for case in found.values() for binding in case.bindings}
    return [*found.values(), *(c for c in controls if c.bindings[0].device.id in used)]


class Pace:
    """How fast a run has been so far, by operations and by bytes."""

    def __init__(self) -> None:
        self._operations = self._bytes = 0.0  # the most in a second

    def saw(self, case: Case, seconds: float) -> None:
        """Take what a round of a case took."""
        if seconds > 0.0:
            self._operations = max(self._operations, case.work.operations / seconds)
            self._bytes = max(self._bytes, _bytes(case) / seconds)

    def expected(self, case: Case) -> float:
        """Return the least seconds that a round of a case may take; 0 where nothing is known."""
        rates = ((case.work.operations, self._operations), (_bytes(case), self._bytes))
        return sum(work / rate for work, rate in rates if rate > 0.0)

    def before(self, case: Case, shortest: float) -> float:
        """Return what it may take to verify, calibrate and measure a case in FEWEST blocks."""
        one = self.expected(case)
        sample = one + shortest if one < shortest else one
        return _VERIFIED * one + (_CALIBRATED + _WARM + FEWEST) * sample


def needed(kept: Iterable[Series]) -> float:
    """Return what it takes to measure cases in FEWEST blocks, and to verify them once more."""
    return sum((_WARM + FEWEST) * one.lasting + one.checking for one in kept)


def _bytes(case: Case) -> int:
    return case.work.bytes_to_device + case.work.bytes_to_host
