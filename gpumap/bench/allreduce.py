"""The exchanges of data-parallel programs: allreduce, and its halves.

An allreduce leaves every rank with the sum over all ranks, a reduce-scatter with its slice of that;
by an all-gather every rank gets the slices of all others. Cases, one for each algorithm, at each
size in bytes of float32:

    native     the library's own: MPI's or NCCL's
    host       to the host, summed there, and back; between processes to rank 0 and back
    ring, alltoall, tree    the schedules of `gpumap.distributed.algorithms`

With several tensors each algorithm runs twice: tensor by tensor, and on one buffer that they are
copied into and back. Between cores the largest size is measured with cold buffers too, everything
else with warm ones alone. Besides the requested sizes a size sweep is measured, for the model of
`gpumap.engine.estimates`. Results are compared bit for bit (`gpumap.bench.exchanges`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.bench.exchanges import ITEM, Job, Wire, pooled
from gpumap.bench.keys import LADDER, ExchangeKey
from gpumap.bench.registry import MODEL, BenchmarkSpec, CaseSpec, Column, Family, size_of
from gpumap.distributed.algorithms import OPERATIONS, bus_factor
from gpumap.engine.base import COMPARABLE, Benchmark
from gpumap.engine.estimates import by_block, per_time, ratio, time_of
from gpumap.engine.sizes import KEYS, Size, size_text
from gpumap.errors import QuestionError
from gpumap.judge.doubts import about, doubtful, largest, other_doubts, unsupported
from gpumap.judge.inconclusive import too_few
from gpumap.judge.phrases import amount, answer, interval, value
from gpumap.model import Binding, Case, Estimate, Group, Plan, Reason, Work, replace
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.bench.exchanges import LocalRanks
    from gpumap.bench.mpi_ranks import MpiRanks
    from gpumap.engine.base import Iteration
    from gpumap.model import Headline, Measurement, Param, Report, Role, Samples

    Ranks = LocalRanks | MpiRanks  # the devices of a process, or processes

KEY = "allreduce"
ALGORITHMS = ("native", "host", "ring", "alltoall", "tree")
COMMS = ("local", "mpi", "nccl")
WIRES: tuple[Wire, ...] = ("float32", "float16")
SWEEP = tuple(64 * 8**n for n in range(7))  # 64 B to 16 MiB, as between host and device
_NATIVE, _TREE = "native", "tree"
_DOING = {
    "allreduce": "Summing",
    "reduce-scatter": "Summing and scattering",
    "all-gather": "Gathering",
}
_CLEARLY = 1.1  # times as fast: it is worth another choice


@dataclass(frozen=True, slots=True)
class Params:
    """Which sizes to exchange, how, in how many tensors, and up to which model size.

    Without algorithms all are selected that the ranks have for the operation.
    """

    sizes: tuple[Size, ...]
    algorithms: tuple[str, ...] = ()
    wire: Wire = "float32"
    tensors: int = 1
    sweep: tuple[int, ...] = SWEEP
    operation: str = "allreduce"


def plan(bindings: Sequence[Binding], ranks: Ranks, params: Params) -> Plan:
    """Return a group for each size, and one for the sweep."""
    groups = []
    for size in params.sizes:
        both = *_sized(bindings, ranks, size, params), *_cold(bindings, ranks, size, params)
        groups.append(Group(both, f"{size.nbytes}B", shortest=COMPARABLE))
    if params.sweep:
        every = (
            case
            for nbytes in params.sweep
            for case in _algorithms(bindings, ranks, {"bytes": nbytes, "pattern": LADDER}, params)
        )
        cases = tuple(case for case in every if case.skip is None)
        groups.append(Group(cases, LADDER, shortest=COMPARABLE / 10, extra=True))
    largest = max((*(size.nbytes for size in params.sizes), *params.sweep))
    per_group = max(sum(int(c.params["bytes"]) for c in group.cases) for group in groups)
    # of each case a buffer, one that tensors are copied into, and a receive buffer
    taken = per_group * (3 if params.tensors > 1 else 2)
    of_cases = (case.params for group in groups for case in group.cases)
    cold = [int(keys["bytes"]) for keys in of_cases if keys.get("buffers") == "cold"]
    taken += max((pooled(nbytes) * nbytes for nbytes in cold), default=0)
    memory = {binding.device.id: taken for binding in ranks.local_bindings(bindings)}
    host = per_group * (len(bindings) + 1) + 2 * largest  # of `host` with its sum, and of the proof
    return Plan(tuple(g for g in groups if g.cases), {**memory, "host": host}, largest)


class AllReduce(Benchmark):
    """The exchanges of a plan, between ranks that are there."""

    key = KEY

    def __init__(self, bindings: Sequence[Binding], ranks: Ranks, params: Params) -> None:
        self.plan = plan(bindings, ranks, params)
        self._ranks = ranks

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Release the buffers of the group before."""
        self._ranks.begin()

    def iteration(self, case: Case) -> Iteration:
        """Return a case's exchange."""
        return self._ranks.iteration(job_of(case))

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time, algorithm and bus bandwidth, and what a case gains over its reference."""
        blocks = {id_: by_block(each) for id_, each in samples.items()}
        metrics = {}
        for case in group.cases:
            if case.id not in samples:
                continue
            time, ranks = time_of(samples[case.id], confidence), len(case.bindings)
            nbytes = int(case.params["bytes"])
            moved = bus_factor(ranks, _operation(case)) * nbytes
            figures = {
                "time": time,
                "bandwidth": per_time(nbytes, time, "B/s"),
                "bus_bandwidth": per_time(moved, time, "B/s"),
            }
            over = blocks.get(case.against or "")
            gain = ratio(over, blocks[case.id], confidence) if over else None
            metrics[case.id] = figures | ({"speedup": gain} if gain else {})
        return metrics


def job_of(case: Case) -> Job:
    """Return the job of a case."""
    params = case.params
    wire: Wire = "float16" if params["wire"] == "float16" else "float32"
    fused = params.get("fused") == "yes"
    tensors = int(params.get("tensors", 1))
    cold = params.get("buffers") == "cold"
    length = int(params["bytes"]) // ITEM
    return Job(case.name, length, wire, tensors, fused, cold, _operation(case))


def _operation(case: Case) -> str:
    return str(case.params.get("operation", OPERATIONS[0]))


def check_request(bindings: Sequence[Binding], params: Params) -> None:
    """Refuse what cannot be exchanged.

    Raises:
        QuestionError: there is one rank; a size is not a multiple of four bytes, or has fewer
            elements than there are to be tensors.
    """
    if len(bindings) < 2:  # noqa: PLR2004 - an exchange takes two
        fix = "map a second name, or start a second rank"
        raise QuestionError("an exchange needs two names, and the map has one", fix)
    if params.tensors > 1 and params.operation != OPERATIONS[0]:
        raise QuestionError(f"--tensors is of allreduce, not of {params.operation}", "leave it out")
    for size in params.sizes:
        if size.nbytes % ITEM:
            nearest = max(size.nbytes // ITEM * ITEM, ITEM)
            raise QuestionError(f"{size.nbytes} bytes are no float32", f"write {nearest}B")
        if size.nbytes < ITEM * params.tensors:
            message = f"{size.nbytes} bytes of float32 cannot be {params.tensors} tensors"
            most, least = size.nbytes // ITEM, ITEM * params.tensors
            fix = f"ask for --tensors {most} at most, or for {least} bytes at least"
            raise QuestionError(message, fix)


def _sized(bindings: Sequence[Binding], ranks: Ranks, size: Size, params: Params) -> Iterator[Case]:
    keys = _keys(size, "warm")
    if params.tensors == 1:
        yield from _algorithms(bindings, ranks, keys, params)
        return
    keys["tensors"] = params.tensors
    unfused = list(_algorithms(bindings, ranks, {**keys, "fused": "no"}, params))
    references = {case.name: case.id for case in unfused if case.skip is None}
    yield from unfused
    for case in _algorithms(bindings, ranks, {**keys, "fused": "yes"}, params):
        yield replace(case, against=references.get(case.name))


def _cold(bindings: Sequence[Binding], ranks: Ranks, size: Size, params: Params) -> Iterator[Case]:
    """Yield the cases of cold buffers: of the largest size, of cores, where a pool fits."""
    cores = all(binding.device.backend == "numpy" for binding in bindings)
    largest = max(each.nbytes for each in params.sizes)
    if cores and size.nbytes == largest and params.tensors == 1 and pooled(largest):
        cases = _algorithms(bindings, ranks, _keys(size, "cold"), params)
        yield from (case for case in cases if case.skip is None)


def _keys(size: Size, buffers: str) -> dict[str, Param]:
    keys: dict[str, Param] = {"bytes": size.nbytes, "buffers": buffers, "pattern": "alone"}
    return keys if size.name is None else {**keys, "size_name": size.name}


def _algorithms(
    bindings: Sequence[Binding], ranks: Ranks, keys: Mapping[str, Param], params: Params
) -> Iterator[Case]:
    """Yield a case for each algorithm, against the library's own where that is measured."""
    native = None
    whole = params.operation == OPERATIONS[0]
    every = {**keys, "comm": ranks.comm, "wire": params.wire}
    every |= {} if whole else {"operation": params.operation}
    for name in params.algorithms or (n for n in ranks.algorithms if whole or n != _TREE):
        role: Role = "host" if name == "host" else "measured"
        swept = keys["pattern"] == LADDER
        case = Case(KEY, name, every, tuple(bindings), Work(), role=role, swept=swept)
        skip = _lacking(name, ranks, params.operation) or ranks.skip(job_of(case))
        yield replace(case, skip=skip, against=native if skip is None else None)
        if name == _NATIVE and skip is None:
            native = case.id


def _lacking(name: str, ranks: Ranks, operation: str) -> Reason | None:
    """Return why a requested algorithm is not there, if it is not."""
    if name == _TREE and operation != OPERATIONS[0]:
        return Reason("unsupported", f"tree is an allreduce, and no {operation}")
    if name in ranks.algorithms:
        return None
    where = "mpi or nccl" if name == _NATIVE else "local or mpi"
    return Reason("unsupported", f"{name} is there with --comm {where} only")


def _title(case: Case) -> str:
    """Return what is exchanged, by whom, and in which pieces."""
    params = case.params
    wire = "" if params["wire"] == "float32" else f", {params['wire']} on the wire"
    tensors = f" in {params['tensors']} tensors" if "tensors" in params else ""
    return f"{_operation(case)} {size_text(params)}, float32{tensors}{wire}, {params['comm']}"


def _headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what the fastest algorithm takes at the largest size; a slow native one is no good."""
    if (nothing := unsupported(report, rows)) is not None:
        return nothing
    rows, end = largest(_warm(rows), size_of)
    known = [row for row in rows if "time" in row.metrics and not too_few(row)]
    best = min(known, key=_time, default=rows[0])
    if (doubt := doubtful(report, best, "time", end)) is not None:
        return doubt
    time, native = best.metrics["time"], [row for row in known if row.case.name == _NATIVE]
    size, ranks = amount(int(best.case.params["bytes"])), len(best.case.names)
    what = f"{_DOING[_operation(best.case)]} {size} over {counted(ranks, 'rank')} takes"
    gain = best.metrics.get("speedup")
    text = f"{what} {value(time)} with {best.case.name} ({interval(time)})"
    if gain is None or best.case.name == _NATIVE or not native:
        return answer(
            report, "good", (f"{text}.", *other_doubts(report, best)), about(best, "time"), end
        )
    if not gain.has_interval or gain.low <= _CLEARLY:
        more = f"{value(gain)} times as fast as the library's own."
        return answer(report, "good", (f"{text}, {more}",), about(best, "time"), end)
    lib = native[0].metrics["time"]
    text = f"{what} {value(lib)} with the library's own ({interval(lib)}); {best.case.name} does it"
    fix = f"Choose --algorithm {best.case.name}."
    return answer(
        report, "below", (f"{text} in {value(time)}.", fix), about(native[0], "time"), end
    )


def _warm(rows: Sequence[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.case.params.get("buffers") != "cold"]


def _time(row: Measurement) -> float:
    return row.metrics["time"].value


def _judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the headline claims: the time of the fastest algorithm at the largest size."""
    known = [row for row in _warm(rows) if "time" in row.metrics]
    if known:
        yield min(largest(known, size_of)[0], key=_time).case.id, "time"


SPEC = BenchmarkSpec(
    KEY,
    tuple(map(CaseSpec, ALGORITHMS)),
    (
        Family(ALGORITHMS, (*KEYS, "comm", "wire", "operation", "tensors", "fused", "buffers",
                            "pattern"),
               ("time", "bandwidth", "bus_bandwidth", "speedup")),
        Family(ALGORITHMS, ("comm", "wire", "operation", "pattern"), MODEL, ".fit"),
    ),
    command=("bench", "allreduce"),
    columns=("case", Column("fused", param="fused"),
             Column("buffers", param="buffers"), "on", "time", "bandwidth",
             Column("bus", "bus_bandwidth", verbose=True), "speed-up", "route", "check", "n",
             "trust", "status"),
    title=_title,
    speedups=True,
    row_key=ExchangeKey,
    sizes=("bytes",),
    how=("fused", "buffers"),
    headline=_headline,
    claims=_judged,
)  # fmt: skip
