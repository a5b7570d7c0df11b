"""What makes the time of a scripted command uneven: noise, drift, spikes, modes, a throttle.

Each is a factor on the time of a command, drawn when it starts; together they are multiplied.
Every device draws from generators of its own, one for each cause, seeded by its id and
`noise_seed`: the same commands take the same times again, and a key more changes no other's draws.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScript:
    """What a `[[device]]` says of its noise; `gpumap.backends.fake.script` explains the keys."""

    noise: float = 0.0
    noise_seed: int = 0
    autocorrelation: float = 0.0
    period: float = 0.0
    drift: float = 0.0
    drift_over: float = 1.0
    spikes: float = 0.0
    spike: float = 1.5
    modes: tuple[float, ...] = ()
    throttle: float = 1.0
    throttle_after: float = 0.0


class Unevenness:
    """The factors of one device, for commands that start one after the other."""

    def __init__(self, keys: NoiseScript, device: str) -> None:
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


def _generator(keys: NoiseScript, device: str, cause: str) -> random.Random:
    return random.Random(f"{keys.noise_seed} {device} {cause}")  # noqa: S311 - noise, not a secret
