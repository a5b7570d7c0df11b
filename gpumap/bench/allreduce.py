"""The exchange of data-parallel programs: allreduce.

It leaves every rank with the sum over all ranks. Cases, one for each algorithm, at each size in
bytes of float32:

    native     the library's own: MPI's, torch.distributed's, NCCL's or JAX's
    host       to the host, summed there, and back; between processes to rank 0 and back
    ring       slices that travel around (`gpumap.comm.algorithms`)

Results are compared bit for bit (`gpumap.bench.exchanges`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.bench.exchanges import ITEM, Exchanging, Job
from gpumap.bench.registry import BenchmarkSpec, Column, Family, size_of
from gpumap.comm.algorithms import bus_factor
from gpumap.engine.base import Benchmark
from gpumap.engine.estimates import gains, per_time, time_of
from gpumap.errors import QuestionError
from gpumap.judge.doubts import about, doubtful, largest
from gpumap.judge.inconclusive import too_few
from gpumap.judge.phrases import answer, interval, value
from gpumap.model import Binding, Case, Group, Plan, Work, replace
from gpumap.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.exchanges import Ranks
    from gpumap.engine.base import Blocks, Figures, Iteration
    from gpumap.model import Headline, Measurement, Param, Report, Role, Samples

KEY = "allreduce"
ALGORITHMS = ("native", "host", "ring")
_CLEARLY = 1.1  # times as fast: it is worth another choice


class Params(NamedTuple):
    """Which sizes to exchange, and how; without algorithms by all that the ranks have."""

    sizes: tuple[int, ...]
    algorithms: tuple[str, ...] = ()


def plan(bindings: Sequence[Binding], ranks: Ranks, params: Params) -> Plan:
    """Return a group for each size."""
    groups = []
    for size in params.sizes:
        every = tuple(_algorithms(bindings, ranks, size, params))
        groups.append(Group(every, f"{size}B", shortest=ranks.shortest))
    largest = max(params.sizes)
    per_group = max(sum(int(c.params["bytes"]) for c in group.cases) for group in groups)
    taken = 2 * per_group  # of each case a buffer and a receive buffer
    memory = {binding.device.id: taken for binding in ranks.local_bindings(bindings)}
    host = per_group * (len(bindings) + 1) + 2 * largest  # of `host` with its sum, and of the proof
    return Plan(tuple(groups), {**memory, "host": host}, largest)


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
        job = job_of(case)
        return Exchanging(self._ranks, job).played(job.nbytes)

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:
        """Return time, algorithm and bus bandwidth, and what a case gains over its reference."""
        time, nbytes = time_of(samples, confidence), int(case.params["bytes"])
        moved = bus_factor(len(case.bindings)) * nbytes
        figures = {
            "time": time,
            "bandwidth": per_time(nbytes, time, "B/s"),
            "bus_bandwidth": per_time(moved, time, "B/s"),
        }
        over = {"speedup": blocks.get(case.against or "", {})}
        return figures | gains(over, blocks[case.id], confidence)


def job_of(case: Case) -> Job:
    """Return the job of a case."""
    return Job(case.name, int(case.params["bytes"]) // ITEM)


def check_request(bindings: Sequence[Binding], params: Params) -> None:
    """Refuse what cannot be exchanged.

    Raises:
        QuestionError: there is one rank; or a size is not a multiple of four bytes.
    """
    if len(bindings) < 2:  # noqa: PLR2004 - an exchange takes two
        fix = "map a second name, or start a second rank"
        raise QuestionError("an exchange needs two names, and the map has one", fix)
    for size in params.sizes:
        if size % ITEM:
            nearest = max(size // ITEM * ITEM, ITEM)
            raise QuestionError(f"{size} bytes are no float32", f"write {nearest}B")


def _algorithms(
    bindings: Sequence[Binding], ranks: Ranks, size: int, params: Params
) -> Iterator[Case]:
    """Yield a case for each algorithm, against the library's own where that is measured."""
    native = None
    every: dict[str, Param] = {"bytes": size, "pattern": "alone", "comm": ranks.comm}
    for name in params.algorithms or ranks.algorithms:
        role: Role = "host" if name == "host" else "measured"
        case = Case(KEY, name, every, tuple(bindings), Work(), role=role)
        skip = ranks.skip(job_of(case))
        yield replace(case, skip=skip, against=native if skip is None else None)
        if name == "native" and skip is None:
            native = case.id


def _title(case: Case) -> str:
    """Return what is exchanged, and by whom."""
    return f"allreduce {amount(int(case.params['bytes']))}, float32, {case.params['comm']}"


def _headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what the fastest algorithm takes at the largest size; a slow native one is no good."""
    rows = largest(rows, size_of)
    known = [row for row in rows if "time" in row.metrics and not too_few(row)]
    best = min(known, key=_time, default=rows[0])
    if (doubt := doubtful(report, best, "time")) is not None:
        return doubt
    time, native = best.metrics["time"], [row for row in known if row.case.name == "native"]
    size, ranks = amount(int(best.case.params["bytes"])), len(best.case.names)
    what = f"Summing {size} over {counted(ranks, 'rank')} takes"
    gain = best.metrics.get("speedup")
    text = f"{what} {value(time)} with {best.case.name} ({interval(time)})"
    if gain is None or not native:
        return answer(report, "good", (f"{text}.",), about(best, "time"))
    if not gain.has_interval or gain.low <= _CLEARLY:
        more = f"{value(gain)} times as fast as the library's own."
        return answer(report, "good", (f"{text}, {more}",), about(best, "time"))
    lib = native[0].metrics["time"]
    text = f"{what} {value(lib)} with the library's own ({interval(lib)}); {best.case.name} does it"
    fix = f"Choose --algorithm {best.case.name}."
    return answer(report, "below", (f"{text} in {value(time)}.", fix), about(native[0], "time"))


def _time(row: Measurement) -> float:
    return row.metrics["time"].value


def _judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the headline claims: the time of the fastest algorithm at the largest size."""
    known = [row for row in rows if "time" in row.metrics]
    if known:
        yield min(largest(known, size_of), key=_time).case.id, "time"


SPEC = BenchmarkSpec(
    (
        Family(ALGORITHMS, ("bytes", "comm", "pattern"),
               ("time", "bandwidth", "bus_bandwidth", "speedup")),
    ),
    command=("bench", "allreduce"),
    columns=("case", "on", "time", "bandwidth",
             Column("bus", "bus_bandwidth", verbose=True), "speed-up", "route", "check", "n",
             "trust", "status"),
    title=_title,
    sizes=("bytes",),
    headline=_headline,
    claims=_judged,
)  # fmt: skip
