"""Break-even sizes: a workload on all cores of the host, against a device with its transfers.

What was measured is shown with what was predicted: the sum of what the models of the copies say and
of what the product takes on the device alone. The prediction never sees a whole call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap.backends.base import Clock, Session
from gpumap.bench.calls import DeviceCall, HostCall, Placed, shares
from gpumap.bench.keys import LADDER
from gpumap.bench.transfer import KEY, Params
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.engine.base import Iteration, OpenDevices, Settings, wrong
from gpumap.engine.estimates import located
from gpumap.engine.fit import CLOSE, Point, break_even, curve, predicted, ranges
from gpumap.engine.sampling import Series, calibrate, in_turns
from gpumap.engine.verify import is_hollow, one_of_each, played, worse
from gpumap.errors import DeviceError, OutOfMemory, Unsupported, WrongDataError
from gpumap.judge.inconclusive import too_few
from gpumap.machine.blas import Cores
from gpumap.model import BreakEven, Case, Estimate, Reason, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.bench.workloads import Workload
    from gpumap.engine.fit import Curve
    from gpumap.model import Binding, Check, Measurement, Shares

_PLAIN = {"memory": "pageable", "mode": "queued", "pattern": LADDER}
_RESIDENT = {"moved": "false", "resident": "true"}
_SETUPS = 6  # all values together are an interval of 95 % of their median
_SHORTEST = 1e-9  # seconds of a copy: a clock may be too coarse for it


def break_evens(
    world: World,
    bindings: Sequence[Binding],
    params: Params,
    rows: Sequence[Measurement],
    end: float,
) -> Iterator[BreakEven]:
    """Yield a decision for each device, workload, and x moved or resident.

    Args:
        world: opened devices.
        bindings: the names of the map.
        params: the workloads, and the sizes of x at which calls of affine are taken apart.
        rows: measured copies, for the prediction.
        end: the moment on the clock at which to come to an end.
    """
    sizes = [size.nbytes for size in params.sizes]
    todo = [(b, WORKLOADS[key]) for b in one_of_each(bindings) for key in params.workloads]
    for binding, workload in todo:
        Search(world, binding, workload, end).compile()
    for number, (binding, workload) in enumerate(todo):
        now = world.clock.now()
        search = Search(world, binding, workload, now + (end - now) / (len(todo) - number))
        search.run(sizes if workload.key == "affine" else ())
        yield from (_decision(search, timed, rows) for timed in TIMED)


def _decision(search: Search, timed: str, rows: Sequence[Measurement]) -> BreakEven:
    workload, points = search.workload, search.points(timed)
    known = bool(points) and search.reason is None
    return BreakEven(
        Case(KEY, workload.key, {"resident": _RESIDENT[timed]}, (search.binding,), Work()),
        workload.words,
        "host",
        ranges(points) if known else (),
        max((point.nbytes for point in points), default=0),
        search.why,
        _metrics(search, timed, points, rows) if known else {},
        search.shares if known and timed == "moved" else {},
        search.check,
        search.reason,
    )


def _metrics(
    search: Search, timed: str, points: Sequence[Point], rows: Sequence[Measurement]
) -> dict[str, Estimate]:
    found = {
        "break_even": break_even(points),
        "predicted_break_even": _predicted(search, timed, rows),
        "calls_to_amortise_setup": _amortised(search, timed, points),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _predicted(search: Search, timed: str, rows: Sequence[Measurement]) -> Estimate | None:
    """Return where the models of copies and products cross; None where one is missing.

    Among the sizes at which calls were timed: beyond them nothing is known.
    """
    workload, name = search.workload, search.binding.name
    host, compute = _computing(search, "host"), _computing(search, "compute")
    up, down = copying(rows, name, "h2d"), copying(rows, name, "d2h")
    if host is None or compute is None or up is None or down is None:
        return None

    def alone(nbytes: float) -> float:
        return host.seconds(workload.operations(workload.rows(nbytes)))

    def there_and_back(nbytes: float) -> float:
        size = workload.rows(nbytes)
        away = compute.seconds(workload.operations(size)) + down.seconds(workload.result(size))
        return away + up.seconds(nbytes) if timed == "moved" else away

    seen_at = [float(each.nbytes) for each in search.timings.values()]
    miss = max(each.miss for each in (host, compute, down, up))
    return predicted(alone, there_and_back, min(seen_at), max(seen_at), miss)


def _computing(search: Search, what: str) -> Curve | None:
    """Return what the host's call, or the product alone on the device, takes by operations."""
    every = [search.timings[rows] for rows in sorted(search.timings)]
    sizes = [int(search.workload.operations(each.rows)) for each in every]
    return curve(sizes, [median(each.times[what]) for each in every])


def copying(rows: Sequence[Measurement], name: str, direction: str) -> Curve | None:
    """Return what a copy takes by bytes, as one of many in a queue.

    A call is waited for once, and what it computes on the device has that wait in it already. Of a
    copy with too few samples for an interval nothing is predicted.
    """
    found = {
        int(row.case.params["bytes"]): max(median(row.samples.seconds), _SHORTEST)
        for row in rows
        if row.status == "ok"
        and row.samples
        and (row.case.name, row.case.names) == (direction, (name,))
        and _PLAIN.items() <= row.case.params.items()
        and not too_few(row)
    }
    return curve(sorted(found), [found[size] for size in sorted(found)])


def _amortised(search: Search, timed: str, points: Sequence[Point]) -> Estimate | None:
    """Return after how many calls opening, compiling and uploading the weights has paid.

    At the largest size at which the device clearly wins; infinite if it never wins, and None where
    that cannot be told, or no time is left to find out.
    """
    won = [point.nbytes for point in points if point.wins and point.clear]
    if not won and any(point.wins for point in points):
        return None
    if not won:
        return Estimate.exact(math.inf)
    if not search.left > 0.0:
        return None
    timings = next(one for one in search.timings.values() if one.nbytes == won[-1])
    problem = search.problem(timings.rows)
    try:
        setups = [_setup(search, timings, timed, problem) for _ in range(_SETUPS)]
    except (DeviceError, Unsupported):  # a second session cannot be had
        return None
    gain = timings.gain(timed)
    if gain <= 0.0:  # ratios and differences may have their medians on two sides
        return None
    calls = sorted(setup / gain for setup in setups)
    return Estimate(median(calls), calls[0], calls[-1], "1")


def _setup(search: Search, timings: Timings, timed: str, problem: Problem) -> float:
    """Return the seconds of a first call in a new session beyond those of any later one."""
    world = search.world
    start = world.clock.now()
    session = world.again(search.binding.name)
    placed = Placed(problem, session, proved=False)  # a program would not look
    if timed == "resident":
        placed.upload()
    DeviceCall(placed, upload=timed == "moved").queue()
    spent = world.clock.now() - start
    session.close()
    return max(spent - median(timings.times[timed]), 0.0)


# --- search: calls of one workload on one device and on the host, size by size
#
# The size sweep comes first, then the requested sizes; then the size at which an interpolation
# between two sizes puts the crossing, twice at most. At a size the host's call and the device's are
# timed in turn, block by block, as any benchmark is, and each is proved before and behind that.

CALLS = 100  # of a sample at most, and of what is taken apart: as Theano's users did
TIMED = ("moved", "resident")  # calls for which x is moved, or is there
_BLOCKS = 6  # the fewest of which all values together are an interval of 95 %
_COMPILED = 2  # sizes of the sweep: the smallest may have a kernel of its own, the next has all's
_FIRST = 0.1  # seconds that must be left for the first look, of which nothing is known
_FIXED = 0.05  # seconds of a look, however small it is
_PER_BYTE = 5e-8  # seconds of making and proving the data of a look
_REFINED = 2  # looks at most at a crossing that is interpolated: the second is close to it
_UNTIMED = 3  # iterations of a look, besides its blocks


@dataclass(frozen=True, slots=True)
class World:
    """What is compared with the host; `again` opens one more session on the device of a name."""

    sessions: Mapping[str, Session]
    clock: Clock
    again: Callable[[str], Session]
    cores: Cores
    settings: Settings

    @classmethod
    def of(cls, devices: OpenDevices, settings: Settings) -> World:
        """Return the open devices of a run, and all cores of the host."""
        return cls(devices.sessions, devices.clock, devices.again, Cores(devices.cpus), settings)


@dataclass(frozen=True, slots=True)
class Timings:
    """What calls of one size took: seconds, block by block."""

    rows: int
    nbytes: int
    times: Mapping[str, Sequence[float]]  # of host, moved, resident and compute

    def point(self, timed: str, confidence: float) -> Point:
        """Return how many times as fast as the host a device's call is."""
        pairs = zip(self.times["host"], self.times[timed], strict=True)
        return Point(self.nbytes, located([a / b for a, b in pairs], "1", confidence))

    def gain(self, timed: str) -> float:
        """Return the seconds that a call on the device saves."""
        return median(self.times["host"]) - median(self.times[timed])


class _Wrong(Exception):
    """An answer was wrong: `check` says how. It never leaves this file."""

    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check


class Search:
    """The sizes of one workload on one device, timed one by one."""

    def __init__(self, world: World, binding: Binding, workload: Workload, end: float) -> None:
        self.world = world
        self.binding = binding
        self.workload = workload
        self._end = end
        self.timings: dict[int, Timings] = {}
        self.shares: dict[int, Shares] = {}
        self.why = "largest"
        self.reason: Reason | None = None
        self.check: Check | None = None

    def compile(self) -> None:
        """Let the device compile what small and larger sizes take; what fails, `run` will tell."""
        with suppress(DeviceError, Unsupported, OutOfMemory):
            for rows in self.workload.sweep[:_COMPILED] if self.left > 0.0 else ():
                DeviceCall(Placed(self.problem(rows), self._session), upload=False).queue()
            self._session.synchronize()

    def run(self, sizes: Sequence[int]) -> None:
        """Search the size sweep and the requested size for where the device begins to win."""
        try:
            self._climb()
            self._measure_shares(sizes)
            self._refine()
        except _Wrong as failed:
            self.check = failed.check
            self._lost(wrong(failed.check))
        except OutOfMemory:
            self.why = "memory"
        except (DeviceError, Unsupported, WrongDataError) as error:
            self._lost(Reason(error.code, str(error)))

    def _climb(self) -> None:
        for rows in self.workload.sweep:
            if not self._time_for(rows):
                self.why = "budget"
                return
            self._time_calls(rows)

    def _refine(self) -> None:
        """Look where the device begins to win, as far as it is interpolated."""
        for timed in TIMED:
            for _ in range(_REFINED):
                size = break_even(self.points(timed)).value
                known = [each.nbytes for each in self.timings.values()]
                if not math.isfinite(size) or any(1 / CLOSE < size / n < CLOSE for n in known):
                    break
                rows = round(self.workload.rows(size))
                if not self._time_for(rows):
                    self.why = "budget"
                    return
                self._time_calls(rows)

    def _measure_shares(self, sizes: Sequence[int]) -> None:
        for nbytes in sizes:
            rows = round(self.workload.rows(nbytes))
            if rows and self._time_for(rows, CALLS):
                problem = self.problem(rows)
                placed = Placed(problem, self._session)
                host = HostCall(problem, self.world.clock, self.world.cores)
                self._proved(self._played(DeviceCall(placed, upload=True)))
                self.shares[nbytes] = shares(placed, host, CALLS, self.world.clock)

    @property
    def left(self) -> float:
        """Return the seconds until it has to come to an end."""
        return self._end - self.world.clock.now()

    @property
    def _session(self) -> Session:
        return self.world.sessions[self.binding.name]

    def problem(self, rows: int) -> Problem:
        """Return the data of a size; where the device holds so much of none, hollow ones."""
        hollow = is_hollow(self._session, int(self.workload.nbytes(rows)))
        return Problem(self.workload, rows, self.world.settings.seed, hollow=hollow)

    def _played(self, call: DeviceCall | HostCall) -> Iteration:
        return played(call, self._session, int(self.workload.nbytes(call.problem.size)))

    def _time_calls(self, rows: int) -> None:
        """Time the call of a size on the host and on the device, in turn."""
        calls = self._calls(self.problem(rows))
        iterations = {name: self._played(call) for name, call in calls.items()}
        series = {name: Series(work) for name, work in iterations.items()}
        for each in series.values():
            self._proved(each.iteration)
            calibrate(each, self.world.clock, most=CALLS)
        times = in_turns(series, self.world.clock, _BLOCKS)
        for work in iterations.values():
            self._right(work.check())
        nbytes = int(self.workload.nbytes(rows))
        self.timings[rows] = Timings(rows, nbytes, times)

    def _calls(self, problem: Problem) -> dict[str, DeviceCall | HostCall]:
        placed = Placed(problem, self._session)
        return {
            "host": HostCall(problem, self.world.clock, self.world.cores),
            "moved": DeviceCall(placed, upload=True),
            "resident": DeviceCall(placed, upload=False),
            "compute": DeviceCall(placed, upload=False, download=False),
        }

    def _proved(self, call: Iteration) -> None:
        """Run a call once, on wrong destinations, and raise _Wrong unless it is right."""
        call.poison()
        call.queue()
        self._right(call.check())

    def _right(self, check: Check) -> None:
        if not check.passed:
            raise _Wrong(check)
        self.check = check if self.check is None else worse(self.check, check)

    def _time_for(self, rows: int, calls: int = 0) -> bool:
        """Return whether a look at a size, or so many calls, will end in time, by the last look."""
        left = self.left
        if not self.timings:
            return left > _FIRST
        last = self.timings[max(self.timings)]
        grown = self.workload.operations(rows) / self.workload.operations(last.rows)
        each = {name: grown * median(times) for name, times in last.times.items()}
        if calls:
            return calls * (each["host"] + each["moved"]) < left
        proving = _FIXED + _PER_BYTE * self.workload.nbytes(rows)
        return proving + (_BLOCKS + _UNTIMED) * sum(each.values()) < left

    def _lost(self, reason: Reason) -> None:
        self.why, self.reason = reason.code, reason

    def points(self, timed: str) -> list[Point]:
        """Return how many times as fast as the host the device is at each size, smallest first."""
        confidence = self.world.settings.confidence
        return [self.timings[rows].point(timed, confidence) for rows in sorted(self.timings)]
