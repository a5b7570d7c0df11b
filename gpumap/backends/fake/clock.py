"""The clock of scripted devices, and the engines that work by it.

The memory of scripted devices: data, or only the knowledge whether they are spoilt.

What a benchmark moves and multiplies there may be far too large to be really kept. Such memory has
no data: it knows whether a command that was due to go wrong has written to it, directly or by what
it was made of. A benchmark's round asks for that in the place of looking at data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isclose, prod
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import Clock, check_reshape, contiguous
from gpumap.backends.fake.noise import Unevenness
from gpumap.backends.fake.script import FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    Array = np.ndarray[Any, Any]


_DRAWN = 1000  # equal rounds in a row, for which what differs is drawn


class Memory:
    """Elements of one allocation, in a row; data are made when they are first looked at."""

    __slots__ = ("__weakref__", "_data", "_spoilt", "dtype", "hollow", "size")

    def __init__(self, size: int, dtype: np.dtype[Any], *, hollow: bool) -> None:
        self.size, self.dtype, self.hollow = size, dtype, hollow
        self._spoilt: list[tuple[int, int]] = []  # from which element to which
        self._data: Array | None = None

    def write(self, start: int, stop: int, *, spoilt: bool) -> None:
        """Note that elements are written, rightly or not."""
        parts = (p for a, b in self._spoilt for p in ((a, min(b, start)), (max(a, stop), b)))
        self._spoilt = [(a, b) for a, b in parts if a < b]
        if spoilt:
            self._spoilt.append((start, stop))

    def is_spoilt(self, start: int, stop: int) -> bool:
        """Return whether something wrong was written to any of the elements."""
        return any(a < stop and start < b for a, b in self._spoilt)

    @property
    def data(self) -> Array:
        """Return the elements; at first whatever is there."""
        if self.hollow:
            raise AssertionError("a scripted device has no data here")
        if self._data is None:
            import numpy as np

            self._data = np.empty(self.size, self.dtype)
        return self._data


class FakeBuffer:
    """An array in memory that plays a device's, or a part of one."""

    def __init__(
        self, session: Any, memory: Memory, shape: tuple[int, ...], start: int = 0
    ) -> None:
        self.session = session  # a FakeSession
        self.memory = memory
        self.shape = shape
        self.dtype = memory.dtype
        self._start, self._size = start, prod(shape)
        self.nbytes: int = self._size * memory.dtype.itemsize

    @property
    def native(self) -> Array:
        """The elements, in NumPy's array."""
        return self.memory.data[self._start : self._start + self._size].reshape(self.shape)

    @property
    def hollow(self) -> bool:
        """Whether there are no data."""
        return self.memory.hollow

    @property
    def spoilt(self) -> bool:
        """Whether something wrong was written there."""
        return self.memory.is_spoilt(self._start, self._start + self._size)

    def write(self, *, hollow: bool, spoilt: bool) -> bool:
        """Note what is written over all of it; return whether there is data to write.

        Of a part the rest of the memory stays what it is: hollow memory has no data anywhere.
        """
        memory, whole = self.memory, self._size == self.memory.size
        memory.hollow = hollow or (memory.hollow and not whole)
        memory.write(self._start, self._start + self._size, spoilt=spoilt)
        return not memory.hollow

    def __getitem__(self, rows: slice) -> FakeBuffer:
        rows = contiguous(rows, self.shape[0])
        width = prod(self.shape[1:])
        shape = (rows.stop - rows.start, *self.shape[1:])
        return FakeBuffer(self.session, self.memory, shape, self._start + rows.start * width)

    def reshape(self, shape: tuple[int, ...]) -> FakeBuffer:
        """Return a view of the same elements in another shape."""
        check_reshape(self.shape, shape)
        return FakeBuffer(self.session, self.memory, shape, self._start)


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
    if len(before) != len(step) or not all(map(isclose, before, step)):
        return False
    host, *engines = step
    moved = sorted(seconds for seconds in engines if seconds > 0.0)
    if not moved:
        return True
    ahead = host < moved[0] or isclose(host, moved[0])
    return ahead and (not joined or isclose(moved[0], moved[-1]))


@dataclass(slots=True)
class Engine:
    """What works off commands: one device's own, or shared by several that never overlap."""

    free: float = 0.0  # the moment at which it has done all it was given
    uneven: dict[str, Unevenness] = field(default_factory=dict)  # of each of its devices, by id
