"""The work of `bench chain`: its data, what devices and the host do with them, and its checks.

y = log(exp(relu(x.w + b))), the layer of Theano's users: rows x 10 by 10 x 5, and a bias. As log
undoes exp, the true answer is relu(x.w + b): in float64 it takes a product and no more. Normal data
stay far from where exp overflows in 32 bits.

Rounding is counted in units in the last place, and a check's error in those that are allowed. A sum
of n terms rounds n times (Higham, Accuracy and Stability of Numerical Algorithms, 3.5), each time
by one of |x_i||w_j| at most, the norms of its row and column; exp and log miss by _ULPS at most
(OpenCL 3.0 C, relative error as ULPs: 3; CUDA C++ Programming Guide, mathematical functions: 2;
NumPy's own tests: 4). What exp misses of y, log returns as an absolute error, so the scale of the
whole is 1 + |x_i||w_j| + |b|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, Literal

from gpumap.bench.base import Iteration
from gpumap.bench.verify import METHOD, hollow_array, is_hollow, judged, largest, moved, worse
from gpumap.dtypes import ITEMSIZE, ROUNDING, Array, np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.bench.base import Events
    from gpumap.machine.blas import Cores
    from gpumap.model import Check

    Expected = Callable[[slice], tuple[Array, Any]]  # of rows: the answer, and its scale

Dtype = Literal["float32", "float64"]
INNER, COLUMNS = 10, 5
OPS = ("gemm", "bias", "relu", "exp", "log")
BLOCK = 1 << 16  # rows that are checked at a time
_ULPS = 4  # of exp and of log
_ROUNDED = {  # units in the last place by which an operation may miss
    "chain": INNER + 1 + 2 * _ULPS, "gemm": INNER, "bias": 1, "relu": 1, "exp": _ULPS + 1,
    "log": _ULPS + 1,
}  # fmt: skip
_KERNELS = {"relu": "relu", "exp": "exp_each", "log": "log_each"}


def operations(op: str) -> int:
    """Return the operations of one row; exp and log count as one each."""
    each = {"chain": 2 * INNER + len(OPS) - 1, "gemm": 2 * INNER}
    return COLUMNS * each.get(op, 1)


class Data:
    """Random x, w and b; what each operation is given, and what must come of it.

    Of many rows a scripted session holds none: then x and all that is made of it is hollow.
    """

    def __init__(self, rows: int, dtype: Dtype, seed: int, session: Session | None = None) -> None:
        self.rows, self.dtype = rows, dtype
        self.nbytes = rows * INNER * ITEMSIZE[dtype]
        self.hollow = session is not None and is_hollow(session, self.nbytes)
        rng = np.random.default_rng((seed, rows))
        self.x: Array = (
            hollow_array((rows, INNER), dtype)
            if self.hollow
            else rng.standard_normal((rows, INNER), dtype=dtype)
        )
        self.w: Array = rng.standard_normal((INNER, COLUMNS), dtype=dtype)
        self.b: Array = rng.standard_normal(COLUMNS, dtype=dtype)

    @cached_property
    def source(self) -> Array:
        """What bias, relu and exp are given by themselves: x.w + b."""
        found: Array = self.empty() if self.hollow else self.x @ self.w + self.b
        return found

    @cached_property
    def positive(self) -> Array:
        """What log is given: exp(relu(x.w + b))."""
        found: Array = self.empty() if self.hollow else np.exp(np.maximum(self.source, 0))
        return found

    @cached_property
    def destination(self) -> Array:
        """Room on the host for any result of a device, while it is checked."""
        return self.empty()

    def empty(self) -> Array:
        """Return room for a result on the host."""
        shape = self.rows, COLUMNS
        return hollow_array(shape, self.dtype) if self.hollow else np.empty(shape, self.dtype)

    def given(self, op: str) -> Array:
        """Return the operands of a single operation."""
        return {"gemm": self.x, "log": self.positive}.get(op, self.source)

    def compute(self, op: str, out: Array) -> None:
        """Do one operation, or the whole chain, as a program of the host would."""
        if self.hollow:
            return
        if op == "chain":
            np.matmul(self.x, self.w, out=out)
            out += self.b
            np.maximum(out, 0, out=out)
            np.log(np.exp(out, out=out), out=out)
        elif op == "gemm":
            np.matmul(self.x, self.w, out=out)
        elif op == "bias":
            np.add(self.source, self.b, out=out)
        elif op == "relu":
            np.maximum(self.source, 0, out=out)
        else:
            {"exp": np.exp, "log": np.log}[op](self.given(op), out=out)

    def check(self, op: str, found: Array, rows: slice) -> Check:
        """Return whether `found` is what an operation makes of some rows, within rounding."""
        error, unit = 0.0, _ROUNDED[op] * ROUNDING[self.dtype].write
        with np.errstate(all="ignore"):  # what is wrong may be no number
            for start in range(rows.start, rows.stop, BLOCK):
                part = slice(start, min(start + BLOCK, rows.stop))
                true, scale = self._true(op, part)
                wide = found[part.start - rows.start : part.stop - rows.start].astype(np.float64)
                error = largest(error, abs(wide - true) / (unit * scale))
        return judged(METHOD, error)

    def _true(self, op: str, rows: slice) -> tuple[Array, Any]:
        """Return the true answer of some rows, and what its rounding is measured against."""
        if op in ("chain", "gemm"):
            x, w = self.x[rows].astype(np.float64), self.w.astype(np.float64)
            scale = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=0)
            if op == "gemm":
                return x @ w, scale
            return np.maximum(x @ w + self.b, 0.0), 1.0 + scale + abs(self.b)
        wide = self.given(op)[rows].astype(np.float64)
        if op == "bias":
            return wide + self.b, abs(wide) + abs(self.b.astype(np.float64))
        if op == "relu":
            return np.maximum(wide, 0.0), 1.0 + abs(wide)
        if op == "exp":
            return np.exp(wide), np.exp(wide)
        log = np.log(wide)
        return log, np.where(log == 0.0, 1.0, abs(log))


class Placed:
    """Some rows of the data on a device, with the weights."""

    def __init__(
        self, name: str, session: Session, data: Data, rows: slice, *, proved: bool = True
    ) -> None:
        self.name, self.session, self.data, self.rows = name, session, data, rows
        self.count = rows.stop - rows.start
        self._w, self._b, self._x = (
            moved(array, session, proved=proved) for array in (data.w, data.b, data.x[rows])
        )
        self._given: dict[int, Any] = {id(data.x): self._x}

    def empty(self) -> Any:
        """Return room for a result on the device."""
        return self.session.empty((self.count, COLUMNS), self.data.dtype)

    def upload(self) -> None:
        """Queue the copy of x to the device once more, as a call that moves its input would."""
        self.session.upload(self.data.x[self.rows], self._x)

    def elementwise(self, out: Any) -> Callable[[], None]:
        """Return what queues all behind the product, an operation each, on what is in `out`."""
        return partial(_each, [self._prepared(op, out, out) for op in OPS[1:]])

    def job(self, op: str, out: Any) -> Callable[[], None]:
        """Return what queues the chain in one kernel, each operation of it, or one of them."""
        if op == "chain":
            given = self._x, self._w, self._b, out
            return self.session.prepare("chain", *given, size=self.count)
        if op == "separate":
            product = partial(self.session.gemm, self._x, self._w, out)
            return partial(_each, [product, self.elementwise(out)])
        return self._alone(op, out)

    def _alone(self, op: str, out: Any) -> Callable[[], None]:
        array = self.data.given(op)
        if id(array) not in self._given:
            self._given[id(array)] = moved(array[self.rows], self.session)
        given = self._given[id(array)]
        if op == "gemm":
            return partial(self.session.gemm, given, self._w, out)
        return self._prepared(op, given, out)

    def _prepared(self, op: str, given: Any, out: Any) -> Callable[[], None]:
        size = self.count * COLUMNS
        if op == "bias":
            operands = given, size, self._b, COLUMNS, out
            return self.session.prepare("add_cyclic", *operands, size=size)
        return self.session.prepare(_KERNELS[op], given, out, size=size)


def _each(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


@dataclass(frozen=True, slots=True)
class Job:
    """What one device does in an iteration, and where its result is."""

    placed: Placed
    op: str
    out: Any
    queue: Callable[[], None]

    @classmethod
    def of(cls, placed: Placed, op: str) -> Job:
        """Return a job with a result of its own: no other may make it right."""
        out = placed.empty()
        return cls(placed, op, out, placed.job(op, out))

    def poison(self) -> None:
        """Fill the result with NaN."""
        destination = self._destination()
        destination.fill(float("nan"))
        self.placed.session.upload(destination, self.out)
        self.placed.session.synchronize()

    def check(self) -> Check:
        """Return whether the result is right."""
        destination = self._destination()
        destination.fill(float("nan"))
        self.placed.session.download(self.out, destination)
        self.placed.session.synchronize()
        op = "chain" if self.op == "separate" else self.op
        return self.placed.data.check(op, destination, self.placed.rows)

    def _destination(self) -> Array:
        return self.placed.data.destination[: self.placed.count]


class DeviceIteration(Iteration):
    """One iteration of a case on its devices, queued from one thread."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    def poison(self) -> None:
        """Make every result wrong."""
        for job in self._jobs:
            job.poison()

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue each device's part, between two marks where its span is wanted."""
        for _ in range(iterations):
            for job in self._jobs:
                placed = job.placed
                if events is not None:
                    events.begin(placed.name, placed.session)
                job.queue()
                if events is not None:
                    events.end(placed.name, placed.session)

    def finish(self) -> None:
        """Wait for every device."""
        for job in self._jobs:
            job.placed.session.synchronize()

    def check(self) -> Check:
        """Return the worst of the devices' checks."""
        return reduce(worse, (job.check() for job in self._jobs))


class HostIteration(Iteration):
    """The same by NumPy, whose products use all cores; its elementwise functions use one."""

    def __init__(self, data: Data, op: str, clock: Clock, cores: Cores) -> None:
        self._data, self._op, self._clock, self._cores = data, op, clock, cores
        self._out = data.empty()

    def poison(self) -> None:
        """Make the result wrong."""
        self._out.fill(float("nan"))

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - no device
        """Compute it `iterations` times."""
        job = partial(self._data.compute, self._op, self._out)
        work = self._data.rows * operations(self._op)
        with self._cores.all():
            for _ in range(iterations):
                self._clock.compute(job, work)

    def check(self) -> Check:
        """Return whether the result is right."""
        return self._data.check(self._op, self._out, slice(0, self._data.rows))


class ColdIteration(Iteration):
    """A first call: a session is opened, w, b and x go there, the kernel is built and run."""

    def __init__(self, name: str, data: Data, again: Callable[[str], Session]) -> None:
        self._name, self._data, self._again = name, data, again
        self._job: Job | None = None

    def poison(self) -> None:
        """Leave NaN in the memory that the next session is likely to be given."""
        self._open()
        self.renew()

    def renew(self) -> None:
        """Close the session of the call before, its result poisoned; this is not timed."""
        if self._job is not None:
            self._job.poison()
            self._close()

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - no span
        """Make so many first calls; the last session stays open, to be looked at.

        Only where one call is too short to be timed alone, closing the others is timed with them.
        """
        for _ in range(iterations):
            self._close()
            self._open().queue()

    def finish(self) -> None:
        """Wait for the call."""
        if self._job is not None:
            self._job.placed.session.synchronize()

    def check(self) -> Check:
        """Return whether the result of the last call is right."""
        assert self._job is not None  # an iteration was queued before
        return self._job.check()

    def _close(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            job.placed.session.close()

    def _open(self) -> Job:
        rows = slice(0, self._data.rows)
        session = self._again(self._name)
        placed = Placed(self._name, session, self._data, rows, proved=False)  # its time counts
        self._job = Job.of(placed, "chain")
        return self._job
