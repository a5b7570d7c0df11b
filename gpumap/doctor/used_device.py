"""A device in use by a step: memory and matrices on it, proved and timed."""

from __future__ import annotations

import math
import time
from functools import cached_property, partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpumap.bench.verified_copies import Buffers, HostCopy
from gpumap.engine.base import Iteration, wrong
from gpumap.engine.products import Pair, Product, multiplied
from gpumap.engine.sampling import Series, calibrate, sample
from gpumap.engine.verify import lighten, played
from gpumap.model import Estimate
from gpumap.units import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.backends.base import Clock, Session
    from gpumap.model import Binding

    Found = tuple[str | None, str, Mapping[str, Estimate]]  # a code, a text and figures

SIZE = 512  # of a product
COPY = 4 << 20  # bytes
_DTYPE: Final = "float32"
_SAMPLE = 5e-3  # seconds of a sample
_REPEATS = 6  # all values together are an interval of 95 % of their median


class UsedDevice:
    """An open device; `well` until a step fails there."""

    well = True

    def __init__(self, binding: Binding, number: int, session: Session, clock: Clock) -> None:
        self.name, self.device, self.number = binding.name, binding.device, number
        self.session, self.clock = session, clock
        self.scripted = self.device.backend == "fake"
        self.launches, self._right = 0, np.empty(0)
        lighten(session)

    @cached_property
    def space(self) -> Buffers:
        """Its memory for copies of every byte that is compared."""
        return self.room(COPY)

    def room(self, nbytes: int) -> Buffers:
        """Take memory on it."""
        seed = (1, self.number)
        return Buffers(self.name, self.session, nbytes, "pageable", seed).part(nbytes)

    def moved(self, direction: str) -> Found:
        """Move bytes from the host to it, or back."""
        return copied(HostCopy([self.space], direction, sync=True), self)

    def multiplied(self, size: int) -> Found:
        """Put matrices on it, and prove their product."""
        self.product = Product(self.name, self.session, Pair((1, self.number), size, _DTYPE))
        if (text := disproved(self.work())) is not None:
            return "wrong-data", text, {}
        return None, f"{size} x {size} {_DTYPE} is right", {}

    def work(self) -> Iteration:
        """Return the product as a work."""
        return multiplied([self.product], None, fetched=False)

    def series(self, work: Iteration) -> Series:
        """Return the samples of a work to be; on a scripted device each is an iteration."""
        found = Series(work, warmup=1)
        calibrate(found, self.clock, 0.0 if self.scripted else _SAMPLE, computes=True)
        return found

    def soaked(self, end: float) -> str | None:
        """Multiply until `end`; return what is wrong of a launch: a bit that the first one had."""
        while time.monotonic() < end:
            bits = _launched(self.product)
            self.launches += 1
            if not self._right.size:
                check, self._right = self.product.check(fetched=False), bits
                if not check.passed:
                    return f"launch {self.launches}: {wrong(check).text}"
            if (self._right != bits).any():
                return f"launch {self.launches}: {_bits(self._right, bits)}"
        return None


def copied(copy: Iteration, source: UsedDevice) -> Found:
    """Make a copy once on wrong bytes, compare each; then time some more."""
    work = played(copy, source.session, COPY)
    if (text := disproved(work)) is not None:
        return "wrong-data", text, {}
    seconds = timed(partial(done, work), source.clock)
    text = f"every byte of {memory(COPY)} is right"
    text += f" ({work.route})" if work.route else ""
    if min(seconds) <= 0.0:
        return None, text, {}
    low, value, high = (COPY / each for each in (max(seconds), median(seconds), min(seconds)))
    return None, text, {"bandwidth": Estimate(value, low, high, "B/s")}


def disproved(work: Iteration) -> str | None:
    """Do a work once on wrong destinations; return what is wrong behind it."""
    work.poison()
    done(work)
    check = work.check()
    return None if check.passed else wrong(check).text


def done(work: Iteration) -> None:
    """Do a work, and wait for its end."""
    work.queue()
    work.finish()


def timed(action: Callable[[], object], clock: Clock) -> list[float]:
    """Return the seconds of an action that waits for its end, a few times."""
    seconds = []
    for _ in range(_REPEATS):
        start = clock.now()
        action()
        seconds.append(clock.now() - start)
    return seconds


def in_turns(
    series: Mapping[str, Series],
    clock: Clock,
    blocks: int = _REPEATS,
    begin: Callable[[str], object] = str,
    end: float = math.inf,
) -> dict[str, list[float]]:
    """Return the seconds of each series, in blocks with each once, in alternating order.

    `begin` is called with a name before its sample; no block begins after `end`.
    """
    times: dict[str, list[float]] = {name: [] for name in series}
    order = list(series)
    while blocks > 0 and time.monotonic() < end:
        for name in order:
            begin(name)
            times[name].append(_seconds(series[name], clock))
        order.reverse()
        blocks -= 1
    return times


def _seconds(series: Series, clock: Clock) -> float:
    """Return the seconds of an iteration: by the device's thread, which preemption is not in."""
    taken = sample(series, clock)
    worked = [part.worked for part in taken.intervals.values() if part.worked]
    return worked[0] if worked and series.iterations_per_sample == 1 else taken.seconds


def _launched(product: Product) -> Any:
    """Return the bits of one product, on a destination that was wrong."""
    product.poison()
    product.queue()
    product.session.synchronize()
    landed = np.full(product.out.shape, np.nan, product.out.dtype)
    product.session.download(product.out, landed)
    product.session.synchronize()
    return landed.view(np.uint32)


def _bits(right: Any, found: Any) -> str:
    """Return which bits differ: how many, and those of the first element."""
    changed = right ^ found
    at = int(changed.ravel().nonzero()[0][0])
    count = int(np.unpackbits(changed.view(np.uint8)).sum())
    first = f"element {at} has 0x{found.ravel()[at]:08x} for 0x{right.ravel()[at]:08x}"
    return f"{count} wrong bits, {first}"
