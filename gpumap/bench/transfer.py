"""Cost of copies between the host and each device, and between devices.

Cases, each at every size:

    h2d, d2h   host to device and back; alone, and all names together against the first one alone
    bidir      both at once, on two queues of one device, and each way, which it is judged by
    d2d        from one device to another, for each ordered pair, by the route that is really taken
    affine, product    what copies cost a program: `gpumap.bench.breakeven`

Each as one synchronous call (`sync`: queued and waited for) and as one of many in a queue
(`queued`: the spacing of copies behind each other). These are two different costs, but of more than
16 MiB. Besides the requested sizes, a size sweep is measured for a model of their cost: all its
sizes in each block. Destinations are poisoned and compared byte for byte.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.bench.breakeven import Calls, calls_of
from gpumap.bench.cost_models import HELD_BACK
from gpumap.bench.keys import LADDER, is_call
from gpumap.bench.link_limit import limit as link_limit
from gpumap.bench.transfer_headline import is_plain
from gpumap.bench.verified_copies import BothWays, Buffers, HostCopy, PairCopy
from gpumap.bench.workloads import LARGEST, WORKLOADS
from gpumap.engine.base import Benchmark, Iteration, OpenDevices
from gpumap.engine.estimates import gains, per_time, time_of
from gpumap.engine.verify import one_of_each, played
from gpumap.machine.blas import Cores
from gpumap.model import Binding, Case, Group, Plan, Work, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.engine.base import Blocks, Figures
    from gpumap.model import Limit, Param, Samples

    Able = Mapping[str, Sequence[Binding]]  # by the kind of host memory that their devices have

KEY = "transfer"
CASES = ("h2d", "d2h", "bidir", "d2d", *WORKLOADS)
# 64 B to 16 MiB, closer where the levels of a core's caches end.
SWEEP = (*(64 * 8**n for n in range(5)), 1 << 20, 1 << 22, 1 << 24)
# In matrices as large as the largest, of calls of all sizes:
_MATRICES = 9  # on a device
_PROOFS, _WRITTEN = 10, 6  # on the host: for all, and what the calls of a device write
_MODES = ("sync", "queued")
_FEW = 8  # devices: of more there are too many pairs for every size and way
_WAYS = ("h2d", "d2h")


class Params(NamedTuple):
    """Which sizes to move, in which cases, with which random bytes, and up to which model size."""

    sizes: tuple[int, ...]
    cases: tuple[str, ...] = CASES
    seed: int = 1
    sweep: tuple[int, ...] = (*SWEEP, HELD_BACK)

    @property
    def ways(self) -> tuple[str, ...]:
        """Return the directions that are measured: both, where both at once are judged by them."""
        return tuple(way for way in _WAYS if {way, "bidir"} & {*self.cases})

    @property
    def workloads(self) -> tuple[str, ...]:
        """Return the workloads whose break-even is requested; without a model there are none."""
        return tuple(case for case in self.cases if case in WORKLOADS) if self.sweep else ()


def plan(bindings: Sequence[Binding], sessions: Mapping[str, Session], params: Params) -> Plan:
    """Return a group for each size, one for the sweep, and one for the calls."""
    able = _able(bindings, sessions)
    groups = [_group(able, size, params) for size in params.sizes]
    sweep = tuple(_sweep_cases(able, params))
    groups.append(Group(sweep, LADDER, _spread(sweep), extra=True))
    groups.append(calls_of(bindings, [WORKLOADS[key] for key in params.workloads]))
    found = sorted((group for group in groups if group.cases), key=lambda group: group.insists)
    return replace(needs(bindings, params, sessions), groups=tuple(found))


def _group(able: Able, size: int, params: Params) -> Group:
    """Return the copies of a size; what a gate judges of it is measured alone at first."""
    cases = tuple(_sized(able, size, params))
    modes = _modes(size)
    judged = {"sync"} if size == min(params.sizes) else set()
    judged |= {modes[-1]} if size == max(params.sizes) else set()
    first = {n for n, case in enumerate(cases) if is_plain(case) and case.params["mode"] in judged}
    places = sorted(range(len(cases)), key=lambda n: (n not in first, *_rank(cases[n])))
    late, order = size > max(SWEEP), tuple((place,) for place in places)
    return Group(cases, f"{size}B", order, first=len(first), insists=late)


def _modes(nbytes: int) -> tuple[str, ...]:
    """Return how copies of a size are made: of the largest a wait is no part, and one way tells."""
    return _MODES if nbytes <= max(SWEEP) else _MODES[:1]


def needs(bindings: Sequence[Binding], params: Params, sessions: Mapping[str, Session]) -> Plan:
    """Return a plan of no cases, with the memory that the largest size takes."""
    largest = max((*params.sizes, *params.sweep))
    memory = dict.fromkeys((b.device.id for b in bindings), 0)
    host, first = 0, one_of_each(bindings)
    for binding in bindings:
        pinned = "pinned" in sessions[binding.name].features
        taken = 2 * largest * (2 if pinned else 1)  # and as many on the host
        taken *= 2 if "bidir" in params.cases and binding in first else 1  # and the way back
        memory[binding.device.id] += taken
        host += taken
    if params.workloads:  # x, w, y and what proves them
        memory = {id_: taken + _MATRICES * LARGEST for id_, taken in memory.items()}
        host += (_PROOFS + _WRITTEN * len(first)) * LARGEST
        largest = max(largest, LARGEST)
    return Plan((), {**memory, "host": host}, largest)


class Transfer(Benchmark):
    """The copies of a plan, on open devices; copies both ways need two queues of a device."""

    key = KEY
    work = "whole"

    def __init__(self, devices: OpenDevices, params: Params) -> None:
        self.plan = plan(devices.bindings, devices.sessions, params)
        self._sessions, self._again = devices.sessions, devices.again
        self._params = params
        self._names = [binding.name for binding in devices.bindings]
        self._largest = 0
        self._buffers: dict[tuple[str, str], Buffers] = {}
        self._calls = Calls(devices, Cores(devices.cpus), params.seed)

    def begin(self, group: Group) -> None:
        """Let go of the buffers of the group before."""
        self._calls.begin()
        self._largest = max(int(case.params["bytes"]) for case in group.cases)
        self._buffers = {}

    def iteration(self, case: Case) -> Iteration:
        """Return a case's copies; the group's buffers are allocated when first needed."""
        if is_call(case):
            return self._calls.iteration(case)
        session, nbytes = self._sessions[case.names[0]], int(case.params["bytes"])
        return played(self._copies(case), session, self._largest, nbytes)

    def _copies(self, case: Case) -> Iteration:
        sync, memory = case.params["mode"] == "sync", str(case.params["memory"])
        nbytes = int(case.params["bytes"])
        if case.name == "d2d":
            source, target = (self._slice(name, "pageable", nbytes) for name in case.names)
            return PairCopy(source, target, sync=sync)
        buffers = [self._slice(name, memory, nbytes) for name in case.names]
        if case.name == "bidir":
            return BothWays(buffers[0], self._slice(case.names[0], memory, nbytes, back=True))
        return HostCopy(buffers, case.name, sync=sync)

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:
        """Return time or spacing, bandwidth, what copies at once gain; of calls the time."""
        time = time_of(samples, confidence)
        if is_call(case):
            return {"time": time}
        moved = case.work.bytes_to_device + case.work.bytes_to_host
        name = "time" if case.params["mode"] == "sync" else "issue_interval"
        figures = {name: time, "bandwidth": per_time(moved, time, "B/s")}
        alone = {"speedup": _sequential_times(case, blocks)}
        return figures | gains(alone, blocks[case.id], confidence)

    def limit(self, case: Case) -> Limit | None:
        """Return what the links to the devices carry; nothing is known of other routes."""
        if case.name == "d2d" or is_call(case):
            return None
        return link_limit((b.device for b in case.bindings), 2 if case.name == "bidir" else 1)

    def _slice(self, name: str, memory: Any, nbytes: int, *, back: bool = False) -> Buffers:
        key = (name, f"{memory} back" if back else memory)
        if key not in self._buffers:
            session = self._again(name) if back else self._sessions[name]
            seed = (self._params.seed, 2 * self._names.index(name) + back)
            self._buffers[key] = Buffers(name, session, self._largest, memory, seed)
        return self._buffers[key].part(nbytes)


def _sequential_times(case: Case, blocks: Blocks) -> dict[int, float]:
    """Return what the same bytes take one after the other, in each block; none: not compared."""
    first = blocks.get(case.against or "", {})
    if case.then is None:
        return {block: len(case.names) * seconds for block, seconds in first.items()}
    back = blocks.get(case.then, {})
    return {block: seconds + back[block] for block, seconds in first.items() if block in back}


def _sized(able: Able, size: int, params: Params) -> Iterator[Case]:
    keys: dict[str, Param] = {"bytes": size}
    bindings = able["pageable"]
    for memory, having in able.items():
        for direction in params.ways:
            yield from _host(having, {**keys, "memory": memory}, direction)
            together = {**keys, "memory": memory, "pattern": "together", "mode": "sync"}
            if len(having) == len(bindings) > 1:  # of all names at once, against the first alone
                first = _case(direction, {**together, "pattern": "alone"}, (having[0],))
                yield replace(_case(direction, together, tuple(having)), against=first.id)
        if "bidir" in params.cases:
            yield from _both_ways(having, {**keys, "memory": memory})
    if "d2d" in params.cases:
        largest = size == max(params.sizes)
        for mode in _modes(size):
            whole = _all_pairs(bindings) or (largest and mode == "sync")
            for pair in _pairs(bindings) if whole else ():
                device = {**keys, "memory": "device", "mode": mode, "pattern": "alone"}
                yield _case("d2d", device, pair)


def _able(bindings: Sequence[Binding], sessions: Mapping[str, Session]) -> Able:
    """Return the names whose devices have each kind of host memory: pageable memory is there."""
    pinned = [binding for binding in bindings if "pinned" in sessions[binding.name].features]
    return {"pageable": bindings, "pinned": pinned}


def _host(bindings: Sequence[Binding], keys: Mapping[str, Param], direction: str) -> Iterator[Case]:
    for mode in _modes(int(keys["bytes"])):
        for binding in one_of_each(bindings):
            yield _case(direction, {**keys, "pattern": "alone", "mode": mode}, (binding,))


def _both_ways(bindings: Sequence[Binding], keys: Mapping[str, Param]) -> Iterator[Case]:
    """Yield copies both ways at once, against one way after the other."""
    for binding in one_of_each(bindings):
        one = {**keys, "mode": "sync", "pattern": "alone"}
        there, back = (_case(way, one, (binding,)).id for way in _WAYS)
        case = _case("bidir", {**one, "pattern": "together"}, (binding,))
        yield replace(case, against=there, then=back)


def _sweep_cases(able: Able, params: Params) -> Iterator[Case]:
    """Yield the model's cases, size by size."""
    bindings = able["pageable"]
    pairs = list(_pairs(bindings)) if "d2d" in params.cases and _all_pairs(bindings) else []
    ways = [way for way in _WAYS if way in params.cases]
    for nbytes in sorted(params.sweep):
        for mode in _MODES:
            keys: dict[str, Param] = {"bytes": nbytes, "mode": mode, "pattern": LADDER}
            for memory, having in able.items():
                first = one_of_each(having)
                for way in ways:
                    yield from (_case(way, {**keys, "memory": memory}, (b,)) for b in first)
            yield from (_case("d2d", {**keys, "memory": "device"}, pair) for pair in pairs)


def _rank(case: Case) -> tuple[bool, ...]:
    """Return what sorts single copies of plain memory first, to and from the host."""
    return (
        case.params["memory"] == "pinned",
        case.name == "bidir",
        case.params["mode"] == "queued",
        case.params["pattern"] == "together",
        case.name == "d2d",
    )


def _spread(sweep: Sequence[Case]) -> tuple[tuple[int, ...], ...]:
    """Return the places of cases, widely spread sizes first, what the fit is held to among them.

    Few sizes over the whole range tell more of a line than many at one end of it.
    """
    sizes = [int(case.params["bytes"]) for case in sweep]
    steps = sorted({*sizes} - {HELD_BACK})
    order = (*steps[::2], HELD_BACK, *steps[1::2])
    places = sorted(range(len(sweep)), key=lambda place: order.index(sizes[place]))
    return tuple((place,) for place in places)


def _all_pairs(bindings: Sequence[Binding]) -> bool:
    """Return whether pairs are copied in every way: of more devices only at the largest size."""
    return len(one_of_each(bindings)) <= _FEW


def _pairs(bindings: Sequence[Binding]) -> Iterator[tuple[Binding, Binding]]:
    """Yield each ordered pair of devices, and one pair of names of one device if there is one."""
    first = one_of_each(bindings)
    yield from permutations(first, 2)
    named = {binding.device.id: binding for binding in first}
    others = (b for b in bindings if b is not named[b.device.id])
    yield from ((named[b.device.id], b) for b in list(others)[:1])


def _case(name: str, params: Mapping[str, Param], bindings: tuple[Binding, ...]) -> Case:
    nbytes = int(params["bytes"])
    moved = {
        "h2d": Work(bytes_to_device=nbytes * len(bindings)),
        "d2h": Work(bytes_to_host=nbytes * len(bindings)),
        "bidir": Work(bytes_to_device=nbytes, bytes_to_host=nbytes),
        "d2d": Work(bytes_to_device=nbytes),
    }
    swept, ordered = params["pattern"] == LADDER, name == "d2d"
    return Case(KEY, name, params, bindings, moved[name], ordered=ordered, swept=swept)
