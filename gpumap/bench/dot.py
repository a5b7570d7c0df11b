"""Theano's two-device graph, made honest: one matrix product for each name, on one device or all.

Cases, each at every size:

    solo                  one product on each device, alone
    one                   all products on the fastest single device: the reference
    many                  one product on each device, queued from one thread
    one+fetch, many+fetch each result fetched to the host too, from one thread
    many+fetch+threads    the same with one host thread for each device

What several devices gain, and what they could, is in `gpumap.bench.figures`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, get_args

from gpumap.bench.base import COMPARABLE, Benchmark, Round, ordered
from gpumap.bench.dot_headline import headline
from gpumap.bench.figures import Figures
from gpumap.bench.keys import ProductKey
from gpumap.bench.operands import hollow_array, is_hollow, moved, played, prove
from gpumap.bench.pilot import BUSY, times
from gpumap.bench.registry import BenchmarkSpec, CaseSpec, Family
from gpumap.bench.sizes import one_device
from gpumap.bench.verify import ROWS, Expected, Matrix, host_bytes, worse
from gpumap.dtypes import ITEMSIZE, Arithmetic, np, numpy_dtype, storage
from gpumap.errors import DeviceError, Unsupported
from gpumap.judge.ceilings import hardware_groups
from gpumap.model import Binding, Case, Group, Kind, Limit, LimitOrigin, Plan, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Clock, Peak, Session
    from gpumap.bench.base import Spans
    from gpumap.model import Check, Estimate, Samples

KEY = "dot"
_CASES = (
    CaseSpec("solo", "solo"),
    CaseSpec("one"),
    CaseSpec("many", several=True),
    CaseSpec("one+fetch", fetch_of="one"),
    CaseSpec("many+fetch", fetch_of="many", several=True),
    CaseSpec("many+fetch+threads", fetch_of="many", several=True),
)
CASES = tuple(case.name for case in _CASES)
DTYPES: tuple[Arithmetic, ...] = ("float32", "float64", "float16", "bfloat16", "tf32")
# What a case is judged against, and so what must be measured with it.
REFERENCES = {
    "many": "one",
    "many+fetch": "one+fetch",
    "many+fetch+threads": "one+fetch",
}
# What matters most; the ideal stands on all that are alone.
_MATTERS = (("one",), ("many",), ("solo",), ("one+fetch", "many+fetch"), ("many+fetch+threads",))
_FIRST = 2  # of them, whose speed-up is known before the rest takes its time
_BUFFERS = 3  # a, b and out
_AT_ONCE = 16  # products of a device before the next one's turn: each call takes the host's time
_PILOT = 512  # large enough to rank devices by, whatever the sizes, and quick


@dataclass(frozen=True, slots=True)
class Params:
    """What to multiply: square sizes, the type of the elements, which cases, which data."""

    sizes: tuple[int, ...]
    dtype: Arithmetic = "float32"
    cases: tuple[str, ...] = CASES
    seed: int = 1


def plan(bindings: Sequence[Binding], params: Params, fastest: Binding) -> Plan:
    """Return the cases of every size, and the memory of the largest."""
    wanted = _with_references(params.cases)
    sized = [tuple(_cases(bindings, params, size, wanted, fastest)) for size in params.sizes]
    groups = tuple(
        Group(cases, str(size), ordered(cases, *_MATTERS), COMPARABLE, first=_FIRST)
        for cases, size in zip(sized, params.sizes, strict=True)
    )
    largest = max(params.sizes) ** 2 * _itemsize(params.dtype)
    return Plan(groups, _memory(bindings, params, fastest, wanted), largest)


class Dot(Benchmark):
    """The products of a plan, on opened sessions."""

    key = KEY
    computes = True

    def __init__(
        self,
        bindings: Sequence[Binding],
        sessions: Mapping[str, Session],
        clock: Clock,
        params: Params,
        fastest: Binding,
    ) -> None:
        self.plan = plan(bindings, params, fastest)
        self._bindings = tuple(bindings)
        self._sessions = sessions
        self._clock = clock
        self._params = params
        self._fastest = fastest
        self._pairs: dict[str, Pair] = {}
        self._products: dict[tuple[str, str], Product] = {}
        self._peaks: dict[str, Peak | None] = {}  # by device id

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the matrices of the size before; ask for peaks before anything is timed."""
        self._pairs, self._products = {}, {}
        for binding in self._bindings:
            if binding.device.id not in self._peaks:
                self._peaks[binding.device.id] = self._peak(binding.name)

    def round(self, case: Case) -> Round:
        """Put a case's matrices where they are needed."""
        size = int(case.params["size"])
        whose = case.bindings if case.name == "solo" else self._bindings
        placed = _places(case.name, whose, self._fastest)
        products = [self._product(whose.name, where.name, size) for whose, where in placed]
        fetched, threads = "fetch" in case.name, "threads" in case.name
        return multiplied(products, self._clock if threads else None, fetched=fetched)

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
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

    def _peak(self, name: str) -> Peak | None:
        """Return what a device could do at most, if it can tell."""
        with suppress(DeviceError, Unsupported):  # its rows will say what is wrong with it
            return self._sessions[name].peak(self._params.dtype)
        return None

    def _product(self, whose: str, where: str, size: int) -> Product:
        if whose not in self._pairs:
            number = [binding.name for binding in self._bindings].index(whose)
            self._pairs[whose] = Pair((self._params.seed, number), size, self._params.dtype)
        if (whose, where) not in self._products:
            product = Product(where, self._sessions[where], self._pairs[whose])
            self._products[whose, where] = product
        return self._products[whose, where]


class Pair:
    """Two random matrices that belong to a name, wherever they are multiplied."""

    def __init__(self, seed: tuple[int, int], size: int, dtype: Arithmetic) -> None:
        self.shape = (size, size)
        self.dtype = storage(dtype)
        self.tf32 = dtype == "tf32"
        self.left = Matrix((*seed, 0), size, dtype)
        self.right = Matrix((*seed, 1), size, dtype)

    @cached_property
    def expected(self) -> Expected:
        """What their product must be."""
        return Expected(self.left, self.right)

    @cached_property
    def landing(self) -> Any:
        """Room on the host for their product, whichever case fetches it."""
        return np.empty(self.shape, numpy_dtype(self.dtype))

    @property
    def nbytes(self) -> int:
        """The size of each matrix, and of their product."""
        return self.shape[0] * self.shape[1] * ITEMSIZE[self.dtype]


class Product:
    """A pair of matrices on a device, and room for their product."""

    def __init__(self, name: str, session: Session, pair: Pair) -> None:
        self.name = name
        self.session = session
        self.pair = pair
        self._hollow = None
        if is_hollow(session, pair.nbytes):
            self._hollow = hollow_array(pair.shape, numpy_dtype(pair.dtype))
        self._a, self._b = (
            _uploaded(matrix, session) if self._hollow is None else moved(self._hollow, session)
            for matrix in (pair.left, pair.right)
        )
        self.out = session.empty(pair.shape, pair.dtype)

    @property
    def landing(self) -> Any:
        """Room for the result on the host."""
        return self.pair.landing if self._hollow is None else self._hollow

    def poison(self) -> None:
        """Fill the result with NaN."""
        rows = np.full((min(ROWS, self.out.shape[0]), self.out.shape[1]), np.nan, self.out.dtype)
        for start in range(0, self.out.shape[0], ROWS):
            target = self.out[start : start + ROWS]
            self.session.upload(rows[: target.shape[0]], target)
        self.session.synchronize()

    def queue(self, spans: Spans | None = None, repeat: int = 1) -> None:
        """Queue the product `repeat` times, between two marks where its span is wanted."""
        if spans is not None:
            spans.begin(self.name, self.session)
        self.session.gemm(self._a, self._b, self.out, tf32=self.pair.tf32, repeat=repeat)
        if spans is not None:
            spans.end(self.name, self.session)

    def fetch(self) -> None:
        """Copy the result to the host, and wait for it as a program would."""
        self.session.download(self.out, self.landing)
        self.session.synchronize()

    def check(self, *, fetched: bool) -> Check:
        """Return whether the result, on the device or as it landed on the host, is right."""
        return self.pair.expected.check(self.landing if fetched else self.out)


class DotRound(Round):
    """One round of a case: its products, fetched or not, from one thread or from several."""

    def __init__(self, products: list[Product], threads: Clock | None, *, fetched: bool) -> None:
        self._products = products
        self._threads = threads
        self._fetched = fetched
        self._sessions = {product.name: product.session for product in products}
        cuda = all(session.device.kind is Kind.CUDA for session in self._sessions.values())
        self.launched = cuda and not fetched

    def poison(self) -> None:
        """Make every result wrong, on the devices and on the host."""
        for product in self._products:
            product.poison()
            if self._fetched:
                product.landing.fill(float("nan"))

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:
        """Queue the products; where results are fetched, all are queued before the first fetch."""
        if self._threads is None and not self._fetched:
            for start in range(0, rounds, _AT_ONCE):
                for product in self._products:
                    product.queue(spans, min(_AT_ONCE, rounds - start))
            return
        for _ in range(rounds):
            if self._threads is not None:
                self._threads.together([partial(_alone, p, spans) for p in self._products])
                continue
            for product in self._products:
                product.queue(spans)
            for product in self._products:
                product.fetch()

    def finish(self) -> None:
        """Wait for every device."""
        for session in self._sessions.values():
            session.synchronize()

    def check(self) -> Check:
        """Return the worst of the products' checks."""
        return reduce(worse, (p.check(fetched=self._fetched) for p in self._products))


def multiplied(products: list[Product], threads: Clock | None, *, fetched: bool) -> Round:
    """Return the round of some products; of hollow ones it is scripted what comes of them."""
    work = DotRound(products, threads, fetched=fetched)
    return played(work, products[0].session, products[0].pair.nbytes)


def pilot(
    bindings: Sequence[Binding],
    sessions: Mapping[str, Session],
    clock: Clock,
    params: Params,
    most: float = BUSY,
) -> dict[str, float]:
    """Return a quick time of one product for each name, to choose the reference by."""
    pair = Pair((params.seed, 0), _PILOT, params.dtype)

    def prepare(binding: Binding) -> Callable[[], None]:
        session = sessions[binding.name]
        product = Product("", session, pair)

        def job() -> None:
            product.queue()
            session.synchronize()

        return job

    return times(bindings, clock, prepare, most)


def _alone(product: Product, spans: Spans | None) -> None:
    """Do what one host thread does for its device."""
    product.queue(spans)
    product.fetch()


def _uploaded(matrix: Matrix, session: Session) -> Any:
    buffer = session.empty((matrix.size, matrix.size), storage(matrix.arithmetic))
    for rows, block in matrix.blocks():
        session.upload(block, buffer[rows])
        session.synchronize()  # the block ends with this turn of the loop
        prove(block, buffer[rows])
    return buffer


def _with_references(cases: Sequence[str]) -> tuple[str, ...]:
    wanted = {*cases, *(REFERENCES[case] for case in cases if case in REFERENCES)}
    if any(case in REFERENCES for case in wanted):
        wanted |= {"solo", "one"}  # the ideal stands on them
    return tuple(case for case in CASES if case in wanted)


def _cases(
    bindings: Sequence[Binding], params: Params, size: int, wanted: Sequence[str], fastest: Binding
) -> Iterable[Case]:
    ids: dict[str, str] = {}
    for name in wanted:
        several = tuple(bindings) if name.startswith("many") else (fastest,)
        places = [(b,) for b in bindings] if name == "solo" else [several]
        for place in places:
            products = 1 if name == "solo" else len(bindings)
            skip = one_device(SPEC, name, bindings)
            work = _work(size, params.dtype, products, fetch="fetch" in name)
            against = ids.get(REFERENCES.get(name, ""))
            keys = {"size": size, "dtype": params.dtype}
            case = Case(KEY, name, keys, place, work, against if skip is None else None, skip)
            ids[name] = case.id
            yield case


def _places(
    name: str, bindings: Iterable[Binding], fastest: Binding
) -> list[tuple[Binding, Binding]]:
    """Return, for each product of a case, whose it is and where it is multiplied."""
    return [(b, fastest if name.startswith("one") else b) for b in bindings]


def _work(size: int, dtype: Arithmetic, products: int, *, fetch: bool) -> Work:
    to_host = products * size**2 * _itemsize(dtype) if fetch else 0
    return Work(products, 2 * size**3 * products, 0, to_host)


def _itemsize(arithmetic: Arithmetic) -> int:
    return ITEMSIZE[storage(arithmetic)]


def _memory(
    bindings: Sequence[Binding], params: Params, fastest: Binding, wanted: Sequence[str]
) -> dict[str, int]:
    """Return the bytes that the largest size takes, by device id, and on the host."""
    size = max(params.sizes)
    matrix = size**2 * _itemsize(params.dtype)
    pilot = _BUFFERS * _PILOT**2 * _itemsize(params.dtype)
    memory = dict.fromkeys((b.device.id for b in bindings), 0)
    for _, where in {place for case in wanted for place in _places(case, bindings, fastest)}:
        memory[where.device.id] += _BUFFERS * matrix
    memory = {id_: max(taken, pilot) for id_, taken in memory.items()}
    fetch = len(bindings) * matrix if any("fetch" in case for case in wanted) else 0
    memory["host"] = fetch + len(bindings) * host_bytes(size)
    return memory


SPEC = BenchmarkSpec(
    KEY,
    _CASES,
    (Family(CASES, ("size", "dtype"),
            ("time", "rate", "speedup", "speedup_over_one", "efficiency", "ideal",
             "ideal_balanced", "overlap", "fetch", "device_time", "time_observed",
             "speedup_observed", "undisturbed")),),
    command=("bench", "dot"),
    columns=("case", "on", "time", "rate", "of peak", "speed-up", "ideal", "of ideal", "efficiency",
             "overlap", "error", "n", "trust", "status"),
    title=lambda case: "dot {size} x {size} {dtype}".format_map(case.params),
    charts=("speedup", "timeline"),
    row_key=ProductKey,
    sizes=("size",),
    work="whole",
    counted=True,
    arithmetic=True,
    headline=headline,
)  # fmt: skip
