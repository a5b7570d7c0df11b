"""Verification of products: every element is compared with float64, on its own scale, at any size.

The factors are random, and their product is known without multiplying them. A factor is a circulant
matrix of n normal numbers v, with random signs of rows and columns: r_i c_j v[(j - i) mod n]. The
second factor's row signs are the first one's column signs, and cancel inside every sum:

    (A B)_ij = r_i c_j g[(j - i) mod n],  g[d] = sum over k of a[k] b[d - k]

So n sums of n terms, in float64, give all elements. The signs tell apart what a circulant repeats
along its diagonals: blocks that have changed places, A B and B A, a factor or a result transposed.

An element is right if it is off by at most

    sums add sqrt(n) s  +  read (3 s + |g|)  +  write |g|  +  least,    s^2 = sum of (a[k] b[d-k])^2

with the spacings of `gpumap.dtypes.ROUNDING`; s is the standard deviation of the sum if only the
signs of its terms are random. A check's error is the largest error as a share of this allowance, so
its bound is always 1, and a report cannot state another one.

A right product passes:

- write: a result is rounded or truncated once, by less than one spacing.
- read: so are both factors of a term. Half of a spacing, up or down, moves g by read |g| at most;
  what is left is at most read |term|, with the term's random sign. Up to 9 terms it is at most 3 s
  (Cauchy-Schwarz); beyond, Hoeffding's inequality applies, and the standard deviation is 0.3 s.
- sums: n roundings are off by at most n/2 add sum |terms| <= n/2 add sqrt(n) s (Higham, Accuracy
  and Stability of Numerical Algorithms, 3.5): up to 32 terms no order of summation can fail. Of
  more terms, take any order that does not depend on the values. Signs of terms are random, so a
  partial sum exceeds m s with a probability of at most 4 exp(-m^2 / 2) (Levy, Hoeffding). Then n
  roundings of mean 0 (Higham & Mary, SIAM J. Sci. Comput. 2020), each up to add/2 m s, exceed
  16 add sqrt(n) s with a probability of at most 2 exp(-(32 / m)^2 / 2) (Azuma). Over all m that is
  below 1e-12 for each of the n values of a product, even if every rounding were the largest.

A wrong product fails if one element is off by twice the allowance. Of a float32 sum at n = 1024
that is 0.0001 of its standard deviation; of a 16-bit result, two spacings of the element. Factors
of TF32 or float16 in place of float32 move each of the n values by 3e-4 s (standard deviation):
from n = 64 to 65,536 some of them are certain to fail. docs/method.md lists what was planted.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap import model
from gpumap.dtypes import ROUNDING, Arithmetic, np, numpy_dtype, storage
from gpumap.engine.base import Iteration
from gpumap.errors import WrongDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.backends.base import Session
    from gpumap.engine.base import Events
    from gpumap.model import Binding, Check

METHOD = "float64 reference"
ROWS = 256  # rows in host memory at a time
_COMPARED = 64  # rows that are compared at a time: a core's own caches hold them
_WIDE = 8  # bytes of a float64


class Matrix(NamedTuple):
    """A square random matrix that can be made again at any time, in blocks of rows.

    Its column signs are the row signs of the matrix with the next seed: the product of both is
    known.
    """

    seed: tuple[int, ...]
    size: int
    arithmetic: Arithmetic

    @property
    def following(self) -> Matrix:
        """The matrix that this one can be multiplied by."""
        return self._replace(seed=(*self.seed[:-1], self.seed[-1] + 1))

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield each block of rows and its place; standard normal, never zeros."""
        values, flipped = self.drawn()
        _, columns = self.following.drawn()
        for rows in parts(self.size, ROWS):
            yield rows, _signed(_circulant(values, rows), flipped[rows], columns)

    def uploaded(self, session: Session, hollow: Any = None) -> Any:
        """Return a copy on a device, with every byte proved; `hollow` takes its place, if any."""
        if hollow is not None:
            return moved(hollow, session)
        buffer = session.empty((self.size, self.size), storage(self.arithmetic))
        for rows, block in self.blocks():
            put(block, buffer[rows])  # waits: the block ends with this turn of the loop
            prove(block, buffer[rows])
        return buffer

    def drawn(self) -> tuple[Any, Any]:
        """Return the numbers of its first row, and which rows have the opposite sign."""
        rng = np.random.default_rng(self.seed)
        flipped = rng.integers(0, 2, self.size, dtype=bool)
        wide = np.float64 if self.arithmetic == "float64" else np.float32
        values = rng.standard_normal(self.size, dtype=wide)
        return values.astype(numpy_dtype(storage(self.arithmetic)), copy=False), flipped


class Expected:
    """What the product of a matrix and the following one must be; made once, asked often."""

    def __init__(self, a: Matrix) -> None:
        b = a.following
        (left, self._rows), (right, _) = a.drawn(), b.drawn()
        left, right = left.astype(np.float64), right.astype(np.float64)
        _, self._columns = b.following.drawn()
        self._product = _convolved(left, right)
        scale = np.sqrt(_convolved(np.square(left), np.square(right)))
        self._per_error = 1.0 / allowance(a.arithmetic, a.size, self._product, scale)

    def check(self, out: Any) -> Check:
        """Return whether `out`, a buffer or a host array, is the product within rounding."""
        error = 0.0
        with np.errstate(all="ignore"):  # what is wrong may be no number
            for first, block in _fetched(out):
                for part in parts(len(block), _COMPARED):
                    rows = slice(first + part.start, first + part.stop)
                    found = _signed(block[part], self._rows[rows], self._columns)
                    found = found.astype(np.float64)
                    found -= _circulant(self._product, rows)
                    np.abs(found, out=found)
                    found *= _circulant(self._per_error, rows)
                    error = largest(error, found)
        return judged(METHOD, error)


def allowance(arithmetic: Arithmetic, terms: int, exact: Any, scale: Any) -> Any:
    """Return by how much elements may miss what they are: `scale` is s of this file's proof."""
    rounding = ROUNDING[arithmetic]
    value = abs(exact)
    summed = rounding.sums * rounding.add * math.sqrt(terms) * scale
    read = rounding.read * (3.0 * scale + value)
    return summed + read + rounding.write * value + rounding.least


def judged(method: str, error: float) -> Check:
    """Return the check of an error that is counted in what rounding allows."""
    return model.Check(method, error <= 1.0, error, 1.0)


def compared(nbytes: int, wrong: int | None, method: str = "bytes") -> Check:
    """Return the check of bytes, by the offset of the first wrong one."""
    return model.Check(method, wrong is None, nbytes=nbytes, first_bad_offset=wrong)


def largest(error: float, others: Any) -> float:
    """Return the largest of the errors; a NaN is larger than anything."""
    worst = float(others.max())
    return math.inf if math.isnan(worst) else max(error, worst)


def worse(first: Check, second: Check) -> Check:
    """Return the check that a row must show: the one that failed, or the larger error."""
    if first.passed != second.passed:
        return second if first.passed else first
    return max(first, second, key=lambda check: check.max_error or 0.0)


def host_bytes(size: int) -> int:
    """Return the host memory that `Expected` takes, and a check or making a matrix beside that."""
    return _WIDE * size * (3 * min(ROWS, size) + 16)


def parts(rows: int, step: int) -> Iterator[slice]:
    """Yield places in parts, so that looking at them takes no memory to speak of."""
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _circulant(values: Any, rows: slice) -> Any:
    """Return rows of the circulant matrix whose first row is given: views, nothing is copied."""
    n = len(values)
    every = np.lib.stride_tricks.sliding_window_view(np.concatenate([values, values]), n)
    return every[n - rows.stop + 1 : n - rows.start + 1][::-1]


def _signed(block: Any, rows: Any, columns: Any) -> Any:
    """Return a copy of a block with the opposite sign where one of row and column has it."""
    bits = block.view(f"u{block.itemsize}")
    last = 8 * block.itemsize - 1
    found = bits ^ (rows.astype(bits.dtype) << last)[:, None]
    found ^= columns.astype(bits.dtype) << last
    return found.view(block.dtype)


def _convolved(a: Any, b: Any) -> Any:
    """Return the circular convolution, by sums of products and not by transforms.

    The error of a transform is that of its largest value, and small values have a scale of their
    own.
    """
    n = len(a)
    whole = np.convolve(a, b)
    whole[: n - 1] += whole[n:]
    return whole[:n]


def _fetched(out: Any) -> Iterator[tuple[int, Any]]:
    """Yield a device's or the host's matrix in blocks of rows, and the first row of each."""
    for rows in parts(out.shape[0], ROWS):
        block = out[rows]
        if not isinstance(out, np.ndarray):
            landed = np.full(block.shape, np.nan, block.dtype)
            fetch(block, landed)
            block = landed
        yield rows.start, block


# --- operands on devices: copies that are proved, and scripted devices, which hold no large data
#
# A scripted session `holds` no array above HOLDS. Whoever prepares a case for it gives it hollow
# arrays in the place of data, so that nothing is drawn, moved or multiplied; and the iteration asks
# the session which command was due to go wrong, instead of comparing results.

HOLDS = 1 << 14  # bytes of an array: products of no more are quick, and take one thread
_PART = 1 << 24  # bytes that are compared at a time
SCRIPTED = "scripted"  # how a result was found right or wrong


def lighten(session: Session, holds: int = HOLDS) -> None:
    """Let a scripted session hold no data above so many bytes: whoever measures looks at none."""
    if session.device.backend == "fake":
        scripted: Any = session
        scripted.holds = holds


def is_hollow(session: Session, nbytes: int) -> bool:
    """Return whether an array of so many bytes has no data on a session."""
    return nbytes > getattr(session, "holds", nbytes)


def hollow_array(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """Return a host array that holds no data."""
    from gpumap.backends.host_memory import hollow_array as made

    return made(shape, dtype)


def one_of_each(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the first name of each device: another name of it would tell the same."""
    found: dict[str, Binding] = {}
    for binding in bindings:
        found.setdefault(binding.device.id, binding)
    return list(found.values())


def put(array: Any, buffer: Any) -> None:
    """Copy a host array to a device, and wait for it."""
    buffer.session.upload(array, buffer)
    buffer.session.synchronize()


def fetch(buffer: Any, array: Any) -> None:
    """Copy what a device has to a host array, and wait for it."""
    buffer.session.download(buffer, array)
    buffer.session.synchronize()


def moved(array: Any, session: Session) -> Any:
    """Return a copy of a host array on a device, when it is there.

    Raises:
        WrongDataError: a byte of it did not arrive.
    """
    buffer = session.empty(array.shape, array.dtype.name)
    put(array, buffer)
    prove(array, buffer)
    return buffer


def prove(right: Any, buffer: Any) -> None:
    """Fetch an operand in parts, and compare every byte: a result hides one in its rounding.

    Raises:
        WrongDataError: one is another than on the host.
    """
    session = buffer.session
    if is_hollow(session, sys.maxsize) or not right.size:  # a script's faults: `Played`
        return
    step = max(_PART // (right.nbytes // right.shape[0]), 1)
    for start in range(0, right.shape[0], step):
        wanted = np.ascontiguousarray(right[start : start + step])
        landed = np.invert(wanted.reshape(-1).view(np.uint8)).view(wanted.dtype)
        landed = landed.reshape(wanted.shape)
        fetch(buffer[start : start + step], landed)
        if landed.tobytes() != wanted.tobytes():
            where = f"{session.device.ref} ({session.device.backend})"
            raise WrongDataError(f"{where}: an operand of {right.nbytes} bytes arrived wrong")


def played(work: Iteration, session: Session, nbytes: int, checked: int | None = None) -> Iteration:
    """Return an iteration; on scripted devices one that does nothing twice, or for nothing.

    Args:
        work: the iteration.
        session: one of its devices.
        nbytes: of its largest array.
        checked: bytes that are right or wrong, where those are others.
    """
    if not is_hollow(session, sys.maxsize):
        return work
    checked_bytes = nbytes if checked is None else checked
    return Played(work, session, checked_bytes, hollow=is_hollow(session, nbytes))


class Played(Iteration):
    """An iteration on scripted devices: what makes no difference is not done again."""

    def __init__(self, work: Iteration, session: Any, nbytes: int, *, hollow: bool) -> None:
        self._work, self._clock, self._nbytes = work, session.clock, nbytes
        self._hollow = hollow
        self._wrong: int | None = None

    @property
    def route(self) -> str | None:  # type: ignore[override]
        """How its copies went."""
        return self._work.route

    def poison(self) -> None:
        """Make every destination wrong, where there is one."""
        if not self._hollow:
            self._work.poison()

    def renew(self) -> None:
        """Let go of what the iteration before has made."""
        self._work.renew()

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue the work `iterations` times, and ask what of it went wrong."""
        self._clock.spoilt = None
        if iterations == 1 or self._work.phased:  # which counts what each of them took
            self._work.queue(events, iterations)
        else:
            self._clock.repeat(self._work.queue, iterations)
        self._wrong = self._clock.spoilt

    def finish(self) -> None:
        """Wait for what is queued."""
        self._work.finish()

    def phases(self) -> Mapping[str, float]:
        """Return the seconds of each phase."""
        return self._work.phases()

    def check(self) -> Check:
        """Return whether everything went as it should."""
        if not self._hollow:
            return self._work.check()
        return compared(self._nbytes, self._wrong, SCRIPTED)
