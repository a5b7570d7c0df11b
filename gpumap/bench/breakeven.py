"""Break-even sizes: a workload on all cores of the host, against a device with its transfers.

Cases, at each size of x, all in one group of a few blocks:

    affine, product   the call on a device, x moved for each or resident there; against `host`
    host              the call by NumPy, with all cores

Small sizes come first: what the time has no room for are the large ones. What follows from all
sizes is in the row of the smallest: `with_break_evens`.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from gpumap.bench.calls import DeviceCall, HostCall, Placed
from gpumap.bench.keys import HOST, LADDER
from gpumap.bench.sweeps import sweeps
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.engine.fit import break_even
from gpumap.engine.stopping import FEWEST
from gpumap.engine.verify import one_of_each, played
from gpumap.errors import NoHostMemory, OutOfMemory
from gpumap.model import Binding, Case, Group, Measurement, Work, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.workloads import Workload
    from gpumap.engine.base import Iteration, OpenDevices
    from gpumap.machine.blas import Cores
    from gpumap.model import Param, Role

KEY = "transfer"


class Calls:
    """Calls of workloads on each device and on the host, at every size."""

    def __init__(self, devices: OpenDevices, cores: Cores, seed: int = 1) -> None:
        self._devices, self._cores, self._seed = devices, cores, seed
        self._placed: dict[tuple[str, str, int], Placed] = {}
        self._problems: dict[tuple[str, int], Problem] = {}

    def begin(self) -> None:
        """Let go of all data."""
        self._placed, self._problems = {}, {}

    def iteration(self, case: Case) -> Iteration:
        """Return a call; a device without room for its data is well, and the row says so."""
        try:
            work = self._call(case)
        except OutOfMemory as error:
            raise NoHostMemory(str(error)) from error
        return played(work, self._devices.sessions[case.names[0]], int(case.params["bytes"]))

    def _call(self, case: Case) -> Iteration:
        workload = WORKLOADS[str(case.params.get("workload", case.name))]
        rows = workload.rows(int(case.params["bytes"]))
        session, size = self._devices.sessions[case.names[0]], (workload.key, rows)
        if size not in self._problems:
            self._problems[size] = Problem(workload, rows, self._seed, session)
        if case.name == HOST:
            return HostCall(self._problems[size], self._devices.clock, self._cores)
        key = (case.names[0], *size)
        if key not in self._placed:
            self._placed[key] = Placed(self._problems[size], session)
        return DeviceCall(self._placed[key], upload=case.params["resident"] == "false")


def calls_of(bindings: Sequence[Binding], workloads: Sequence[Workload]) -> Group:
    """Return the calls of all sizes, those with the fewest operations first.

    The calls of a size are kept or left out together.
    """
    sizes = [(workload, rows) for workload in workloads for rows in workload.sweep]
    sizes.sort(key=lambda size: size[0].operations(size[1]))
    first = one_of_each(bindings)
    units = [[*_calls(workload, rows, first)] for workload, rows in sizes]
    ends = accumulate(map(len, units), initial=0)
    order = tuple(tuple(range(start, stop)) for start, stop in pairwise(ends))
    cases = tuple(case for unit in units for case in unit)
    return Group(cases, "calls", order, extra=True, blocks=FEWEST)


def _calls(workload: Workload, rows: int, bindings: Sequence[Binding]) -> Iterator[Case]:
    """Yield the calls of a size, the host's before those that are relative to it."""
    host = _case(HOST, workload, rows, bindings[0], {"workload": workload.key})
    yield host
    for binding in bindings:
        for resident in ("false", "true"):  # x is moved for each call, or is there
            case = _case(workload.key, workload, rows, binding, {"resident": resident})
            yield replace(case, against=host.id)


def _case(
    name: str, workload: Workload, rows: int, binding: Binding, more: dict[str, Param]
) -> Case:
    """Return the case of a call; the smallest of a sweep stands for the whole of it."""
    head = name != HOST and rows == workload.sweep[0]
    params: dict[str, Param] = {"bytes": workload.nbytes(rows), "memory": "pageable"}
    params |= {"mode": "sync", "pattern": "alone" if head else LADDER, **more}
    role: Role = "host" if name == HOST else "measured"
    work = Work(operations=workload.operations(rows))
    return Case(KEY, name, params, (binding,), work, role=role, swept=not head)


def with_break_evens(rows: Sequence[Measurement], confidence: float) -> list[Measurement]:
    """Return rows, those that stand for a sweep of calls with the size from which on it pays."""
    found = {}
    for sweep in sweeps(rows):
        points = sweep.points(confidence)
        if points and not sweep.failed:
            found[sweep.head.case.id] = {"break_even": break_even(points)}
    return [replace(row, metrics={**row.metrics, **found.get(row.case.id, {})}) for row in rows]
