"""What binding gives: the same copies and the same exchange, at the device's place and anywhere.

Cases, each at every size, all names at once:

    h2d, d2h     host to device and back, by a thread or process for each name
    allreduce    MPI's own, between processes

Each is measured unbound, where the system may move the thread and its memory to any core and any
node, and bound to the cores and the memory that `gpumap run` would give it. Both stand in every
block, beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gpumap.bench.bind_work import Job
from gpumap.bench.exchanges import ITEM
from gpumap.bench.figures import by_block, per_time, ratio, time_of
from gpumap.bench.registry import BenchmarkSpec, CaseSpec, Column, Family
from gpumap.bench.sizes import KEYS, Size, told
from gpumap.bench.timing import COMPARABLE
from gpumap.errors import QuestionError
from gpumap.judge.doubts import about, doubtful, largest, thin_others, unsupported
from gpumap.judge.phrases import interval, names, said, value
from gpumap.model import Binding, Case, Group, Plan, Reason, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.bench.base import Round
    from gpumap.model import Estimate, Headline, Limit, Measurement, Param, Report, Samples

KEY = "bind"
CASES = ("h2d", "d2h", "allreduce")
_RANKS = "mpirun -n 2 gpumap bench bind"
_HOW = ("unbound", "bound")
_ARRAYS = 2  # of a case on the host: what is sent, and where it lands


@dataclass(frozen=True, slots=True)
class Params:
    """Which sizes to move, and in which cases: without any, in those that there are here."""

    sizes: tuple[Size, ...]
    cases: tuple[str, ...] = ()


class Names(Protocol):
    """The names of a map, as threads or as processes."""

    comm: str

    @property
    def hosts(self) -> Sequence[str]:
        """Return the machine of each name."""

    @property
    def cases(self) -> tuple[str, ...]:
        """Return the cases that there are here."""

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return those whose memory is this machine's."""

    def begin(self) -> None:
        """Let go of what the jobs before have taken."""

    def round(self, job: Job) -> Round:
        """Take memory for a job, and return its round."""


def check_asked(params: Params) -> None:
    """Refuse what cannot be moved.

    Raises:
        QuestionError: a size is not a multiple of four bytes.
    """
    for size in params.sizes:
        if size.nbytes % ITEM:
            near = max(size.nbytes // ITEM * ITEM, ITEM)
            raise QuestionError(f"{size.nbytes} bytes are no float32", f"write {near}B")


def plan(bindings: Sequence[Binding], names: Names, params: Params, why: str | None) -> Plan:
    """Return a group for each size; `why` no name has a place, if none has."""
    groups = [
        Group(tuple(_sized(bindings, names, size, params, why)), f"{size.nbytes}B",
              shortest=COMPARABLE)
        for size in params.sizes
    ]  # fmt: skip
    largest = max(size.nbytes for size in params.sizes)
    here = list(names.beside(bindings))
    cases = len(params.cases or names.cases) * len(_HOW)
    memory = {b.device.id: largest * cases for b in here}
    host = largest * _ARRAYS * cases * len(here)
    return Plan(tuple(groups), {**memory, "host": host}, largest)


def _sized(
    bindings: Sequence[Binding], names: Names, size: Size, params: Params, why: str | None
) -> Iterator[Case]:
    keys: dict[str, Param] = {"bytes": size.nbytes, "comm": names.comm}
    if size.name is not None:
        keys["size_name"] = size.name
    for name in params.cases or names.cases:
        skip = Reason("unsupported", why) if why is not None else None
        if name not in names.cases:
            skip = Reason("unsupported", f"{name} is there between processes only: {_RANKS}")
        before = None
        for how in _HOW:
            case = Case(KEY, name, {**keys, "bind": how}, tuple(bindings), Work(), skip=skip)
            yield replace(case, against=before if skip is None else None)
            before = case.id


class Bind:
    """The copies and exchanges of a plan."""

    key = KEY

    def __init__(
        self,
        bindings: Sequence[Binding],
        names: Names,
        params: Params,
        why: str | None,
    ) -> None:
        """`why` is that no name has a place, if none has."""
        self.plan = plan(bindings, names, params, why)
        self._names = names
        self._where = tuple(zip(names.hosts, bindings, strict=True))

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the memory of the group before."""
        self._names.begin()

    def round(self, case: Case) -> Round:
        """Return a case's round."""
        params = case.params
        job = Job(case.name, int(params["bytes"]), params["bind"] == "bound", self._where)
        return self._names.round(job)

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time and bandwidth of each, and what binding gains."""
        blocks = {id_: by_block(found) for id_, found in samples.items()}
        found = {}
        for case in group.cases:
            if case.id not in samples:
                continue
            time = time_of(samples[case.id], confidence)
            moved = int(case.params["bytes"]) * (1 if case.name == "allreduce" else len(case.names))
            figures = {"time": time, "bandwidth": per_time(moved, time, "B/s")}
            over = blocks.get(case.against or "")
            gain = ratio(over, blocks[case.id], confidence) if over else None
            found[case.id] = figures | ({"speedup": gain} if gain else {})
        return found

    def limit(self, case: Case) -> Limit | None:  # noqa: ARG002 - the contract's
        """Return None: a copy is held against the same copy, not against a link."""
        return None


def _headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what binding gains at the largest size, in the case that it changes most."""
    if (nothing := unsupported(report, rows)) is not None:
        return nothing
    rows, end = largest(rows)
    bound = [row for row in rows if row.case.params.get("bind") == "bound"] or rows
    best = max(bound, key=_change)
    if (doubt := doubtful(report, best, "speedup", end)) is not None:
        return doubt
    gain, subject = best.metrics["speedup"], about(best, "speedup")
    where = f"{best.case.name} on {names(best.case.bindings)} {value(gain)} times as fast"
    where += f" ({interval(gain)})"
    if gain.high < 1.0:
        text = f"Binding slows copies down: it makes {where}. Run with --no-bind."
        return said(report, "below", (text,), subject, end)
    text = f"Binding makes {where}." if gain.low > 1.0 else f"Binding changes nothing: {where}."
    return said(report, "good", (text, *thin_others(report, best)), subject, end)


def _change(row: Measurement) -> float:
    gain = row.metrics.get("speedup")
    return abs(gain.value - 1.0) if gain is not None and gain.has_interval else -1.0


SPEC = BenchmarkSpec(
    KEY,
    tuple(map(CaseSpec, CASES)),
    (Family(CASES, (*KEYS, "bind", "comm"), ("time", "bandwidth", "speedup")),),
    command=("bench", "bind"),
    columns=("case", Column("bind", param="bind"), "on", "time", "bandwidth", "speed-up", "check",
             "n", "trust", "status"),
    title=lambda case: f"bind {told(case.params)}, {case.params['comm']}",
    required=("bytes", "comm", "bind"),
    sizes=("bytes",),
    headline=_headline,
)  # fmt: skip
