"""A chain of small operations, log(exp(relu(x.w + b))): in one kernel, in many, and on the host.

Cases, each at every number of rows, on one device of a map; x is there already, what moving
it costs is the question of `transfer-cost`:

    separate   one kernel for each operation
    fused      one kernel: against `separate`
    host       NumPy, with all cores where it uses them; beside that device

What is measured of them is in `gpumap.bench.chain_work`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.bench.calls import HostCall
from gpumap.bench.chain_work import DTYPE, OPERATIONS, Data, DeviceIteration, Placed, sizes
from gpumap.bench.keys import HOST
from gpumap.bench.names import ReferenceRecipe
from gpumap.bench.registry import BenchmarkSpec, Column, Family, size_of
from gpumap.engine.base import COMPARABLE, Benchmark, Iteration, OpenDevices, Settings, ordered
from gpumap.engine.estimates import gains, time_and_rate
from gpumap.engine.sizes import squares
from gpumap.engine.verify import played
from gpumap.errors import Unsupported
from gpumap.judge.doubts import about, doubtful, largest, single_device, unsupported
from gpumap.judge.phrases import answer, interval, names, value
from gpumap.model import Case, Group, Plan, Reason, Work
from gpumap.text import short
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Session
    from gpumap.engine.base import Blocks, Figures
    from gpumap.machine.blas import Cores
    from gpumap.model import Binding, Headline, Measurement, Param, Report, Role, Samples

KEY = "chain"
CASES = ("separate", "fused", HOST)
# What a case is judged by, and so what must be measured with it.
_BESIDE = {"fused": ("separate", "host"), "separate": ("host",)}
_MATTERS = (("separate", "fused"), ("host",))


class Params(NamedTuple):
    """How many rows, which cases, which data."""

    rows: tuple[int, ...]
    cases: tuple[str, ...] = CASES
    seed: int = 1

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the cases with those that they are judged by, in order."""
        beside = {other for case in self.cases for other in _BESIDE.get(case, ())}
        return tuple(case for case in CASES if case in {*self.cases, *beside})


def plan(place: Binding, params: Params, skip: Reason | None = None) -> Plan:
    """Return a group for each number of rows; `skip` is why nothing runs there."""
    groups: list[Group] = []
    for rows in params.rows:
        cases = tuple(_cases(place, params, rows, skip))
        first = int(any(case.name == "fused" for case in cases))
        groups.append(Group(cases, str(rows), ordered(cases, *_MATTERS), COMPARABLE, first=first))
    most = max(params.rows)
    return Plan(tuple(groups), _memory(place, params, most), max(sizes(most)[:2]))


class Chain(Benchmark):
    """The cases of a plan, on an opened session."""

    key = KEY

    def __init__(self, chosen: Plan, devices: OpenDevices, cores: Cores, seed: int) -> None:
        self.plan, self._seed = chosen, seed
        (self._name,) = chosen.cases[0].names
        self._clock, self._cores = devices.clock, cores
        self._session = devices.sessions[self._name]
        self._data: Data | None = None
        self._placed: Placed | None = None

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of what the group before had on its device."""
        self._data = self._placed = None

    def iteration(self, case: Case) -> Iteration:
        """Put the rows where they are needed."""
        rows = int(case.params["rows"])
        if self._data is None:
            self._data = Data(rows, self._seed, self._session)
        return played(self._iteration(case, self._data), self._session, self._data.nbytes)

    def _iteration(self, case: Case, data: Data) -> Iteration:
        if case.name == HOST:
            return HostCall(data, self._clock, self._cores, Iteration.most)
        if self._placed is None:
            self._placed = Placed(self._name, self._session, data)
        return DeviceIteration(self._placed, fused=case.name == "fused")

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:
        """Return time and rate of a case, and what it gains over its reference and the host."""
        host = next((c.id for c in self.plan.cases if c.name == HOST and c.id in blocks), "")
        over = {"speedup": case.against or "", "speedup_over_host": host}
        others = {key: blocks.get(id_, {}) for key, id_ in over.items() if id_ != case.id}
        known = gains(others, blocks[case.id], confidence)
        return time_and_rate(case, samples, confidence) | known


def _cases(place: Binding, params: Params, rows: int, skip: Reason | None) -> Iterator[Case]:
    ids: dict[str, str] = {}
    keys: dict[str, Param] = {"rows": rows, "dtype": DTYPE}
    for name in params.wanted:
        against = ids.get("separate") if name == "fused" and not skip else None
        role: Role = "host" if name == HOST else "measured"
        work = Work(1, rows * OPERATIONS)
        case = Case(KEY, name, keys, (place,), work, against, skip, role=role)
        ids[name] = case.id
        yield case


def _memory(place: Binding, params: Params, rows: int) -> dict[str, int]:
    """Return the bytes that the largest number of rows takes, by device id, and on the host."""
    x, y, checked = sizes(rows)
    kept = sum(case in params.wanted for case in ("fused", "separate"))
    results = 1 + ("host" in params.wanted)  # one for what devices made
    return {place.device.id: x + kept * y, "host": x + results * y + checked}


class ChainRecipe(ReferenceRecipe):
    """Recipe of `bench chain`."""

    every = CASES
    instead = "use --backend numpy, pyopencl or cupy: they have it"

    def __init__(self, settings: Settings, *, rows: str, **others: Any) -> None:
        super().__init__(settings, **others)
        self.params = Params(squares(rows, "--rows"), self.cases or CASES, settings.seed)

    def plan(self, bindings: Sequence[Binding]) -> Plan:
        """Return the plan by the reference that is named, or by the first name."""
        return plan(self.named(bindings) or bindings[0], self.params)

    def benchmark(self, devices: OpenDevices) -> Chain:
        """Return the chains on one open device: the first that runs kernels, if none is named."""
        from gpumap.machine.blas import Cores  # no table needs it

        bindings = devices.bindings
        able = [b for b in bindings if _has_chain(devices.sessions[b.name])]
        first, skip = self.named(bindings) or (able or bindings)[0], None
        if first not in able:
            skip = Reason("unsupported", f"{first.device.backend} has no chain in one kernel")
        if able and skip is not None:
            raise Unsupported(skip.text, "name another device by --reference")
        chosen, cores = plan(first, self.params, skip), Cores(devices.cpus)
        return Chain(chosen, devices, cores, self.params.seed)


def _has_chain(session: Session) -> bool:
    """Return whether a device runs a chain that is one kernel."""
    return session.features & {"kernels", "operations"} == {"kernels"}


def _title(case: Case) -> str:
    return f"chain log(exp(relu(x.w + b))), {counted(int(case.params['rows']), 'row')} float32"


def _where(row: Measurement) -> str:
    """Return the names of a row; of the host's own part of a comparison, that it is the host's."""
    return HOST if row.case.name == HOST else short(row.case)


def _headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what fusing gains at the most rows, over kernels one by one and over the host."""
    if (nothing := unsupported(report, [r for r in rows if r.case.name != HOST])) is not None:
        return nothing
    rows = largest(rows, size_of)
    fused = next((row for row in rows if row.case.name == "fused"), None)
    if fused is None:
        first = next((row for row in rows if row.status == "ok"), rows[0])
        return single_device(report, first, f"{first.case.name} on {{}} takes {{}}", "time")
    if (doubt := doubtful(report, fused, "speedup")) is not None:
        return doubt
    gain, over = fused.metrics["speedup"], fused.metrics.get("speedup_over_host")
    subject, where = about(fused, "speedup"), names(fused.case.bindings)
    text = f"Fused into one kernel, the chain is {value(gain)} times as fast on {where}"
    text += f" ({interval(gain)})"
    worth, host = gain.low > 1.0, ""
    if over is not None and over.has_interval:
        host = f", and {value(over)} times as fast as the host"
        worth = worth and over.low > 1.0
        if over.high < 1.0:
            text += f", but the host is faster: {value(over)} times. Use more rows."
            return answer(report, "below", (text,), subject)
    return answer(report, "good" if worth else "below", (f"{text}{host}.",), subject)


def _judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the headline claims: what fusing gains."""
    yield from ((row.case.id, "speedup") for row in rows if row.case.name == "fused")


SPEC = BenchmarkSpec(
    (
        Family(CASES, ("rows", "dtype"),
               ("time", "rate", "speedup", "speedup_over_host")),
    ),
    command=("bench", "chain"),
    recipe=ChainRecipe,
    columns=("case", Column("on", cell=_where), "time", "rate",
             "speed-up", Column("over host", "speedup_over_host"), "error", "n", "trust", "status"),
    title=_title,
    sizes=("rows",),
    headline=_headline,
    claims=_judged,
)  # fmt: skip
