"""A batch over several devices: who takes which examples.

    balanced   the first `b mod N` devices take one example more than the others
    keras      the last device takes what is left over (Keras' multi_gpu_model, 2.0.9 to 2.3.1)
    drop       what is left over is left out (make_parallel of keras-extras)
    weighted   in proportion to the speed of each device, so that the slowest part ends first

Each device takes a contiguous range, in the order of the devices: the parts, one after the other,
are the batch. Where Keras would run empty batches (and crash), fewer devices are used.

Training examples that are made when they are needed: seeded, float32, and worth learning.

An example is a function of the seed and of its own number: whoever makes it, in whatever batch,
gets the same one. Its numbers are uniform in [0, 1), its target is which side of a hidden plane
they are on (of a sigmoid), or which of several directions they lie in most (of a softmax).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING

from gpumap.distributed.algorithms import balanced
from gpumap.errors import Diagnostic, QuestionError
from gpumap.lazy_numpy import Array, np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.training.network import Network


_HIDDEN, _ORDER, _EXAMPLES = 1, 2, 3  # what a stream of random numbers is for
_PER_COUNT = 8  # numbers of float32 that one count of Philox gives
_ROWS = 128  # of a batch, that are looked at at a time
_PARTS = 1 << 10  # of 1, that hidden numbers are multiples of
_KEYS = 1 << 64  # of Philox: a seed may be larger


class Order:
    """The numbers of so many examples, in an order that is new in each epoch."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self._seed = count, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def numbers(self, start: int, stop: int) -> Array:
        """Return which examples the places `start` to `stop` of an endless training hold.

        Each epoch holds every example once.
        """
        found = []
        while start < stop:
            epoch, first = divmod(start, self.count)
            last = min(first + stop - start, self.count)
            found.append(self._shuffled(epoch)[first:last])
            start += last - first
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _shuffled(self, epoch: int) -> Array:
        if epoch != self._epoch:
            rng = np.random.default_rng((self._seed, _ORDER, epoch))
            self._epoch, self._order = epoch, rng.permutation(self.count)
        return self._order


class Examples(Order):
    """So many examples for a network."""

    def __init__(self, network: Network, count: int, seed: int) -> None:
        super().__init__(count, seed)
        self.network = network
        rng = np.random.default_rng((seed, _HIDDEN))
        units = network.last.units
        drawn = rng.standard_normal((network.inputs, units))
        self._hidden = np.rint(drawn * _PARTS) / _PARTS

    def batch(self, numbers: Array) -> tuple[Array, Array]:
        """Return examples by their numbers: x (count, inputs) and y (count, units), float32."""
        x = np.empty((len(numbers), self.network.inputs), np.float32)
        stream = np.random.Philox(key=np.array((self._seed % _KEYS, _EXAMPLES), np.uint64))
        state, rng = stream.state, np.random.Generator(stream)
        each = -(-self.network.inputs // _PER_COUNT)  # counts of an example: none shares one
        for row, number in zip(x, numbers.tolist(), strict=True):
            state["state"]["counter"][:] = (number * each, 0, 0, 0)
            stream.state = state
            rng.random(dtype=np.float32, out=row)
        return x, self._targets(x)

    def _targets(self, x: Array) -> Array:
        """Return the targets of examples, by sums that are exact, in whatever order they are added.

        A number of an example is a multiple of 2^-24, so a product is one of 2^-34: 53 bits hold
        every sum of up to 2^17 of them. A product of a batch adds in another order than that of a
        part of it, and rounding would put what is next to the plane here once, there once.
        """
        seen = np.empty((len(x), self.network.last.units))
        for at in range(0, len(x), _ROWS):  # as numbers of 64 bits a batch is large
            part = slice(at, at + _ROWS)
            seen[part] = (x[part] - 0.5).astype(np.float64) @ self._hidden
        if self.network.last.activation == "softmax":
            one = np.zeros(seen.shape, np.float32)
            one[np.arange(len(seen)), seen.argmax(axis=1)] = 1
            return one
        beyond: Array = seen > 0
        return beyond.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Split:
    """How many examples each device takes, in the order of the devices; what is worth saying."""

    counts: tuple[int, ...]
    dropped: int = 0
    notes: tuple[Diagnostic, ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return (start, stop) of each device's examples; equal where it has none."""
        stops = tuple(accumulate(self.counts))
        return tuple(zip((0, *stops), stops, strict=False))

    def parts(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each device that has something to do, and its examples."""
        for device, (start, stop) in enumerate(self.ranges):
            if start < stop:
                yield device, slice(start, stop)


def split(
    examples: int, devices: int, policy: str = "balanced", speeds: Sequence[float] = ()
) -> Split:
    """Return how a batch is split.

    Args:
        examples: of the batch.
        devices: how many there are; with none, the host takes the batch.
        policy: one of POLICIES.
        speeds: of each device alone, for `weighted`: examples per second, or any multiple of it.

    Raises:
        QuestionError: there is no such policy, a number is below 0, or speeds are missing or none.
    """
    if policy not in POLICIES:
        raise QuestionError(f"no policy is called {policy!r}", f"choose {', '.join(POLICIES)}")
    if examples < 0 or devices < 0:
        fix = "give 0 or more of each"
        raise QuestionError(f"{examples} examples over {devices} devices cannot be", fix)
    if policy == "weighted":
        _check_speeds(speeds, devices)
    if devices <= 1:
        return Split((examples,), 0, (_alone(devices),))
    counts = POLICIES[policy](examples, min(devices, examples), tuple(speeds))
    counts += (0,) * (devices - len(counts))
    return Split(counts, examples - sum(counts), tuple(_said(examples, counts)))


def _balanced(examples: int, used: int, _: Sequence[float]) -> tuple[int, ...]:
    return balanced(examples, used) if used else ()


def _keras(examples: int, used: int, _: Sequence[float]) -> tuple[int, ...]:
    each = examples // used if used else 0
    return (*(each,) * (used - 1), examples - each * (used - 1)) if used else ()


def _drop(examples: int, used: int, _: Sequence[float]) -> tuple[int, ...]:
    return (examples // used,) * used if used else ()


def _weighted(examples: int, _: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Return the counts whose slowest part ends first; of equals the first device takes more.

    Each takes its share, rounded down, which no best split goes below; each example that is left
    goes where its part would end first (D'Hondt's method, which minimises the largest
    count / speed).
    """
    exact = [Fraction(speed) for speed in speeds]
    counts = [int(examples * speed / sum(exact)) for speed in exact]
    for _n in range(examples - sum(counts)):
        first = min(range(len(exact)), key=lambda n: (counts[n] + 1) / exact[n])
        counts[first] += 1
    return tuple(counts)


POLICIES: dict[str, Callable[[int, int, Sequence[float]], tuple[int, ...]]] = {
    "balanced": _balanced,
    "keras": _keras,
    "drop": _drop,
    "weighted": _weighted,
}


def _check_speeds(speeds: Sequence[float], devices: int) -> None:
    if len(speeds) != devices:
        fix = "give one speed for each device, in their order"
        raise QuestionError(f"{len(speeds)} speeds for {devices} devices", fix)
    for number, speed in enumerate(speeds):
        if not (isfinite(speed) and speed > 0.0):
            fix = "measure it alone (`gpumap bench dot --cases solo`), or leave the device out"
            raise QuestionError(f"the speed of device {number} is {speed:g}", fix)


def _alone(devices: int) -> Diagnostic:
    what = "one device" if devices else "no device: the host alone"
    return Diagnostic("split", f"{what}, nothing to split", severity="note")


def _said(examples: int, counts: Sequence[int]) -> Iterator[Diagnostic]:
    """Yield what a user would not expect: devices without work, examples that are left out."""
    used = sum(count > 0 for count in counts)
    if used < len(counts):
        message = f"{used} of {len(counts)} devices are used for {_counted(examples)}"
        hint = "take a larger batch, or fewer devices"
        yield Diagnostic("split", message, hint=hint, severity="note")
    if left := examples - sum(counts):
        message = f"{left} of {_counted(examples)} left out: they make no whole part more"
        hint = f"take a batch that {used} divides, or the policy balanced"
        yield Diagnostic("split", message, hint=hint, severity="warning")


def _counted(examples: int) -> str:
    return f"{examples} example{'' if examples == 1 else 's'}"
