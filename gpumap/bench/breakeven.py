"""Break-even sizes: a workload on all cores of the host, against a device with its transfers.

Cases, in a group of a few blocks for each size of x:

    affine, product   the call on a device, x moved for each or resident there; against `host`
    host              the call by NumPy, with all cores
    parts             a call with x moved, its parts told apart
    setup             the first call in a new session

The smallest size is planned. What follows depends on what was measured (`Calls.following`): the
size at which an interpolation puts a crossing, twice at most; the next size of the sweep, or a
requested one; and the set-up where the device clearly wins. What follows from all of them is in
the row of the smallest size: `with_break_evens`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpumap.bench.calls import DeviceCall, HostCall, PartsCall, Placed, SetUp
from gpumap.bench.keys import LADDER
from gpumap.bench.sweeps import Sweep, sweeps, workload_of
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.engine.base import Benchmark, Iteration, OpenDevices
from gpumap.engine.estimates import time_of
from gpumap.engine.fit import CLOSE, break_even
from gpumap.engine.stopping import FEWEST
from gpumap.engine.verify import is_hollow, one_of_each, played
from gpumap.errors import NoHostMemory, OutOfMemory
from gpumap.model import Binding, Case, Estimate, Group, Measurement, Plan, Work, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.bench.workloads import Workload
    from gpumap.engine.fit import Point
    from gpumap.machine.blas import Cores
    from gpumap.model import Param, Role, Samples

KEY = "transfer"
RESIDENT = ("false", "true")  # x is moved for each call, or is there
_ROLES: dict[str, Role] = {"host": "host"}
_REFINED = 2  # sizes at most at a crossing that is interpolated: the second is close to it


class _Size(NamedTuple):
    """A size that is to be measured: all calls of it, or its parts and the host alone."""

    workload: Workload
    rows: int
    parts: bool = False


class Calls(Benchmark):
    """Calls of workloads on each device and on the host, size by size."""

    key = KEY

    def __init__(
        self,
        devices: OpenDevices,
        cores: Cores,
        workloads: Sequence[Workload],
        sizes: Sequence[int] = (),
        seed: int = 1,
    ) -> None:
        """Plan the smallest size of each workload.

        Args:
            devices: the names of the map.
            cores: of the host.
            workloads: whose break-even is requested.
            sizes: bytes of x at which calls of affine are taken apart.
            seed: of the data.
        """
        self._devices, self._cores, self._seed = devices, cores, seed
        self._bindings = one_of_each(devices.bindings)
        self._workloads = {workload.key: workload for workload in workloads}
        self._waiting = _waiting(workloads, sizes)
        self._measured: list[Measurement] = []
        self._refined: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._placed: dict[tuple[str, str, int], Placed] = {}
        self._problems: dict[tuple[str, int], Problem] = {}
        first = [_Size(workload, workload.sweep[0]) for workload in workloads]
        cases = [[*_calls(size, self._bindings, first=True)] for size in first]
        self.plan = Plan((_group("calls", *cases),) if first else ())

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the data of the size before."""
        self._placed, self._problems = {}, {}

    def iteration(self, case: Case) -> Iteration:
        """Return a call; a device without room for its data is well, and the row says so."""
        try:
            work = self._call(case)
        except OutOfMemory as error:
            raise NoHostMemory(str(error)) from error
        return played(work, self._devices.sessions[case.names[0]], int(case.params["bytes"]))

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the time of each call."""
        return {c.id: {"time": time_of(samples[c.id], confidence)}
                for c in group.cases if c.id in samples}  # fmt: skip

    def following(self, group: Group, rows: Sequence[Measurement]) -> Group | None:  # noqa: ARG002
        """Return the next size, as far as the rows so far ask for one."""
        self._measured += rows
        return next(self._next(), None)

    def _next(self) -> Iterator[Group]:
        for sweep in sweeps(self._measured):
            if (rows := self._crossing(sweep)) is not None:
                size = _Size(self._workloads[sweep.workload], rows)
                yield _group("calls", [*_calls(size, sweep.head.case.bindings)])
        while self._waiting:
            size = self._waiting.pop(0)
            if able := self._able(size.workload):
                yield _group("calls", [*_calls(size, able)])
        for sweep in sweeps(self._measured):
            if (point := sweep.largest_win()) is not None and not sweep.of("setup"):
                yield _group("calls", [_setup(sweep, point.nbytes)])

    def _able(self, workload: Workload) -> list[Binding]:
        """Return the devices on which each smaller size was measured."""
        rows = [row for row in self._measured if workload_of(row.case) == workload.key]
        lost = {row.case.bindings[0].name for row in rows if row.status != "ok"}
        return [binding for binding in self._bindings if binding.name not in lost]

    def _crossing(self, sweep: Sweep) -> int | None:
        """Return the rows of a size at which a crossing is expected, and none is near."""
        if self._refined[sweep.key] == _REFINED or not sweep.points():
            return None
        workload, size = self._workloads[sweep.workload], break_even(sweep.points()).value
        near = any(1 / CLOSE < size / nbytes < CLOSE for nbytes in sweep.tried)
        if near or not math.isfinite(size):
            return None
        self._refined[sweep.key] += 1
        rows = round(workload.rows(size))
        return None if int(workload.nbytes(rows)) in sweep.tried else rows

    def _call(self, case: Case) -> Iteration:
        workload, nbytes = self._workloads[workload_of(case)], int(case.params["bytes"])
        problem = self._problem(workload, round(workload.rows(nbytes)), case.names[0])
        clock = self._devices.clock
        if case.name == "host":
            return HostCall(problem, clock, self._cores)
        resident = case.params.get("resident") == "true"
        if case.name == "setup":
            again = self._devices.again
            return SetUp(problem, lambda: again(case.names[0]), upload=not resident)
        placed = self._place(problem, case.names[0])
        if case.name == "parts":
            return PartsCall(placed, clock)
        return DeviceCall(placed, upload=not resident)

    def _problem(self, workload: Workload, rows: int, name: str) -> Problem:
        """Return the data of a size; where the device holds so much of none, hollow ones."""
        if (workload.key, rows) not in self._problems:
            hollow = is_hollow(self._devices.sessions[name], int(workload.nbytes(rows)))
            problem = Problem(workload, rows, self._seed, hollow=hollow)
            self._problems[workload.key, rows] = problem
        return self._problems[workload.key, rows]

    def _place(self, problem: Problem, name: str) -> Placed:
        key = (name, problem.workload.key, problem.size)
        if key not in self._placed:
            self._placed[key] = Placed(problem, self._devices.sessions[name])
        return self._placed[key]


def _waiting(workloads: Sequence[Workload], sizes: Sequence[int]) -> list[_Size]:
    """Return the sizes behind the smallest, those with the fewest operations first."""
    found = [_Size(workload, rows) for workload in workloads for rows in workload.sweep[1:]]
    for workload in workloads:
        apart = [round(workload.rows(nbytes)) for nbytes in sizes if workload.key == "affine"]
        found += [_Size(workload, rows, parts=True) for rows in apart if rows]
    return sorted(found, key=lambda size: size.workload.operations(size.rows))


def _group(key: str, *units: Sequence[Case]) -> Group:
    """Return a group of cases, of which those of a unit are kept or left out together."""
    cases = [case for unit in units for case in unit]
    ends = accumulate(map(len, units), initial=0)
    order = tuple(tuple(range(start, stop)) for start, stop in pairwise(ends))
    return Group(tuple(cases), key, order, extra=True, blocks=FEWEST)


def _calls(size: _Size, bindings: Sequence[Binding], *, first: bool = False) -> Iterator[Case]:
    """Yield the calls of a size, the host's before those that are relative to it."""
    workload, nbytes = size.workload, int(size.workload.nbytes(size.rows))
    host = _case("host", workload, nbytes, bindings[0])
    yield host
    for binding in bindings:
        if size.parts:
            yield replace(_case("parts", workload, nbytes, binding), against=host.id)
            continue
        for resident in RESIDENT:
            case = _case(workload.key, workload, nbytes, binding, resident, first=first)
            yield replace(case, against=host.id)


def _setup(sweep: Sweep, nbytes: int) -> Case:
    case = sweep.head.case
    workload, resident = WORKLOADS[sweep.workload], str(case.params["resident"])
    return _case("setup", workload, nbytes, case.bindings[0], resident)


def _case(
    name: str,
    workload: Workload,
    nbytes: int,
    binding: Binding,
    resident: str = "",
    *,
    first: bool = False,
) -> Case:
    """Return the case of a call; the smallest of a sweep stands for the whole of it."""
    params: dict[str, Param] = {"bytes": nbytes, "memory": "pageable", "mode": "sync"}
    params["pattern"] = "alone" if first else LADDER
    if name != workload.key:
        params["workload"] = workload.key
    if resident:
        params["resident"] = resident
    work = Work(operations=int(workload.operations(workload.rows(nbytes))))
    role = _ROLES.get(name, "measured")
    return Case(KEY, name, params, (binding,), work, role=role, swept=not first)


# --- what follows from the calls of all sizes


def with_break_evens(rows: Sequence[Measurement], confidence: float) -> list[Measurement]:
    """Return rows, those that stand for a sweep of calls with what follows from it."""
    metrics = {s.head.case.id: _metrics(s, confidence) for s in sweeps(rows)}
    return [replace(row, metrics={**row.metrics, **metrics.get(row.case.id, {})}) for row in rows]


def _metrics(sweep: Sweep, confidence: float) -> dict[str, Estimate]:
    points = sweep.points(confidence)
    if not points or any(row.status == "failed" for row in sweep.of(sweep.workload).values()):
        return {}
    found = {
        "break_even": break_even(points),
        "calls_to_amortise_setup": _amortised(sweep, points),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _amortised(sweep: Sweep, points: Sequence[Point]) -> Estimate | None:
    """Return after how many calls opening, compiling and uploading the weights has paid.

    At the largest size at which the device clearly wins; infinite if it never wins, and None where
    that cannot be told, or no time was left to find out.
    """
    won = [point for point in points if point.wins]
    clear = [point for point in won if point.clear]
    if not clear:
        return None if won else Estimate.exact(math.inf)
    nbytes = clear[-1].nbytes
    setup, call = sweep.of("setup").get(nbytes), _typical(sweep.calls[nbytes])
    gain = _typical(sweep.hosts[nbytes]) - call
    # ratios and differences may have their medians on two sides
    if setup is None or setup.status != "ok" or setup.samples is None or gain <= 0.0:
        return None
    calls = sorted(max(seconds - call, 0.0) / gain for seconds in setup.samples.seconds)
    return Estimate(median(calls), calls[0], calls[-1], "1")


def _typical(row: Measurement) -> float:
    """Return the median of a row's samples, in seconds."""
    return median(row.samples.seconds) if row.samples else 0.0
