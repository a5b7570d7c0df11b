"""Rules of a group: when to stop, which cases there is time for, and which samples are doubtful.

A group is looked at three times, at fixed shares of its time: each further look is a further chance
to stop by luck. At an early look it stops if every verdict that is requested of it is decided at
the level of that look. Without any there is one more look, after a tenth of
the time, and an early look stops if each row is known well enough: half of its interval within the
precision, and samples worth at least twenty independent ones. Where cases are compared, the ratios
decide; where a case is alone, its time does: then a slow change of the machine is part of what this
run observed, as it is in no ratio.

`unstable` is a row whose interval is wide, and whose samples do not hold one value: neighbours are
alike (steps, drift), or there are two modes, by tests at a stated rate. A wide interval alone says
all that there is to say of noise. The procedure's coverage is in docs/method.md.

The cases that matter most come first, each with what it needs. A case is kept with the case that it
is compared with, and with the controls of its devices. It is kept if every case that is kept can
then be measured in FEWEST blocks: fewer have no interval. What it takes is known once it was
verified and calibrated; before that it is expected from the work of what has been measured.

What a gate judges is measured alone at first: until an early look settles it, or for half of the
time, or longer, until it has JUDGED blocks or the others need the rest for FEWEST of their own. The
blocks after that hold all cases.

Throttling by heat or a limit of power marks samples. The devices are looked at between blocks,
never inside a sample, and seldom enough to cost nothing. What comes and goes between two looks is
not seen; what is seen marks every sample since the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gpumap.engine import stats
from gpumap.engine.estimates import by_block, ratios
from gpumap.model import separate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.backends.base import Clock
    from gpumap.engine.base import Settings
    from gpumap.engine.sampling import Series
    from gpumap.model import Binding, Case, Group, Samples

_EVERY = 0.1  # seconds from one look to the next
_SHARE = 0.01  # of the time, that looking may take
Look = Callable[[], Mapping[str, Sequence[str]]]  # returns what holds devices back, by their ids
FEWEST = 6  # blocks, the fewest of which there is an interval
JUDGED = 80  # blocks, after which half of the time is enough (docs/measured/2026-11-28-gate.md)
_FIRST = 0.5  # of a group's time, for the cases that matter most
_SWEEP_SHARES = 2  # of the time, for a sweep of sizes; 1 for another group,
_LATE_SHARES = 3  # but for one that is measured in any case: to prove its copies takes longest
_WARM = 1  # samples before them, where calibrating has taken the others
_CALIBRATED = 3  # samples that calibrating takes
_VERIFIED = 3  # iterations: one to be verified, what that takes, and once more at the end
FIRST_LOOK = 0.1  # a share too, of a run without verdicts: at nothing but the precision
EARLY_LOOKS = (0.25, 0.5)  # shares of the time for blocks; the last look is at its end
ENOUGH = 20.0  # independent samples: of a row that is done, and of one that is not `unstable`
WIDE = 0.05  # half of an interval, as a share: a narrower one needs no doubt
LOOKS = len(EARLY_LOOKS) + 1  # at a run that may stop early
EARLY = 0.005  # one-sided error of a verdict at each look but the last
LAST = 0.05 - EARLY * (LOOKS - 1)
_CONFIDENCE = 0.95  # of the interval that is wide
RATE = 0.01  # of false alarms of a test: of correlation in a row, of modes in a group


class Throttling:
    """Looks now and then, and marks the samples since the last look; a sample is kept either way.

    One for a run: `begin` for each group, `taken` for each sample, `look` after each block.
    """

    def __init__(self, look: Look, clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._due = 0.0
        self._devices: dict[str, tuple[str, ...]] = {}
        self._unjudged: list[tuple[str, Series, int]] = []

    def begin(self, group: Group) -> None:
        """Look for the first time: what was before the first sample is none's."""
        self._devices = {case.id: _devices(case.bindings) for case in group.cases}
        self._unjudged.clear()
        self._ask()

    def taken(self, id_: str, series: Series, block: int) -> None:
        """Hear of a sample of a case."""
        self._unjudged.append((id_, series, block))

    def look(self, *, last: bool = False) -> None:
        """Mark the samples since the last look, if it is time for one or there is none after it."""
        if not self._unjudged or (self._clock.now() < self._due and not last):
            return
        held = self._ask()
        for id_, series, block in self._unjudged:
            whys = {d: ", ".join(held[d]) for d in self._devices[id_] if d in held}
            series.throttled[block] = whys
        self._unjudged.clear()

    def _ask(self) -> Mapping[str, Sequence[str]]:
        start = self._clock.now()
        held = self._look()
        now = self._clock.now()
        self._due = now + max(_EVERY, (now - start) / _SHARE)
        return held


def _devices(bindings: Collection[Binding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(binding.device.id for binding in bindings))


def units(group: Group) -> Iterator[list[Case]]:
    """Yield the cases that are kept or left out together with all that they need.

    Controls of devices that no case of the group uses, and of several devices, come last.
    """
    ordered = {place for places in group.order for place in places}
    others = (place for place in range(len(group.cases)) if place not in ordered)
    by_id = {case.id: case for case in group.cases}
    controls = [case for case in group.cases if case.is_control]
    unused = {case.id: case for case in controls}
    for places in (*group.order, *((place,) for place in others)):
        cases = [group.cases[place] for place in places]
        if not all(case.is_control for case in cases):
            found = _with_needs(cases, by_id, controls)
            unused = {id_: case for id_, case in unused.items() if case not in found}
            yield found
    yield from ([case] for case in unused.values())


def first(group: Group) -> set[str]:
    """Return the ids of the cases that are measured alone at first."""
    return {group.cases[place].id for places in group.order[: group.first] for place in places}


def controls(group: Group, kept: Collection[str]) -> dict[str, str]:
    """Return the id of the control before each case: on its devices, or on the first of them.

    Args:
        group: its cases, with controls.
        kept: the ids of those that are measured.

    A size sweep is not compared, and needs none.
    """
    here = [case for case in group.cases if case.id in kept]
    known = {_devices(case.bindings): case.id for case in here if case.is_control}
    cases = [case for case in here if not case.is_control and not case.swept]
    devices = {case.id: _devices(case.bindings) for case in cases}
    found = {id_: known.get(each, known.get(each[:1], "")) for id_, each in devices.items()}
    return {id_: control for id_, control in found.items() if control}


def deadlines(left: Sequence[Group], now: float, end: float) -> tuple[float, float]:
    """Return until when the first of some groups is measured: as a rule, and at the latest.

    The groups share the time that is left. At the latest is for the fewest blocks of what matters
    most: then the sweeps have to wait.

    Args:
        left: the groups that are not measured yet, in order.
        now: seconds, by the run's clock.
        end: of the time for all of them.
    """
    group, own = left[0], _shares(left[0])
    until = now + (end - now) * own / sum(map(_shares, left))
    if group.extra:
        return until, until
    return until, now + (end - now) * own / sum(_shares(each) for each in left if not each.extra)


def _shares(group: Group) -> int:
    """Return how many parts of the time a group has."""
    return _SWEEP_SHARES if group.extra else _LATE_SHARES if group.insists else 1


@dataclass(slots=True)
class Blocks:
    """The blocks of a group: how many there are, and when they are looked at."""

    start: float
    end: float
    most: int
    looks: list[float]  # shares of the time or of the blocks, still to come
    count: int = 0

    def due(self, now: float) -> bool:
        """Return whether it is time for a look; it is taken."""
        whole = self.end - self.start
        share = min(max((now - self.start) / whole, 0.0), 1.0) if whole > 0.0 else 1.0
        gone = max(share, self.count / self.most)
        if not self.looks or gone < self.looks[0]:
            return False
        self.looks = [later for later in self.looks if later > gone]
        return True

    def first_until(self, least: float) -> tuple[float, float]:
        """Return the ends of the first stage: with JUDGED blocks, and a later one with fewer.

        Args:
            least: seconds that all cases take for FEWEST blocks.
        """
        latest = self.end - least
        return min(self.start + _FIRST * (self.end - self.start), latest), latest


def _with_needs(
    cases: Iterable[Case], by_id: Mapping[str, Case], controls: Iterable[Case]
) -> list[Case]:
    """Return the references of cases, the cases, and the control of each of their devices."""
    found: dict[str, Case] = {}
    for case in cases:
        line = [case]
        while (reference := by_id.get(line[0].against or "")) is not None:
            line.insert(0, reference)
        found |= {one.id: one for one in line}
    used = {(binding.device.id,) for case in found.values() for binding in case.bindings}
    return [*found.values(), *(case for case in controls if _devices(case.bindings) in used)]


class Pace:
    """How fast a run has been so far, by operations and by bytes."""

    def __init__(self) -> None:
        self._operations = self._bytes = 0.0  # the most in a second

    def saw(self, case: Case, seconds: float) -> None:
        """Take what an iteration of a case took."""
        if seconds > 0.0:
            self._operations = max(self._operations, case.work.operations / seconds)
            self._bytes = max(self._bytes, _bytes(case) / seconds)

    def expected(self, case: Case) -> float:
        """Return the least seconds of an iteration of a case; 0 where nothing is known."""
        rates = ((case.work.operations, self._operations), (_bytes(case), self._bytes))
        return sum(work / rate for work, rate in rates if rate > 0.0)

    def before(self, case: Case, shortest: float) -> float:
        """Return what it may take to verify, calibrate and measure a case in FEWEST blocks."""
        one = self.expected(case)
        sample = one + shortest if one < shortest else one
        return _VERIFIED * one + (_CALIBRATED + _WARM + FEWEST) * sample


def needed(kept: Iterable[Series]) -> float:
    """Return what it takes to measure cases in FEWEST blocks, and to verify them once more."""
    return sum((_WARM + FEWEST) * one.sample_seconds + one.checking for one in kept)


def _bytes(case: Case) -> int:
    return case.work.bytes_to_device + case.work.bytes_to_host


class Standing(NamedTuple):
    """Data that a row is judged by: its ratios to the reference block by block, or its times."""

    values: Sequence[float]
    ratios: bool

    def located(self, confidence: float) -> stats.Location:
        """Return the middle of the values with its interval."""
        return stats.location(self.values, confidence, positive=True, slow=self.ratios)


def deciding(group: Group, samples: Mapping[str, Samples]) -> dict[str, Standing]:
    """Return the data that each measured row is judged by."""
    blocks = {id_: by_block(found) for id_, found in samples.items()}
    rows: dict[str, Standing] = {}
    for case in group.cases:
        if case.id in samples:
            before = blocks.get(case.against or "", {})
            own = blocks[case.id]
            each = {} if separate(before.keys(), own.keys()) else ratios(before, own)
            rows[case.id] = Standing([*each.values()] or samples[case.id].seconds, bool(each))
    return rows


def settled(group: Group, samples: Mapping[str, Samples], settings: Settings) -> bool:
    """Return whether every row that sets the stop is known well enough; a control never sets it."""
    rows = deciding(group, samples)
    requested = [case for case in group.cases if case.id in rows and not case.is_control]
    compared = [case for case in requested if case.against in rows]
    found = [rows[case.id].located(settings.confidence) for case in compared or requested]
    known = all(done(each, settings.precision) for each in found)
    return known and not settings.whole


def done(found: stats.Location, precision: float) -> bool:
    """Return whether the middle of a row is known well enough."""
    return half_width(found) <= precision and found.counted >= ENOUGH


def half_width(found: stats.Location) -> float:
    """Return half the width of an interval, as a share of the median."""
    if found.low <= 0.0:
        return 0.0 if found.low == found.high else math.inf
    return math.log(found.high / found.low) / 2


def unstable(row: Standing, rows: int) -> bool:
    """Return whether a row, of so many in a group, is wide and its samples hold no single value."""
    found = row.located(_CONFIDENCE)
    if not half_width(found) > WIDE:
        return False
    correlated = found.effective_n < ENOUGH and stats.correlated(row.values)
    return correlated or stats.bimodal(row.values, RATE / rows)
