"""Theano's two-device graph, made honest: one matrix product for each name, on one device or all.

Cases, each at every size:

    solo                  one product on each device, alone
    one                   all products on the fastest single device: the reference
    many                  one product on each device, queued from one thread
    one+fetch, many+fetch each result fetched to the host too, from one thread
    many+fetch+threads    the same with one host thread for each device

What several devices gain, and what they could, is in `gpumap.engine.estimates`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from gpumap.bench.gains import Figures
from gpumap.bench.names import ReferenceRecipe
from gpumap.bench.registry import BenchmarkSpec, Family, size_of
from gpumap.dtypes import ITEMSIZE, Arithmetic, storage
from gpumap.engine.base import COMPARABLE, Benchmark, Iteration, OpenDevices, Settings, ordered
from gpumap.engine.ceilings import hardware_groups
from gpumap.engine.needs import check_features
from gpumap.engine.products import BUFFERS, Pair, Product, multiplied
from gpumap.engine.sampling import reference, times
from gpumap.engine.sizes import squares
from gpumap.engine.verify import host_bytes
from gpumap.errors import DeviceError, QuestionError, Unsupported
from gpumap.judge.doubts import about, because, doubtful, largest, single_device
from gpumap.judge.inconclusive import ENOUGH
from gpumap.judge.phrases import answer, interval, names, value
from gpumap.model import Case, Estimate, Group, Limit, LimitOrigin, Plan, Reason, Work, replace
from gpumap.text import chosen, middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.engine.base import Metrics, Taken
    from gpumap.model import Binding, Headline, Measurement, Report, Role

KEY = "dot"
CASES = ("solo", "one", "many", "one+fetch", "many+fetch", "many+fetch+threads")
ONE_DEVICE = Reason("one-device", "the map has one name: a speed-up needs two")
DTYPES: tuple[Arithmetic, ...] = ("float32", "float64", "float16", "bfloat16", "tf32")
# What a case of several names is judged against, and so what must be measured with it.
REFERENCES = {"many": "one", "many+fetch": "one+fetch", "many+fetch+threads": "one+fetch"}
# What matters most; the ideal follows from all that are alone.
_MATTERS = (("one",), ("many",), ("solo",), ("one+fetch", "many+fetch"), ("many+fetch+threads",))
_JUDGED = {"one": ("time",), "many": ("time", "speedup")}
_FIRST = len(_JUDGED)  # of what matters: a gate judges it, so it is measured alone at first
_PILOT = 512  # large enough to rank devices by, whatever the sizes, and quick


class Params(NamedTuple):
    """What to multiply: square sizes, the type of the elements, which cases, which data."""

    sizes: tuple[int, ...]
    dtype: Arithmetic = "float32"
    cases: tuple[str, ...] = CASES
    seed: int = 1


def plan(bindings: Sequence[Binding], params: Params, fastest: Binding) -> Plan:
    """Return the cases of every size, and the memory of the largest."""
    wanted = {*params.cases, *(REFERENCES[case] for case in params.cases if case in REFERENCES)}
    if wanted & REFERENCES.keys():
        wanted |= {"solo", "one"}  # the ideal follows from them
    ordered_cases = tuple(case for case in CASES if case in wanted)
    sized = [tuple(_cases(bindings, params, size, ordered_cases, fastest)) for size in params.sizes]
    groups = tuple(
        Group(cases, str(size), ordered(cases, *_MATTERS), COMPARABLE, first=_FIRST)
        for cases, size in zip(sized, params.sizes, strict=True)
    )
    largest = max(params.sizes) ** 2 * _itemsize(params.dtype)
    return Plan(groups, _memory(bindings, params, fastest, ordered_cases), largest)


class Dot(Benchmark):
    """The products of a plan, on opened sessions."""

    key = KEY
    computes = True
    work = "whole"

    def __init__(self, devices: OpenDevices, params: Params, fastest: Binding) -> None:
        self.plan = plan(devices.bindings, params, fastest)
        self._devices, self._params, self._fastest = devices, params, fastest
        self._pairs: dict[str, Pair] = {}
        self._products: dict[tuple[str, str], Product] = {}
        self._peaks: dict[str, Limit | None] = {}  # by device id

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the matrices of the size before; ask for peaks before anything is timed."""
        self._pairs, self._products = {}, {}
        for binding in self._devices.bindings:
            if binding.device.id not in self._peaks:
                self._peaks[binding.device.id] = None
                with suppress(DeviceError, Unsupported):  # its rows will say what is wrong with it
                    peak = self._devices.sessions[binding.name].peak(self._params.dtype)
                    self._peaks[binding.device.id] = peak

    def iteration(self, case: Case) -> Iteration:
        """Put a case's matrices where they are needed."""
        size = int(case.params["size"])
        whose = case.bindings if case.name == "solo" else self._devices.bindings
        placed = _places(case.name, whose, self._fastest)
        products = [self._product(whose.name, where.name, size) for whose, where in placed]
        fetched, threads = "fetch" in case.name, "threads" in case.name
        return multiplied(products, self._devices.clock if threads else None, fetched=fetched)

    def metrics(self, group: Group, samples: Taken, confidence: float) -> Metrics:
        """Return time and rate of each case, and what several devices gain."""
        figures = Figures(group, samples, confidence)
        return {case.id: figures.of(case) for case in group.cases if case.id in samples}

    def limit(self, case: Case) -> Limit | None:
        """Return the arithmetic peak of the devices of a case; hardware counts once.

        No device is asked here: when a run was stopped its sessions are closed by now.
        """
        peaks = [
            [peak for b in together if (peak := self._peaks.get(b.device.id)) is not None]
            for together in hardware_groups(case.bindings)
        ]
        if not all(peaks):
            return None
        best = [max(group, key=lambda peak: peak.value) for group in peaks]
        source = "; ".join(dict.fromkeys(peak.source for peak in best))
        origin = max((peak.origin for peak in best), key=get_args(LimitOrigin).index)
        return Limit("rate", sum(peak.value for peak in best), "FLOP/s", source, origin)

    def _product(self, whose: str, where: str, size: int) -> Product:
        if whose not in self._pairs:
            number = [binding.name for binding in self._devices.bindings].index(whose)
            self._pairs[whose] = Pair((self._params.seed, number), size, self._params.dtype)
        if (whose, where) not in self._products:
            product = Product(where, self._devices.sessions[where], self._pairs[whose])
            self._products[whose, where] = product
        return self._products[whose, where]


def pilot(bindings: Sequence[Binding], devices: OpenDevices, params: Params) -> dict[str, float]:
    """Return a quick time of one product for each name, to choose the reference by."""
    pair = Pair((params.seed, 0), _PILOT, params.dtype)
    return times(bindings, devices, lambda session: Product("", session, pair).queue)


def _cases(
    bindings: Sequence[Binding], params: Params, size: int, wanted: Sequence[str], fastest: Binding
) -> Iterable[Case]:
    ids: dict[str, str] = {}
    for name in wanted:
        several = tuple(bindings) if name.startswith("many") else (fastest,)
        places = [(b,) for b in bindings] if name == "solo" else [several]
        for place in places:
            products = 1 if name == "solo" else len(bindings)
            skip = ONE_DEVICE if name in REFERENCES and len(bindings) == 1 else None
            fetched = products * size**2 * _itemsize(params.dtype) if "fetch" in name else 0
            work = Work(products, 2 * size**3 * products, 0, fetched)
            keys = {"size": size, "dtype": params.dtype}
            role: Role = "solo" if name == "solo" else "measured"
            against = None if skip else ids.get(REFERENCES.get(name, ""))
            case = Case(KEY, name, keys, place, work, against, skip, role=role)
            ids[name] = case.id
            yield case


def _places(
    name: str, bindings: Iterable[Binding], fastest: Binding
) -> list[tuple[Binding, Binding]]:
    """Return, for each product of a case, whose it is and where it is multiplied."""
    return [(b, fastest if name.startswith("one") else b) for b in bindings]


def _itemsize(arithmetic: Arithmetic) -> int:
    return ITEMSIZE[storage(arithmetic)]


def _memory(
    bindings: Sequence[Binding], params: Params, fastest: Binding, wanted: Sequence[str]
) -> dict[str, int]:
    """Return the bytes that the largest size takes, by device id, and on the host."""
    size = max(params.sizes)
    matrix = size**2 * _itemsize(params.dtype)
    pilot = BUFFERS * _PILOT**2 * _itemsize(params.dtype)
    memory = dict.fromkeys((b.device.id for b in bindings), 0)
    for _, where in {place for case in wanted for place in _places(case, bindings, fastest)}:
        memory[where.device.id] += BUFFERS * matrix
    memory = {id_: max(taken, pilot) for id_, taken in memory.items()}
    fetch = len(bindings) * matrix if any("fetch" in case for case in wanted) else 0
    memory["host"] = fetch + len(bindings) * host_bytes(size)
    return memory


# --- command


class DotRecipe(ReferenceRecipe):
    """Recipe of `bench dot`."""

    every = CASES

    def __init__(self, settings: Settings, *, size: str, dtype: str, **others: Any) -> None:
        super().__init__(settings, **others)
        (arithmetic,) = chosen(dtype, DTYPES, "element type", "--dtype", most=1)
        self.only_judged = self.cases is None  # else exactly what is requested
        self.params = Params(squares(size), arithmetic, self.cases or CASES, settings.seed)

    def plan(self, bindings: Sequence[Binding]) -> Plan:
        """Return the plan by the reference that is named, or by the first name."""
        for case in self.cases or ():
            if case in REFERENCES and len(bindings) == 1:
                fix = "map a second name, or omit the case"
                raise QuestionError(f"the case {case} needs two names, and the map has one", fix)
        return plan(bindings, self.params, self.named(bindings) or bindings[0])

    def benchmark(self, devices: OpenDevices) -> Dot:
        """Return the products on open devices."""
        bindings = devices.bindings
        check_features(bindings, devices.sessions, self.params.dtype)
        first = self.named(bindings) or self._chosen(devices)
        return Dot(devices, self.params, first)

    def _chosen(self, devices: OpenDevices) -> Binding:
        """Return the baseline's reference, or one by a look at the devices."""
        look = partial(pilot, devices=devices, params=self.params)
        backend = devices.bindings[0].device.backend
        base = reference_of(self.base, backend) if self.base else None
        return reference(devices.bindings, look, base)


def reference_of(report: Report, backend: str) -> str | None:
    """Return the name that the reference of a backend ran on in a report; None without one."""
    alone = (
        row.case.bindings[0]
        for row in report.measurements
        if row.case.bench == KEY and row.case.role != "solo" and len(row.case.names) == 1
    )
    return next((b.name for b in alone if b.device.backend == backend), None)


# --- headline

_SHARED = "shared-hardware"  # the ideal is that of one device
_MORE = 1.01  # times as fast: a better split is worth a word


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what several devices gain, by `many` at the largest size; or what one device does."""
    rows = largest(rows, size_of)
    several = [row for name in REFERENCES for row in rows if row.case.name == name]
    many = next((r for r in several if not (r.reason and r.reason.code == ONE_DEVICE.code)), None)
    if many is None:
        return _single(report, rows)
    if (doubt := doubtful(report, many, "speedup")) is not None:
        return doubt
    return _gain(report, rows, many)


def _gain(report: Report, rows: Sequence[Measurement], many: Measurement) -> Headline:
    gain, subject = many.metrics["speedup"], about(many, "speedup")
    ideal = many.metrics["ideal"].value if "ideal" in many.metrics else len(many.case.bindings)
    one = next((row for row in rows if row.case.id == many.case.against), None)
    other = names(one.case.bindings) if one is not None else "one"
    who = f"{names(many.case.bindings)} are {value(gain)} times as fast as {other}"
    fetched = () if many.case.name != "many" else _fetched(rows)
    if subject.cause == "unequal-devices":
        text = f"{who} ({interval(gain)}): {_unequal(rows, many)}"
        return answer(report, "below", (text, *fetched), subject)
    best = "" if subject.cause == _SHARED else f"; {value(Estimate.exact(ideal))} is ideal"
    text = f"{who} ({interval(gain)}{best})"
    if gain.value >= ENOUGH * ideal and many.explanation is None:
        return answer(report, "good", (f"{text}.", *fetched), subject)
    return answer(report, "below", (f"{text}: {because(many)}.", *fetched), subject)


def _fetched(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what devices gain where their results are fetched, if that is known."""
    gains = (row.metrics.get("speedup") for row in rows if row.case.name == "many+fetch")
    known = [gain for gain in gains if gain is not None and gain.has_interval]
    return tuple(f"With results fetched: {value(gain)} times." for gain in known)


def _unequal(rows: Sequence[Measurement], many: Measurement) -> str:
    """Return which device is slower, and what another split of the work would reach."""
    solo = [row for row in rows if row.case.name == "solo" and "time" in row.metrics]
    alone = {row.case.names[0]: row.metrics["time"].value for row in solo}
    if not alone:
        return f"{because(many)}."
    slow, fast = (pick(alone, key=lambda name: alone[name]) for pick in (max, min))
    text = f"{middle(slow)} takes {alone[slow] / alone[fast]:.1f} times as long."
    better = many.metrics.get("ideal_balanced")
    if better is None or better.value < _MORE * many.metrics["speedup"].value:
        return text
    return f"{text} Split by speed, {value(better)} is possible."


def _single(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what one device computes in a second."""
    first = next((row for row in rows if row.status == "ok"), rows[0])
    found = single_device(report, first, "{} computes {}", "rate")
    if found.level != "good" or len(report.bindings) > 1:
        return found
    return replace(found, text=f"{found.text} Map a second device to compare.")


def _judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what the headline claims: the times of `one` and `many`, and what `many` gains."""
    for row in rows:
        yield from ((row.case.id, metric) for metric in _JUDGED.get(row.case.name, ()))


SPEC = BenchmarkSpec(
    (Family(CASES, ("size", "dtype"),
            ("time", "rate", "speedup", "speedup_over_one", "efficiency", "ideal",
             "ideal_balanced", "overlap", "fetch", "time_observed",
             "speedup_observed", "undisturbed")),),
    command=("bench", "dot"),
    recipe=DotRecipe,
    columns=("case", "on", "time", "rate", "of peak", "speed-up", "of ideal", "overlap", "error",
             "n", "trust", "status"),
    title=lambda case: "dot {size} x {size} {dtype}".format_map(case.params),
    sizes=("size",),
    products=True,
    headline=headline,
    claims=_judged,
)  # fmt: skip
