"""Break-even sizes: a workload on all cores of the host, against a device with its transfers.

What was measured is shown with what was predicted: the sum of what the models of the copies say and
of what the product takes on the device alone. The prediction never sees a whole call.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.calls import DeviceCall, Placed
from gpumap.bench.crossing import curve, predicted, ranges, seen
from gpumap.bench.operands import one_of_each
from gpumap.bench.search import TIMED, Search
from gpumap.bench.transfer import KEY
from gpumap.bench.workloads import WORKLOADS
from gpumap.errors import DeviceError, Unsupported
from gpumap.judge.ceilings import few
from gpumap.model import BreakEven, Case, Estimate, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.crossing import Curve, Point
    from gpumap.bench.search import Looked, World
    from gpumap.bench.workloads import Problem
    from gpumap.model import Binding, Measurement

_RESIDENT = {"moved": "false", "resident": "true"}
_SETUPS = 6  # all values together are an interval of 95 % of their median
_SHORTEST = 1e-9  # seconds of a copy: a clock may be too coarse for it


def break_evens(
    world: World,
    bindings: Sequence[Binding],
    workloads: Sequence[str],
    sizes: Sequence[int],
    rows: Sequence[Measurement],
    end: float,
) -> Iterator[BreakEven]:
    """Yield a decision for each device, workload, and x moved or resident.

    Args:
        world: opened devices.
        bindings: the names of the map.
        workloads: keys of WORKLOADS.
        sizes: bytes of x of the affine workload, whose calls are to be taken apart.
        rows: measured copies, for the prediction.
        end: the moment on the clock at which to come to an end.
    """
    todo = [(b, WORKLOADS[key]) for b in one_of_each(bindings) for key in workloads]
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
        "break_even": seen(points),
        "predicted_break_even": _predicted(search, timed, rows),
        "calls_to_amortise_setup": _amortised(search, timed, points),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def _predicted(search: Search, timed: str, rows: Sequence[Measurement]) -> Estimate | None:
    """Return where the models of copies and products cross; None where one is missing.

    Among the sizes at which calls were looked at: what was seen tells as much, and no more.
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

    seen_at = [float(looked.nbytes) for looked in search.looked.values()]
    miss = max(each.miss for each in (host, compute, down, up))
    return predicted(alone, there_and_back, min(seen_at), max(seen_at), miss)


def _computing(search: Search, what: str) -> Curve | None:
    """Return what the host's call, or the product alone on the device, takes by operations."""
    every = [search.looked[rows] for rows in sorted(search.looked)]
    sizes = [int(search.workload.operations(looked.rows)) for looked in every]
    return curve(sizes, [median(looked.times[what]) for looked in every])


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
        and _of_ladder(row.case, name, direction)
        and not few(row)
    }
    return curve(sorted(found), [found[size] for size in sorted(found)])


def _of_ladder(case: Case, name: str, direction: str) -> bool:
    plain = {"memory": "pageable", "mode": "queued", "pattern": "ladder"}
    same = all(case.params.get(key) == value for key, value in plain.items())
    return same and (case.name, case.names) == (direction, (name,))


def _amortised(search: Search, timed: str, points: Sequence[Point]) -> Estimate | None:
    """Return after how many calls opening, compiling and uploading the weights has paid.

    At the largest size at which the device clearly wins; infinite if it never wins, and None where
    that cannot be told, or no time is left to find out.
    """
    won = [point.nbytes for point in points if point.wins and point.clear]
    if not won and any(point.wins for point in points):
        return None
    if not won:
        return Estimate(math.inf, math.inf, math.inf, "1")
    if not search.left > 0.0:
        return None
    looked = next(one for one in search.looked.values() if one.nbytes == won[-1])
    problem = search.problem(looked.rows)
    try:
        setups = [_setup(search, looked, timed, problem) for _ in range(_SETUPS)]
    except (DeviceError, Unsupported):  # a second session cannot be had
        return None
    gain = looked.gain(timed)
    if gain <= 0.0:  # ratios and differences may have their medians on two sides
        return None
    calls = sorted(setup / gain for setup in setups)
    return Estimate(median(calls), calls[0], calls[-1], "1")


def _setup(search: Search, looked: Looked, timed: str, problem: Problem) -> float:
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
    return max(spent - median(looked.times[timed]), 0.0)
