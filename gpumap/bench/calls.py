"""Calls of a workload on the host and on a device, and the limit of the link between them.

Payload of a lane after its encoding, one way. Source: PCI Express Base Specification, 8b/10b up to
generation 2, 128b/130b to 5, and FLITs of 242 in 256 bytes in 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gpumap import model
from gpumap.dtypes import Array, np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import (
    METHOD,
    Expected,
    Matrix,
    allowance,
    hollow_array,
    judged,
    largest,
    moved,
    prove,
)
from gpumap.model import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.backends.base import Clock, Mark, Session
    from gpumap.engine.base import Events
    from gpumap.machine.blas import Cores
    from gpumap.model import Check, Device, Shares

    Jobs = Sequence[Callable[[], None]]

_TRANSFERS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}  # bits a second of a lane
_ENCODED = {1: 8 / 10, 2: 8 / 10, 6: 242 / 256}
_MODERN = 128 / 130


def lane(generation: int) -> float | None:
    """Return the B/s of one lane in one direction; None for a generation that is not known."""
    rate = _TRANSFERS.get(generation)
    return None if rate is None else rate * _ENCODED.get(generation, _MODERN) / 8


def limit(devices: Iterable[Device], directions: int = 1) -> Limit | None:
    """Return what the links of these devices carry together; None where one is not known.

    By the widest and fastest that a link can be: one that idles is slower until it is used. Its
    driver reports that, and may know only a part of the way: NVLink to the host is no PCIe link.
    Where host and device share page tables, copies do not go over the link that NVML reports.
    """
    whole, sources = 0.0, []
    for device in {device.pci or device.id: device for device in devices}.values():
        generation, width = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
        rate = lane(generation) if isinstance(generation, int) else None
        if rate is None or not isinstance(width, int) or device.facts.get("host_page_tables"):
            return None
        whole += rate * width * directions
        sources.append(f"PCIe {generation} x{width}")
    ways = " both ways" if directions > 1 else ""
    source = f"reported: {', '.join(dict.fromkeys(sources))}{ways}"
    return Limit("bandwidth", whole, "B/s", source, "reported")


class Call(Iteration):
    """Calls that are waited for one by one, each writing y to one destination in host memory."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.destination = problem.room()

    def poison(self) -> None:
        """Make the destination wrong."""
        self.destination.fill(float("nan"))

    def check(self) -> Check:
        """Return whether y is right."""
        return self.problem.check(self.destination)


class HostCall(Call):
    """The call on the host, by NumPy with all cores."""

    def __init__(self, problem: Problem, clock: Clock, cores: Cores) -> None:
        super().__init__(problem)
        self._clock = clock
        self._cores = cores
        self._operations = problem.workload.operations(problem.size)
        self._compute = partial(problem.compute, self.destination)

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - no device
        """Call `iterations` times."""
        with self._cores.all():
            for _ in range(iterations):
                self._clock.compute(self._compute, self._operations)


class Placed:
    """A problem's weights on a device, and room for x and y."""

    def __init__(self, problem: Problem, session: Session, *, proved: bool = True) -> None:
        self.problem = problem
        self.session = session
        self._w = moved(problem.w, session, proved=proved)
        spread = problem.spread()
        self._b = None if spread is None else moved(spread, session, proved=proved)
        self._x = session.empty(problem.x.shape, "float32")
        self._y = session.empty(problem.shape, "float32")

    def upload(self) -> None:
        """Queue the copy of x to the device."""
        self.session.upload(self.problem.x, self._x)

    def compute(self) -> None:
        """Queue y = x.w, or y = x.w + b: on top of a copy of the bias."""
        if self._b is not None:
            self.session.copy(self._b, self._y)
        beta = 0.0 if self._b is None else 1.0
        self.session.gemm(self._x, self._w, self._y, beta=beta)

    def download(self, destination: Any) -> None:
        """Queue the copy of y to the host."""
        self.session.download(self._y, destination)

    def prove(self) -> None:
        """Compare every byte of x on the device: y hides one that is wrong in its rounding.

        Raises:
            WrongDataError: one is another than on the host.
        """
        prove(self.problem.x, self._x)

    def poison(self, destination: Any) -> None:
        """Make y wrong on the device."""
        self.session.upload(destination, self._y)
        self.session.synchronize()


class DeviceCall(Call):
    """The call on a device: x is moved there or is there, y is fetched or stays."""

    def __init__(self, placed: Placed, *, upload: bool, download: bool = True) -> None:
        super().__init__(placed.problem)
        self._placed = placed
        self._upload = upload
        self._download = download

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Call `iterations` times."""
        placed = self._placed
        for _ in range(iterations):
            if self._upload:
                placed.upload()
            placed.compute()
            if self._download:
                placed.download(self.destination)
            placed.session.synchronize()

    def poison(self) -> None:
        """Make y wrong, on the device and on the host."""
        super().poison()
        self._placed.poison(self.destination)
        if not self._upload:
            self._placed.upload()  # it is there already: that is what resident means

    def check(self) -> Check:
        """Return whether y is right, fetched now if the call does not.

        Raises:
            WrongDataError: a byte of x, which is moved with the call, did not arrive.
        """
        if self._upload:
            self._placed.prove()
        if not self._download:
            super().poison()
            self._placed.download(self.destination)
            self._placed.session.synchronize()
        return super().check()


def shares(placed: Placed, host: HostCall, calls: int, clock: Clock) -> Shares:
    """Return where the time of so many calls goes, each with x moved there and y back.

    By marks between the parts, on the device's clock or by the moments at which its queue came to
    them; where there are neither, each part is waited for.
    """
    destination = host.destination
    jobs = (placed.upload, placed.compute, lambda: placed.download(destination))
    marks = placed.session.mark(), placed.session.mark()
    placed.session.synchronize()
    timed = _by_marks if _between(placed.session, *marks) is not None else _by_waiting
    parts, start = [0.0, 0.0, 0.0], clock.now()
    for _ in range(calls):
        for number, seconds in enumerate(timed(jobs, placed.session, clock)):
            parts[number] += seconds
    total = clock.now() - start
    host.queue(iterations=calls)
    on_host = clock.now() - start - total
    whole = max(total, sum(parts)) or 1.0
    upload, compute, download = (part / whole for part in parts)
    overhead = max(1.0 - upload - compute - download, 0.0)
    return model.Shares(calls, total, on_host, upload, compute, download, overhead)


def _by_marks(jobs: Jobs, session: Session, clock: Clock) -> list[float]:  # noqa: ARG001 - as below
    """Run the parts of a call behind each other, and return what each took."""
    marks = [session.mark()]
    for job in jobs:
        job()
        marks.append(session.mark())
    session.synchronize()
    return [_between(session, *pair) or 0.0 for pair in pairwise(marks)]


def _by_waiting(jobs: Jobs, session: Session, clock: Clock) -> list[float]:
    """Run the parts of a call, each waited for, and return what each took."""
    found = []
    for job in jobs:
        start = clock.now()
        job()
        session.synchronize()
        found.append(clock.now() - start)
    return found


def _between(session: Session, start: Mark, stop: Mark) -> float | None:
    seconds = session.seconds(start, stop)
    if seconds is not None:
        return seconds
    first, last = session.at(start), session.at(stop)
    return None if first is None or last is None else last - first


# --- workloads, with data and the right answer for each size
#
#     affine     y = x.w + b, the layer of Theano's users: rows x 10 by 10 x 5, and a bias
#     product    y = x.w, square
#
# A size is counted in bytes of x: that is what may have to be moved for each call. The weights w
# and b stay where they are. Square factors are those of `verify`, whose product is known.

_ITEM = 4  # bytes of a float32
_PART = 1 << 13  # rows that are checked at a time


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation of one size, the number of its rows; `dims` are (rows, inner, columns)."""

    key: str
    words: str
    sweep: tuple[int, ...]  # rows
    bias: bool
    dims: Callable[[float], tuple[float, float, float]]
    rows: Callable[[float], float]  # whose x has so many bytes

    def nbytes(self, rows: float) -> float:
        """Return the bytes of x."""
        rows, inner, _ = self.dims(rows)
        return _ITEM * rows * inner

    def result(self, rows: float) -> float:
        """Return the bytes of y."""
        rows, _, columns = self.dims(rows)
        return _ITEM * rows * columns

    def operations(self, rows: float) -> float:
        """Return the floating-point operations of a call."""
        rows, inner, columns = self.dims(rows)
        return 2 * rows * inner * columns + (rows * columns if self.bias else 0)


WORKLOADS = {
    "affine": Workload(
        "affine",
        "y=x.w+b",
        tuple(8**n for n in range(7)),
        bias=True,
        dims=lambda rows: (rows, 10, 5),
        rows=lambda nbytes: nbytes / (10 * _ITEM),
    ),
    "product": Workload(
        "product",
        "y=x.w",
        tuple(2**n for n in range(4, 12)),
        bias=False,
        dims=lambda rows: (rows, rows, rows),
        rows=lambda nbytes: (nbytes / _ITEM) ** 0.5,
    ),
}
LARGEST = int(max(w.nbytes(rows) for w in WORKLOADS.values() for rows in w.sweep))  # bytes of x


class Problem:
    """Random data for a call of a workload, float32, and what the answer must be."""

    def __init__(self, workload: Workload, rows: int, seed: int, *, hollow: bool = False) -> None:
        """Draw it; a hollow one has no data and no answer."""
        self.workload, self.hollow = workload, hollow
        self.size = rows
        rows, inner, columns = map(int, workload.dims(rows))
        self.shape = (rows, columns)  # of y
        if hollow:
            self.x, self.w = hollow_array((rows, inner)), hollow_array((inner, columns))
            self.b = hollow_array((columns,)) if workload.bias else None
            return
        if not workload.bias:
            left = Matrix((seed, rows, 0), rows, "float32")
            factors = ([part for _, part in m.blocks()] for m in (left, left.following))
            self.x, self.w = map(np.concatenate, factors)
            self.b, self._expected = None, Expected(left, left.following)
            return
        rng = np.random.default_rng((seed, rows))
        self.x = rng.standard_normal((rows, inner), dtype=np.float32)
        self.w = rng.standard_normal((inner, columns), dtype=np.float32)
        self.b = rng.standard_normal(columns, dtype=np.float32)
        self._weights = np.vstack([self.w, self.b]).astype(np.float64)

    def room(self) -> Array:
        """Return room for y on the host."""
        return hollow_array(self.shape) if self.hollow else np.empty(self.shape, np.float32)

    def spread(self) -> Array | None:
        """Return the bias once for each row of y; None where there is none."""
        if self.b is None:
            return None
        return self.room() if self.hollow else np.tile(self.b, (self.shape[0], 1))

    def compute(self, out: Array) -> None:
        """Write y, as a program of the host would."""
        if self.hollow:
            return
        np.matmul(self.x, self.w, out=out)
        if self.b is not None:
            out += self.b

    def check(self, out: Array) -> Check:
        """Return whether `out` is y within rounding, measured as in `gpumap.engine.verify`."""
        if self.b is None:
            return self._expected.check(out)
        error = 0.0
        with np.errstate(all="ignore"):  # what is wrong may be no number
            for start in range(0, len(out), _PART):
                rows = slice(start, start + _PART)
                left = np.column_stack([self.x[rows], np.ones(len(self.x[rows]))])
                right = self._weights
                exact, scale = left @ right, np.sqrt(np.square(left) @ np.square(right))
                missed = abs(out[rows].astype(np.float64) - exact)
                error = largest(error, missed / allowance("float32", len(right), exact, scale))
        return judged(METHOD, error)
