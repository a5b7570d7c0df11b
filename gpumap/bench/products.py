"""Products of random matrices: on devices, as the control of every block, and A against A.

Two runs on one machine differ by more than their intervals say: the machine has changed between
them. What both measured beside the same product, the control, can be compared all the same, block
by block.
"""

from __future__ import annotations

from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

from gpumap.bench.base import Benchmark, Iteration
from gpumap.bench.estimates import by_block, ratio, time_and_rate
from gpumap.bench.keys import ControlKey, ProductKey
from gpumap.bench.registry import CONTROL, BenchmarkSpec, CaseSpec, Column, Family, is_control
from gpumap.bench.verify import (
    ROWS,
    Expected,
    Matrix,
    hollow_array,
    host_bytes,
    is_hollow,
    moved,
    one_of_each,
    played,
    prove,
    worse,
)
from gpumap.dtypes import ITEMSIZE, np, numpy_dtype, storage
from gpumap.judge.pairs import LAST, Change, alarms, located, passing
from gpumap.model import Case, Group, Kind, Plan, Work, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.bench.base import Events
    from gpumap.dtypes import Arithmetic
    from gpumap.judge.pairs import Outcome
    from gpumap.model import Alarms, Binding, Check, Estimate, Limit, Param, Samples

KEY = CONTROL
_AT_ONCE = 16  # products of a device before the next one's turn: each call takes the host's time
SIZE = 512  # large enough to keep any device at work, and quick
_BYTES = 4 * SIZE**2
_BUFFERS = 3  # a, b and out


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
    def destination(self) -> Any:
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
    def destination(self) -> Any:
        """Room for the result on the host."""
        return self.pair.destination if self._hollow is None else self._hollow

    def poison(self) -> None:
        """Fill the result with NaN."""
        rows = np.full((min(ROWS, self.out.shape[0]), self.out.shape[1]), np.nan, self.out.dtype)
        for start in range(0, self.out.shape[0], ROWS):
            target = self.out[start : start + ROWS]
            self.session.upload(rows[: target.shape[0]], target)
        self.session.synchronize()

    def queue(self, events: Events | None = None, repeat: int = 1) -> None:
        """Queue the product `repeat` times, between two marks where its span is wanted."""
        if events is not None:
            events.begin(self.name, self.session)
        self.session.gemm(self._a, self._b, self.out, tf32=self.pair.tf32, repeat=repeat)
        if events is not None:
            events.end(self.name, self.session)

    def fetch(self) -> None:
        """Copy the result to the host, and wait for it as a program would."""
        self.session.download(self.out, self.destination)
        self.session.synchronize()

    def check(self, *, fetched: bool) -> Check:
        """Return whether the result, on the device or as it landed on the host, is right."""
        return self.pair.expected.check(self.destination if fetched else self.out)


class DotIteration(Iteration):
    """One iteration of a case: its products, fetched or not, from one thread or from several."""

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
                product.destination.fill(float("nan"))

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue the products; where results are fetched, all are queued before the first fetch."""
        if self._threads is None and not self._fetched:
            for start in range(0, iterations, _AT_ONCE):
                for product in self._products:
                    product.queue(events, min(_AT_ONCE, iterations - start))
            return
        for _ in range(iterations):
            if self._threads is not None:
                self._threads.run_concurrently(
                    [partial(_queue_and_fetch, p, events) for p in self._products]
                )
                continue
            for product in self._products:
                product.queue(events)
            for product in self._products:
                product.fetch()

    def finish(self) -> None:
        """Wait for every device."""
        for session in self._sessions.values():
            session.synchronize()

    def check(self) -> Check:
        """Return the worst of the products' checks."""
        return reduce(worse, (p.check(fetched=self._fetched) for p in self._products))


def multiplied(products: list[Product], threads: Clock | None, *, fetched: bool) -> Iteration:
    """Return the iteration of some products; of hollow ones it is scripted what comes of them."""
    work = DotIteration(products, threads, fetched=fetched)
    return played(work, products[0].session, products[0].pair.nbytes)


def _queue_and_fetch(product: Product, events: Events | None) -> None:
    """Do what one host thread does for its device."""
    product.queue(events)
    product.fetch()


def _uploaded(matrix: Matrix, session: Session) -> Any:
    buffer = session.empty((matrix.size, matrix.size), storage(matrix.arithmetic))
    for rows, block in matrix.blocks():
        session.upload(block, buffer[rows])
        session.synchronize()  # the block ends with this turn of the loop
        prove(block, buffer[rows])
    return buffer


# --- the control product


def controlled(plan: Plan, bindings: Sequence[Binding]) -> Plan:
    """Return a plan with controls in every group, on each device and on those that work at once."""
    first = one_of_each(bindings)
    groups = tuple(
        replace(group, cases=(*group.cases, *_controls(group, first))) for group in plan.groups
    )
    memory = dict(plan.memory)
    for binding in first:
        memory[binding.device.id] = memory.get(binding.device.id, 0) + _BUFFERS * _BYTES
    memory["host"] = memory.get("host", 0) + host_bytes(SIZE)  # one pair for all
    largest = max(plan.largest_buffer, _BYTES)
    return replace(plan, groups=groups, memory=memory, largest_buffer=largest)


class Controlled(Benchmark):
    """A benchmark, with control products in every group."""

    def __init__(
        self, inner: Benchmark, bindings: Sequence[Binding], sessions: Mapping[str, Session]
    ) -> None:
        self.key, self.computes = inner.key, inner.computes
        self.plan = controlled(inner.plan, bindings)
        self._inner = inner
        self._sessions = sessions
        self._pair = Pair((0, 0), SIZE, "float32")  # the same numbers in every run, whatever --seed
        self._products: dict[str, Product] = {}

    def begin(self, group: Group) -> None:
        """Let the benchmark let go; the control's matrices stay."""
        self._inner.begin(_without(group))

    def iteration(self, case: Case) -> Iteration:
        """Return the benchmark's iteration of a case, or the control's."""
        if not is_control(case):
            return self._inner.iteration(case)
        for name in case.names:
            if name not in self._products:
                self._products[name] = Product(name, self._sessions[name], self._pair)
        return multiplied([self._products[name] for name in case.names], None, fetched=False)

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the benchmark's figures, and time and rate of each control."""
        figures = dict(self._inner.metrics(_without(group), samples, confidence))
        for case in group.cases:
            if is_control(case) and case.id in samples:
                figures[case.id] = time_and_rate(case, samples[case.id], confidence)
        return figures

    def limit(self, case: Case) -> Limit | None:
        """Return the benchmark's limit; a control is for comparing only."""
        return None if is_control(case) else self._inner.limit(case)


def _without(group: Group) -> Group:
    return replace(group, cases=tuple(case for case in group.cases if not is_control(case)))


def _controls(group: Group, alone: Iterable[Binding]) -> Iterable[Case]:
    """Yield a control on each device, and on all devices of each case that computes on several.

    What devices take from each other at once, as two threads of a core do, a single one never sees.
    """
    places = [[binding] for binding in alone]
    places += [one_of_each(case.bindings) for case in group.cases if case.work.operations]
    params: dict[str, Param] = {"size": SIZE, "dtype": "float32", "beside": group.key}
    for place in {tuple(b.device.id for b in place): tuple(place) for place in places}.values():
        yield Case(KEY, "product", params, place, Work(len(place), len(place) * 2 * SIZE**3))


# --- the self-test: A against A
#
# The very same product measured as two cases, so that whatever differs is noise. One group for
# each device of the map, with the cases `a` and `b`; both multiply the same matrices into the same
# memory. `b` is compared with `a` in consecutive runs of blocks, each as long as a short
# comparison: every alarm is false.

_SELFTEST = "selftest"
_SIDES = ("a", "b")
SIZES = (1024, 512, 256, 128, 64)
PILOT = 512  # the size of the product whose time tells which one fits
_DTYPE: Arithmetic = "float32"
_ITEMSIZE = 4
RUNS = 12  # of some two seconds each, in a minute for two devices
SHORTEST = 20  # blocks of a run
_MEASURING = 0.6  # of a device's time: the rest is warm-up and checks
_WANTED = 2 * RUNS * SHORTEST  # blocks: runs of twice the shortest length


def fitting(pilot: float, share: float) -> int:
    """Return the size of the largest product of which enough fit into a device's share of time.

    Args:
        pilot: the seconds that a product of the size PILOT takes.
        share: the seconds that the device has.
    """
    enough = _MEASURING * share / (_WANTED * len(_SIDES))
    return next((n for n in SIZES if pilot * (n / PILOT) ** 3 <= enough), SIZES[-1])


def selftest_plan(bindings: Sequence[Binding], sizes: Mapping[str, int]) -> Plan:
    """Return A and B for each device, and the memory that they take; `sizes` is by name."""
    chosen = one_of_each(bindings)
    together = (tuple(range(len(_SIDES))),)
    groups = tuple(
        Group(tuple(_both(b, sizes[b.name])), order=together, insists=True) for b in chosen
    )
    buffer = {b.device.id: sizes[b.name] ** 2 * _ITEMSIZE for b in chosen}
    memory = {id_: _BUFFERS * nbytes for id_, nbytes in buffer.items()}
    memory["host"] = max(host_bytes(sizes[b.name]) for b in chosen)
    return Plan(groups, memory, max(buffer.values()))


def false_alarms(case: Case, ratios: Sequence[float], threshold: float) -> Alarms:
    """Return the verdicts on consecutive runs of B over A, one ratio for each block."""
    from gpumap.model import Alarms  # a Struct: a shell's TAB loads this module

    length = max(len(ratios) // RUNS, SHORTEST)
    starts = range(0, len(ratios) - length + 1, length)
    words = [_verdict(ratios[n : n + length], threshold) for n in starts[:RUNS]]
    (binding,) = case.bindings
    return Alarms(
        case.id,
        binding.device.id,
        binding.name,
        threshold,
        length if words else 0,
        words.count("regression"),
        words.count("pass"),
        words.count("inconclusive"),
    )


def _verdict(run: Sequence[float], threshold: float) -> Outcome:
    """Return the verdict on a run in both directions: B may seem slower, or A."""
    found = located(run, LAST / 2)
    if found is None:
        return "inconclusive"
    slower = Change(found.value, found.low, found.high)
    both = (slower, -slower)
    if alarms([lambda _, way=way: way for way in both], threshold):  # type: ignore[misc]
        return "regression"
    clear = all(passing(way, threshold) != "inconclusive" for way in both)
    return "pass" if clear else "inconclusive"


class SelfTest(Benchmark):
    """A and B of each device, on opened sessions."""

    key = _SELFTEST

    def __init__(
        self,
        bindings: Sequence[Binding],
        sessions: Mapping[str, Session],
        sizes: Mapping[str, int],
        seed: int = 1,
    ) -> None:
        self.plan = selftest_plan(bindings, sizes)
        self._sessions = sessions
        self._seed = seed
        self._iterations: dict[str, Iteration] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the matrices of the device before."""
        self._iterations = {}

    def iteration(self, case: Case) -> Iteration:
        """Return the iteration of a device: the same one for A and for B."""
        name = case.names[0]
        if name not in self._iterations:
            pair = Pair((self._seed, 0), int(case.params["size"]), _DTYPE)
            product = Product(name, self._sessions[name], pair)
            self._iterations[name] = multiplied([product], None, fetched=False)
        return self._iterations[name]

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time and rate of A and of B, and B's false speed-up."""
        cases = [case for case in group.cases if case.id in samples]
        figures = {case.id: time_and_rate(case, samples[case.id], confidence) for case in cases}
        for case in cases:
            if case.against in figures:
                a, b = by_block(samples[case.against]), by_block(samples[case.id])
                if (gain := ratio(a, b, confidence)) is not None:
                    figures[case.id]["speedup"] = gain
        return figures


def _both(binding: Binding, size: int) -> Iterable[Case]:
    against = None
    for name in _SIDES:
        keys: dict[str, Param] = {"size": size, "dtype": _DTYPE}
        case = Case(_SELFTEST, name, keys, (binding,), Work(1, 2 * size**3), against)
        against = case.id
        yield case


SELFTEST = BenchmarkSpec(
    _SELFTEST,
    tuple(map(CaseSpec, _SIDES)),
    (Family(_SIDES, ("size", "dtype"), ("time", "rate", "speedup")),),
    columns=("case", "on", "time", "rate", Column("a/b", "speedup"), "error", "n", "trust",
             "status"),
    title=lambda case: "A against A: dot {size} x {size} {dtype}".format_map(case.params),
    row_key=ProductKey,
    sizes=("size",),
    work="whole",
)  # fmt: skip


SPEC = BenchmarkSpec(
    KEY,
    (CaseSpec("product"),),
    (Family(("product",), ("size", "dtype", "beside"), ("time", "rate")),),
    charts=("timeline",),
    row_key=ControlKey,
    sizes=("size",),
)
