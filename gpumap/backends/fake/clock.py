"""The clock that scripted devices share, and what makes their commands uneven.

Noise, drift, spikes, modes and a throttle are
each a factor on the time of a command, drawn when it starts; together they are multiplied. Every
device draws from generators of its own, one for each cause, seeded by its id and `noise_seed`: the
same commands take the same times again, and a key more changes no other's draws.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpumap.backends.base import Clock
from gpumap.backends.fake.script import FakeDevice, FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_DRAWN = 1000  # equal rounds in a row, for which what differs is drawn


class FakeClock(Clock):
    """A clock that stands still unless something scripted, or `sleep`, takes time."""

    scripted = True

    def __init__(self, host: FakeHost | None = None) -> None:
        self._now = 0.0
        self._host = host or FakeHost()
        self.spoilt: int | None = None  # the first wrong byte that a command since has written
        self.joined = False  # a device was told to wait for another one
        self._engines: list[Engine] = []
        self._even = True
        self._draws = True

    def now(self) -> float:
        """Return the scripted time in seconds."""
        return self._now

    def cpu(self) -> float | None:
        """Return None: scripted time is no processor's."""
        return None

    def sleep(self, seconds: float) -> None:
        """Let scripted time pass."""
        self._now += seconds

    def reach(self, moment: float) -> None:
        """Wait until `moment`; does nothing if it is past."""
        self._now = max(self._now, moment)

    def together(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run every job from the same moment on; the clock ends with the last of them."""
        start = self._now
        ends = []
        for job in jobs:
            self._now = start
            job()
            ends.append(self._now)
        self._now = max(ends, default=start)

    def compute(self, job: Callable[[], None], operations: float) -> None:
        """Run a job of the host's own, for as long as the script says."""
        job()
        self._now += self._host.latency + operations / self._host.rate

    def follow(self, engine: Engine, *, even: bool, draws: bool) -> None:
        """Know of an engine that works by this clock, and how its commands differ.

        `even`: they do not; `draws`: by what is drawn for each, and by nothing else.
        """
        if not any(engine is known for known in self._engines):
            self._engines.append(engine)
        self._even = self._even and even
        self._draws = self._draws and draws

    def repeat(self, job: Callable[[], None], times: int) -> None:
        """Run a job `times` times: in one step, once it takes as long as the time before.

        What is drawn for each command is drawn a thousand times; the rest take the mean of those.
        """
        step: list[float] = []
        began = self._moments()
        for done in range(1, times + 1):
            moments, self.joined = self._moments(), False
            job()
            before, step = step, [b - a for a, b in zip(moments, self._moments(), strict=False)]
            even = self._even or not any(step[1:])  # the host alone is always even
            if even and _steady(before, step, joined=self.joined):
                self._advance(step, times - done)
                return
            if done == _DRAWN and self._draws:
                mean = [(b - a) / done for a, b in zip(began, self._moments(), strict=True)]
                self._advance(mean, times - done)
                return

    def _advance(self, step: Sequence[float], times: int) -> None:
        """Let the host and each engine work on as in a step, so many times."""
        self._now += times * step[0]
        for engine, more in zip(self._engines, step[1:], strict=True):
            engine.free += times * more

    def _moments(self) -> list[float]:
        """Return the moment of the host, and those at which each engine will be free."""
        return [self._now, *(engine.free for engine in self._engines)]


def _steady(before: Sequence[float], step: Sequence[float], *, joined: bool) -> bool:
    """Return whether the host and each engine will go on as in two rounds behind each other.

    They will where the host falls behind no engine, and no engine behind another that it waits for.
    """
    if len(before) != len(step) or not all(map(math.isclose, before, step)):
        return False
    host, *engines = step
    moved = sorted(seconds for seconds in engines if seconds > 0.0)
    if not moved:
        return True
    ahead = host < moved[0] or math.isclose(host, moved[0])
    return ahead and (not joined or math.isclose(moved[0], moved[-1]))


@dataclass(slots=True)
class Engine:
    """What works off commands: one device's own, or shared by several that never overlap."""

    free: float = 0.0  # the moment at which it has done all it was given
    uneven: dict[str, Unevenness] = field(default_factory=dict)  # of each of its devices, by id


class Unevenness:
    """The factors of one device, for commands that start one after the other."""

    def __init__(self, keys: FakeDevice, device: str) -> None:
        self._keys = keys
        self._walk = Walk(keys.autocorrelation, keys.period, _generator(keys, device, "noise"))
        self._spikes = _generator(keys, device, "spikes")
        self._modes = _generator(keys, device, "modes")
        self._mode = 1.0
        self._turn = -1

    @property
    def varies(self) -> bool:
        """Whether any command takes longer than another."""
        keys = self._keys
        return bool(keys.noise or keys.drift or keys.spikes or keys.modes or keys.throttle != 1.0)

    def factor(self, moment: float) -> float:
        """Return what multiplies the time of a command that starts at `moment`."""
        keys = self._keys
        factor = math.exp(keys.noise * self._walk.at(moment)) if keys.noise else 1.0
        factor *= 1.0 + keys.drift * min(moment / keys.drift_over, 1.0)
        if keys.spikes and self._spikes.random() < keys.spikes:
            factor *= keys.spike
        if keys.modes:
            factor *= self._mode_at(moment)
        return factor * keys.throttle if moment >= keys.throttle_after else factor

    def _mode_at(self, moment: float) -> float:
        """Return the mode that holds: one for each command, or for each period."""
        turn = math.floor(moment / self._keys.period) if self._keys.period else self._turn + 1
        if turn != self._turn:
            self._turn, self._mode = turn, self._modes.choice(self._keys.modes)
        return self._mode


class Walk:
    """A normal process of mean 0 and deviation 1 that forgets: an AR(1) in time, or by command.

    With a period it is that of Ornstein and Uhlenbeck: moments t apart correlate by
    autocorrelation ** (t / period), however often one looks. Without, the step is one command.
    """

    def __init__(self, autocorrelation: float, period: float, generator: random.Random) -> None:
        self._autocorrelation = autocorrelation
        self._period = period
        self._generator = generator
        self._moment: float | None = None
        self._level = 0.0

    def at(self, moment: float) -> float:
        """Return the level at a moment that is not before the last one."""
        kept = 0.0 if self._moment is None else self._kept(moment - self._moment)
        draw = self._generator.gauss(0.0, 1.0)
        self._level = kept * self._level + math.sqrt(1.0 - kept * kept) * draw
        self._moment = moment
        return self._level

    def _kept(self, passed: float) -> float:
        """Return how much of the last level is left: 0 to 1."""
        return math.pow(self._autocorrelation, passed / self._period if self._period else 1.0)


def _generator(keys: FakeDevice, device: str, cause: str) -> random.Random:
    return random.Random(f"{keys.noise_seed} {device} {cause}")  # noqa: S311 - noise, not a secret
