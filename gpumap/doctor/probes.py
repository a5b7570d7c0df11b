"""The probes: four workloads of Theano's users on a name, against NumPy with all cores.

    affine       y = x.w + b, 100 x 10 by 10 x 5: the article's first example
    small, large the same for 10 rows and for 10,000, 100 calls each with x moved: its second
    chain        log(exp(relu(x.w + b))) for 10,000 rows by single kernels: its third

It is a child process: ``python -m gpumap.doctor.probes FD`` reads the names and their devices from
stdin. The article is "Why is Theano rarely using the GPU?". A few plain figures, too: the cost of a
launch, a copy, a product and the set-up. Every result is verified before it counts.

Do several names work at once? One product for each, by the runner and judge of `bench dot`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Clock, Host, Session, require
from gpumap.bench.calls import DeviceCall, HostCall, PartedCall, Placed
from gpumap.bench.causes import explaining
from gpumap.bench.chain_work import Data, DeviceIteration, HostIteration
from gpumap.bench.chain_work import Placed as PlacedChain
from gpumap.bench.dot import Dot, Params, pilot
from gpumap.bench.keys import REPEATS
from gpumap.bench.verified_copies import Buffers, HostCopy
from gpumap.bench.workloads import WORKLOADS, Problem
from gpumap.doctor.child_run import bindings_of, serve
from gpumap.doctor.evidence import Gain, Measured
from gpumap.engine.base import Iteration, Settings, wrong
from gpumap.engine.products import Pair, Product
from gpumap.engine.runner import Runner
from gpumap.engine.sampling import Series, calibrate, fastest, in_turns
from gpumap.errors import GpumapError, OutOfMemory, Unsupported
from gpumap.judge.inconclusive import refused
from gpumap.machine.blas import Cores
from gpumap.machine.state import Neighbours
from gpumap.machine.topology import read
from gpumap.model import Around, Binding, Estimate, Example, Reason, Shares, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.doctor.child_run import ChildJob, Line
    from gpumap.engine.base import Events, Snapshot
    from gpumap.model import Check, Measurement, Plan

ROWS = {"small": 10, "affine": 100, "large": 10_000}
_SIZE = 512  # of the products
_COPY = 4 << 20  # bytes
_REPEATS = 20
_BLOCKS = 6  # all values together are an interval of 95 % of their median
_WORK = 1.1e-2  # seconds of a product: one of them is long enough for a sample of `bench dot`
_LEAST, _MOST, _STEP = 128, 4096, 64  # sizes of it
_CONCURRENT_BLOCKS = 40
_SCRIPTED = 6  # blocks of scripted devices: each is as the others


@dataclass
class Probes:
    """The probes on one name; figures grow, so that an error in the middle loses nothing."""

    binding: Binding
    open: Callable[[], Session]
    clock: Clock
    cores: Cores
    session: Any = None
    figures: dict[str, Estimate] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    missing: str | None = None

    def run(self, *, calls: bool = True) -> Measured:
        """Run all, with calls of Theano's users or not; an error becomes the failure."""
        failure = None
        try:
            self._all(calls=calls)
        except _Wrong as wrong:
            failure = Reason("wrong-data", str(wrong))
        except GpumapError as error:
            failure = Reason(error.diagnostics[0].code, str(error))
        return Measured(dict(self.figures), tuple(self.examples), failure, self.missing)

    def _all(self, *, calls: bool) -> None:
        self._set_up()
        self._plain()
        if calls:
            self._affine()
        self._products()
        if calls:
            self._chain()

    def _set_up(self) -> None:
        """Time opening the device and a first call, less a later one."""
        problem = Problem(WORKLOADS["affine"], ROWS["affine"], 1)
        start = self.clock.now()
        self.session = self.open()
        call = DeviceCall(Placed(problem, self.session, proved=False), upload=True)
        call.queue()
        first = self.clock.now() - start
        _right(call)
        again = self._timed(call.queue)
        self.figures["setup"] = Estimate.exact(max(first - again.value, 0.0), "s")
        self.figures["call"] = again

    def _plain(self) -> None:
        """Time a launch, a wait for several, and a copy."""
        tiny = Product("", self.session, Pair((1, 0), 16, "float32"))
        self.figures["launch"] = self._timed(partial(_waited, tiny))
        self.figures["waiting"] = self._waiting(tiny)
        part = Buffers("", self.session, _COPY, "pageable", (1, 0)).part(_COPY)
        for direction in ("d2h", "h2d"):
            copy = HostCopy([part], direction, sync=True)
            _right(copy)
        seconds = self._timed(copy.queue, _BLOCKS)
        if seconds.low > 0.0:
            low, value, high = (_COPY / s for s in (seconds.high, seconds.value, seconds.low))
            self.figures["bandwidth"] = Estimate(value, low, high, "B/s")

    def _waiting(self, tiny: Product) -> Estimate:
        """Return what waiting after each of ten products adds to one, over waiting once."""
        many = 10

        def each_waited() -> None:
            for _ in range(many):
                _waited(tiny)

        def once() -> None:
            for _ in range(many):
                tiny.queue()
            self.session.synchronize()

        each = self._timed(each_waited, _BLOCKS)
        return Estimate.exact(max(each.value - self._timed(once, _BLOCKS).value, 0.0) / many, "s")

    def _affine(self) -> None:
        """Call the affine map on few rows and on many, and the same on the host."""
        for key, rows in ROWS.items():
            problem = Problem(WORKLOADS["affine"], rows, 1)
            placed = Placed(problem, self.session)
            call = DeviceCall(placed, upload=True)
            _right(call)
            host = HostCall(problem, self.clock, self.cores)
            times = self._turns({"device": call, "host": host})
            device, alone = (_interval(seconds) for seconds in times.values())
            text, shares = f"x.w + b, {rows} x 10 by 10 x 5", self._shares(placed, alone)
            self.examples.append(Example(key, text, REPEATS, device, alone, shares))

    def _shares(self, placed: Placed, alone: Estimate) -> Shares:
        """Return where the time of calls goes."""
        call, start = PartedCall(placed, self.clock), self.clock.now()
        parts = call.spent(REPEATS)
        total = self.clock.now() - start
        upload, compute, download = (part / (total or 1.0) for part in parts)
        overhead = max(1.0 - upload - compute - download, 0.0)
        host = REPEATS * alone.value
        return Shares(REPEATS, total, host, upload, compute, download, overhead)

    def _products(self) -> None:
        """Time a product in both types, and the host's own."""
        problem = Problem(WORKLOADS["product"], _SIZE, 1)
        call = DeviceCall(Placed(problem, self.session), upload=False, download=False)
        host = HostCall(problem, self.clock, self.cores)
        call.poison()
        times = self._turns({"product": call, "host_product": host})
        _right(call)
        self.figures |= {name: _interval(seconds) for name, seconds in times.items()}
        if "float64" in self.session.features:
            double = Product("", self.session, Pair((1, 0), _SIZE, "float64"))
            self.figures["double"] = self._timed(partial(_waited, double), _BLOCKS)

    def _chain(self) -> None:
        data = Data(ROWS["large"], "float32", 1)
        try:
            chain = ChainCall(data, self.session)
            _right(chain)
        except OutOfMemory:
            raise
        except Unsupported as error:
            self.missing = str(error)
            return
        host = HostIteration(data, self.clock, self.cores)
        times = self._turns({"chain": chain, "host": host})
        text = "log(exp(relu(x.w + b))), 10000 x 10 by 10 x 5"
        device, host_ = (_interval(times[side]) for side in ("chain", "host"))
        self.examples.append(Example("chain", text, 1, device, host_))
        self.figures["elementwise"] = self._timed(chain.elementwise, _BLOCKS)
        self.figures["one_pass"] = self._timed(chain.one_pass, _BLOCKS)

    def _turns(self, iterations: Mapping[str, Iteration]) -> dict[str, list[float]]:
        """Return the seconds of each, in blocks with each once, in alternating order."""
        series = {name: Series(work) for name, work in iterations.items()}
        for each in series.values():
            calibrate(each, self.clock, most=REPEATS)
        return in_turns(series, self.clock, _BLOCKS)

    def _timed(self, job: Callable[[], Any], repeats: int = _REPEATS) -> Estimate:
        """Return the seconds of a job that waits for its own end; its first run does not count."""
        job()
        seconds = []
        for _ in range(repeats):
            start = self.clock.now()
            job()
            seconds.append(self.clock.now() - start)
        return _interval(seconds)


class ChainCall(Iteration):
    """Calls of the chain on a device, one kernel for each operation, each call waited for."""

    def __init__(self, data: Data, session: Session) -> None:
        require(session, "kernels", "the chain of kernels")
        self._data, self._session = data, session
        self._placed = PlacedChain("", session, data)
        self._job = DeviceIteration(self._placed, fused=False)
        self._behind = self._placed.elementwise(self._job.out)
        self._pass = self._placed.one_pass(self._job.out)
        self._staging = data.empty()

    def poison(self) -> None:
        """Make y wrong, on the device and on the host."""
        self._job.poison()
        self._staging.fill(float("nan"))

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Call `iterations` times."""
        for _ in range(iterations):
            self._placed.upload()
            self._job.queue()
            self._session.download(self._job.out, self._staging)
            self._session.synchronize()

    def check(self) -> Check:
        """Verify the result on the host."""
        return self._data.check(self._staging)

    def elementwise(self) -> None:
        """Run all kernels after the product, on its last result."""
        self._behind()
        self._session.synchronize()

    def one_pass(self) -> None:
        """Run one kernel: it reads and writes as much as all of them would if they were one."""
        self._pass()
        self._session.synchronize()


class _Wrong(Exception):
    """An answer was wrong. It never leaves this file."""


def _waited(product: Product) -> None:
    product.queue()
    product.session.synchronize()


def proved(work: Iteration) -> str | None:
    """Do a work once on wrong destinations; return what is wrong behind it."""
    work.poison()
    work.queue()
    work.finish()
    check = work.check()
    return None if check.passed else wrong(check).text


def _right(work: Iteration) -> None:
    if (text := proved(work)) is not None:
        raise _Wrong(text)


def _interval(seconds: Sequence[float]) -> Estimate:
    """Return the median with an interval of it, by ranks; of few values all of them."""
    from gpumap.engine import stats

    if len(seconds) <= _BLOCKS:
        return Estimate(median(seconds), min(seconds), max(seconds), "s")
    location = stats.location(list(seconds), 0.95, positive=True)
    return Estimate(location.value, location.low, location.high, "s")


class _NoObserver:
    """An observer that ignores everything."""

    def planned(self, plan: Plan) -> None:
        """Ignore the plan."""

    def block(self, snapshot: Snapshot) -> None:
        """Ignore a block."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Ignore the rows."""


def concurrent_gain(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock, seconds: float
) -> Gain | None:
    """Return the speed-up of all names at once; None where it could not be measured."""
    params = Params((_SIZE,))
    times = pilot(bindings, sessions, clock, params)
    if not times:
        return None
    scripted = any(binding.device.backend == "fake" for binding in bindings)
    size = _SIZE if scripted else fitting_size(max(times.values()))
    params = Params((size,), cases=("solo", "one", "many"))
    benchmark = Dot(bindings, sessions, clock, params, fastest(bindings, times))
    if scripted:  # a scripted clock is exact: an iteration is a sample
        groups = tuple(replace(group, shortest=0.0) for group in benchmark.plan.groups)
        benchmark.plan = replace(benchmark.plan, groups=groups)
    around = Around if scripted else Neighbours().read
    settings = Settings(seconds, seconds, blocks=_SCRIPTED if scripted else _CONCURRENT_BLOCKS)
    explain = explaining(benchmark.key)
    rows = list(Runner(benchmark, clock, settings, _NoObserver(), around, explain=explain).run())
    many = next((row for row in rows if row.case.name == "many" and row.status == "ok"), None)
    if many is None or refused(many) or not {"speedup", "ideal"} <= set(many.metrics):
        return None
    return Gain(many.metrics["speedup"], many.metrics["ideal"], many.explanation)


def fitting_size(seconds: float) -> int:
    """Return the size of a product that takes long enough, by what the pilot's took."""
    if seconds <= 0.0:
        return _MOST
    size: float = _SIZE * (_WORK / seconds) ** (1 / 3)
    return min(max(round(size / _STEP) * _STEP, _LEAST), _MOST)


def lines(job: ChildJob, env: Mapping[str, str]) -> Iterator[Line]:
    """Yield a line before each name of a job, one with its results, and one for all at once."""
    import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

    bindings, topology = bindings_of(job), read()
    host, cores = Host(env, topology), Cores(len(topology.cpus))
    backends = {name: load(name, host) for name in {b.device.backend for b in bindings}}
    opened: dict[str, Session] = {}
    for binding in bindings:
        yield {"begin": ("probes", binding.name, None)}
        backend = backends[binding.device.backend]
        clock = backend.clock()
        open_ = partial(backend.open, binding.device, clock)
        probes = Probes(binding, open_, clock, cores)
        measured = probes.run(calls=job["calls"] or not binding.device.in_host_memory)
        if measured.failure is None:
            opened[binding.name] = probes.session
        yield {"name": binding.name, "found": measured}
    if len(bindings) > 1 and len(backends) == 1 and len(opened) == len(bindings):
        clock = backends.popitem()[1].clock()
        yield {"begin": ("together", None, None)}
        gain = concurrent_gain(bindings, opened, clock, job["together"])
        if gain is not None and math.isfinite(gain.speedup.value):
            yield {"together": gain}


if __name__ == "__main__":
    serve(lines)
