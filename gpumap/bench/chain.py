"""A chain of small operations, log(exp(relu(x.w + b))): in one kernel, in many, and on the host.

Cases, each at every number of rows; x is on the device already, what moving it costs is the
question of `transfer-cost`:

    separate   one kernel for each operation, on the fastest device
    fused      one kernel, there: against `separate`
    host       NumPy, with all cores where it uses them; beside that device
    solo       one kernel on each device, alone, with its own rows of `many`
    many       the rows split over the names, one kernel on each: against `fused`

What is measured of them is in `gpumap.bench.chain_work`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.bench.chain_work import (
    BLOCK,
    COLUMNS,
    INNER,
    OPERATIONS,
    Data,
    DeviceIteration,
    Dtype,
    HostIteration,
    Job,
    Placed,
)
from gpumap.bench.gains import Figures
from gpumap.bench.keys import ChainKey
from gpumap.bench.names import ReferenceRecipe, check_names, one_device
from gpumap.bench.registry import BenchmarkSpec, CaseSpec, Column, Family, size_of
from gpumap.dtypes import ITEMSIZE
from gpumap.engine.base import COMPARABLE, Benchmark, Iteration, OpenDevices, Settings, ordered
from gpumap.engine.estimates import by_block, device_time, ratio, time_and_rate
from gpumap.engine.needs import check_features
from gpumap.engine.sampling import BUSY, times
from gpumap.engine.sizes import squares
from gpumap.engine.verify import played
from gpumap.errors import QuestionError, Unsupported
from gpumap.judge.doubts import about, doubtful, largest, other_doubts, single_device, unsupported
from gpumap.judge.phrases import answer, interval, names, value
from gpumap.model import Binding, Case, Group, Plan, Reason, Work
from gpumap.text import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.machine.blas import Cores
    from gpumap.model import Estimate, Headline, Measurement, Param, Report, Role, Samples

KEY = "chain"
_CASES = (
    CaseSpec("separate"),
    CaseSpec("fused"),
    CaseSpec("host"),
    CaseSpec("solo"),
    CaseSpec("many", several=True),
)
_ROLES: dict[str, Role] = {"host": "host", "solo": "solo"}
CASES = tuple(case.name for case in _CASES)
DTYPES: tuple[Dtype, ...] = ("float32", "float64")
HOST = "host"
# What a case is judged by, and so what must be measured with it.
_BESIDE = {
    "fused": ("separate", "host"),
    "separate": ("host",),
    "many": ("fused", "separate", "host", "solo"),
}
_AGAINST = {"fused": "separate", "many": "fused"}  # what its speed-up is over
_MATTERS = (("separate", "fused"), ("host",), ("many",), ("solo",))
_PILOT = 10_000  # rows, or as many as are requested
_WIDE = 8  # bytes of a float64


@dataclass(frozen=True, slots=True)
class Params:
    """How many rows, of which type, which cases, which data."""

    rows: tuple[int, ...]
    dtype: Dtype = "float32"
    cases: tuple[str, ...] = CASES
    seed: int = 1

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the cases with those that they are judged by, in order."""
        beside = {other for case in self.cases for other in _BESIDE.get(case, ())}
        return tuple(case for case in CASES if case in {*self.cases, *beside})


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the cases run: the names, the fastest of them, and why some can run no kernel."""

    bindings: tuple[Binding, ...]
    fastest: Binding
    lacking: Mapping[str, Reason]  # by name

    def places(self, name: str) -> list[tuple[Binding, ...]]:
        """Return the devices of each row of a case."""
        if name == "solo":
            return [(binding,) for binding in self.bindings]
        return [self.bindings if name == "many" else (self.fastest,)]

    def skip(self, name: str, place: Sequence[Binding]) -> Reason | None:
        """Return why a case cannot be measured."""
        lacking = next((self.lacking[b.name] for b in place if b.name in self.lacking), None)
        return one_device(SPEC, name, self.bindings) or lacking

    def share(self, binding: Binding, rows: int) -> slice:
        """Return a name's rows of `many`."""
        number, count = self.bindings.index(binding), len(self.bindings)
        return slice(rows * number // count, rows * (number + 1) // count)


def plan(setting: Setting, params: Params) -> Plan:
    """Return a group for each number of rows."""
    groups: list[Group] = []
    for rows in params.rows:
        cases = tuple(_cases(setting, params, rows))
        first = int(any(case.name == "fused" for case in cases))
        groups.append(Group(cases, str(rows), ordered(cases, *_MATTERS), COMPARABLE, first=first))
    most = max(params.rows)
    largest = most * max(INNER, COLUMNS) * ITEMSIZE[params.dtype]
    return Plan(tuple(groups), _memory(setting, params, most), largest)


class Chain(Benchmark):
    """The cases of a plan, on opened sessions."""

    key = KEY
    work = "split"

    def __init__(
        self, setting: Setting, devices: OpenDevices, cores: Cores, params: Params
    ) -> None:
        self.plan = plan(setting, params)
        self._setting, self._params = setting, params
        self._devices, self._cores = devices, cores
        self._data: Data | None = None
        self._placed: dict[tuple[str, int, int], Placed] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of what the group before had on its devices."""
        self._placed = {}

    def iteration(self, case: Case) -> Iteration:
        """Put a case's rows where they are needed."""
        rows = int(case.params["rows"])
        if self._data is None or self._data.rows != rows:
            self._data = Data(rows, self._params.dtype, self._params.seed, self._session)
        return played(self._iteration(case, self._data), self._session, self._data.nbytes)

    def _iteration(self, case: Case, data: Data) -> Iteration:
        if case.name == HOST:
            return HostIteration(data, self._devices.clock, self._cores)
        split, fused = case.name in ("solo", "many"), case.name != "separate"
        placed = [self._place(binding, data, split=split) for binding in case.bindings]
        return DeviceIteration([Job.of(each, fused=fused) for each in placed])

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time and rate of each case, and what it gains over its reference."""
        figures = ChainFigures(group, samples, confidence)
        return {case.id: figures.of(case) for case in group.cases if case.id in samples}

    @property
    def _session(self) -> Session:
        return self._devices.sessions[self._setting.fastest.name]

    def _place(self, binding: Binding, data: Data, *, split: bool) -> Placed:
        rows = self._setting.share(binding, data.rows) if split else slice(0, data.rows)
        key = (binding.name, rows.start, rows.stop)
        if key not in self._placed:
            session = self._devices.sessions[binding.name]
            self._placed[key] = Placed(binding.name, session, data, rows)
        return self._placed[key]


class ChainFigures:
    """The metrics of a group, block by block."""

    def __init__(self, group: Group, samples: Mapping[str, Samples], confidence: float) -> None:
        self._samples, self._confidence = samples, confidence
        self._blocks = {id_: by_block(found) for id_, found in samples.items()}
        self._host = next((c.id for c in group.cases if c.name == "host"), "")
        self._several = Figures(group, samples, confidence, one="fused")

    def of(self, case: Case) -> dict[str, Estimate]:
        """Return the figures of one case."""
        samples, many = self._samples[case.id], case.name == "many"
        found = self._several.of(case) if many else time_and_rate(case, samples, self._confidence)
        more = {} if many else {"speedup": self._over(case, case.against or "")}
        if case.name != HOST and not many:
            more["device_time"] = device_time(samples, self._confidence)
        if case.name in ("fused", "separate", "many"):
            more["speedup_over_host"] = self._over(case, self._host)
        return found | {name: figure for name, figure in more.items() if figure is not None}

    def _over(self, case: Case, other: str) -> Estimate | None:
        return ratio(self._blocks.get(other, {}), self._blocks[case.id], self._confidence)


def lacking(bindings: Sequence[Binding], sessions: Mapping[str, Session]) -> dict[str, Reason]:
    """Return why some names can run no kernel."""
    return {
        b.name: Reason("unsupported", f"{b.device.backend} runs no kernels of gpumap's")
        for b in bindings
        if "kernels" not in sessions[b.name].features
    }


def pilot(
    bindings: Sequence[Binding],
    sessions: Mapping[str, Session],
    clock: Clock,
    params: Params,
    most: float = BUSY,
) -> dict[str, float]:
    """Return a quick time of the fused chain for each name, to choose the fastest by."""
    rows = min(_PILOT, max(params.rows))
    data = Data(rows, params.dtype, params.seed, next(iter(sessions.values())))

    def prepare(session: Session) -> Callable[[], None]:
        return Job.of(Placed("", session, data, slice(0, data.rows))).queue

    return times(bindings, sessions, clock, prepare, most)


def _cases(setting: Setting, params: Params, rows: int) -> Iterator[Case]:
    ids: dict[str, str] = {}
    keys: dict[str, Param] = {"rows": rows, "dtype": params.dtype}
    for name in params.wanted:
        for place in setting.places(name):
            share = setting.share(place[0], rows) if name == "solo" else slice(0, rows)
            work = Work(len(place), (share.stop - share.start) * OPERATIONS)
            skip = setting.skip(name, place)
            against = None if skip else ids.get(_AGAINST.get(name, ""))
            role = _ROLES.get(name, "measured")
            case = Case(KEY, name, keys, place, work, against, skip, role=role)
            ids[name] = case.id
            yield case


def _memory(setting: Setting, params: Params, rows: int) -> dict[str, int]:
    """Return the bytes that the largest number of rows takes, by device id, and on the host."""
    cases, item = params.wanted, ITEMSIZE[params.dtype]
    x, y = (rows * width * item for width in (INNER, COLUMNS))
    memory = dict.fromkeys((b.device.id for b in setting.bindings), 0)
    memory[setting.fastest.device.id] += x + y * sum(c in cases for c in ("fused", "separate"))
    for binding in setting.bindings if {"solo", "many"} & {*cases} else ():
        shared = setting.share(binding, rows)
        results = ("solo" in cases) + ("many" in cases)
        memory[binding.device.id] += (x + results * y) * (shared.stop - shared.start) // rows
    results = 1 + ("host" in cases)  # one for what devices made
    checked = min(rows, BLOCK) * (INNER + 4 * COLUMNS) * _WIDE
    memory["host"] = x + results * y + checked
    return memory


class ChainRecipe(ReferenceRecipe):
    """Recipe of `bench chain`."""

    key, dtypes, every, pilot = KEY, DTYPES, CASES, staticmethod(pilot)
    instead = "use --backend numpy, pyopencl or cupy: they run its kernels"

    def __init__(self, settings: Settings, *, rows: str, **others: Any) -> None:
        super().__init__(settings, **others)
        sizes = squares(rows, "--rows")
        self.params = Params(sizes, self.dtype, self.cases or CASES, settings.seed)

    def plan(self, bindings: Sequence[Binding]) -> Plan:
        """Return the plan by the reference that is named, or by the first name."""
        check_names(SPEC, bindings, self.cases)
        least = min(self.params.rows)
        if "many" in self.params.wanted and least < len(bindings):
            few = f"{least} rows cannot be split over {len(bindings)} names"
            raise QuestionError(few, f"choose --rows {len(bindings)} or more")
        first = self.named(bindings) or bindings[0]
        return plan(Setting(tuple(bindings), first, {}), self.params)

    def benchmark(self, devices: OpenDevices) -> Chain:
        """Return the chains on open devices; the reference is one that runs kernels."""
        from gpumap.machine.blas import Cores  # no table needs it

        bindings = devices.bindings
        check_features(bindings, devices.sessions, self.dtype)
        without = lacking(bindings, devices.sessions)
        able = [b for b in bindings if b.name not in without]
        first = self.named(bindings) or self.chosen(able or bindings, devices)
        if able and first.name in without:
            raise Unsupported(without[first.name].text, "name another device by --reference")
        setting = Setting(bindings, first, without)
        return Chain(setting, devices, Cores(devices.cpus), self.params)


def _title(case: Case) -> str:
    count = case.params["rows"]
    about = f"{count} {'row' if count == 1 else 'rows'} {case.params['dtype']}"
    return f"chain log(exp(relu(x.w + b))), {about}"


def _where(row: Measurement) -> str:
    """Return the names of a row; of the host's own part of a comparison, that it is the host's."""
    return HOST if row.case.name == HOST else short(row.case)


def _headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what fusing gains at the most rows, over kernels one by one and over the host."""
    if (nothing := unsupported(report, [r for r in rows if r.case.name != HOST])) is not None:
        return nothing
    rows, end = largest(rows, size_of)
    fused = next((row for row in rows if row.case.name == "fused"), None)
    if fused is None:
        first = next((row for row in rows if row.status == "ok"), rows[0])
        return single_device(report, first, f"{first.case.name} on {{}} takes {{}}", "time", end)
    if (doubt := doubtful(report, fused, "speedup", end)) is not None:
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
            return answer(report, "below", (text,), subject, end)
    more = other_doubts(report, fused)
    return answer(report, "good" if worth else "below", (f"{text}{host}.", *more), subject, end)


def _judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the headline claims: what fusing gains."""
    yield from ((row.case.id, "speedup") for row in rows if row.case.name == "fused")


SPEC = BenchmarkSpec(
    KEY,
    _CASES,
    (
        Family(("separate", "fused", "host", "solo", "many"), ("rows", "dtype"),
               ("time", "rate", "speedup", "speedup_over_host", "efficiency", "ideal",
                "ideal_balanced", "overlap", "device_time")),
    ),
    command=("bench", "chain"),
    recipe=ChainRecipe,
    columns=("case", Column("on", cell=_where), "time", "rate",
             "speed-up", Column("over host", "speedup_over_host"), "ideal", "of ideal",
             "efficiency", "overlap", "error", "n", "trust", "status"),
    title=_title,
    speedups=True,
    row_key=ChainKey,
    sizes=("rows",),
    headline=_headline,
    claims=_judged,
)  # fmt: skip
