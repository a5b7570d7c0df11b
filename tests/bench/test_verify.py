"""What is right passes, and nothing else."""

import math
import tracemalloc
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from gpumap.dtypes import numpy_dtype, storage
from gpumap.engine.verify import ROWS, Expected, Matrix, allowance, host_bytes, judged, worse
from gpumap.model import Check

DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64")
TILE = 64  # rows and columns that are wrong at once, at most


def truncated(array):
    """Read as TF32, towards zero: the worst that a device does."""
    return (array.astype("float32").view("u4") & np.uint32(0xFFFFE000)).view("float32")


def nearest(array):
    scaled, exponent = np.frexp(array.astype(float))
    return np.ldexp(np.round(scaled * 2**11), exponent - 11)


def narrowed(dtype):
    return lambda array: array.astype(numpy_dtype(dtype)).astype(float)


def rounded(exact, dtype):
    with np.errstate(over="ignore"):
        return exact.astype(numpy_dtype(storage(dtype)))


def whole(matrix):
    return np.concatenate([block.astype(np.float64) for _, block in matrix.blocks()])


class Planted:
    """One product that may be wrong, in float64."""

    def __init__(self, size, dtype, seed=(1, 0)):
        self.size, self.dtype = size, dtype
        self.a, self.b = Matrix((*seed, 0), size, dtype), Matrix((*seed, 1), size, dtype)
        self.expected = Expected(self.a)
        self.left, self.right = whole(self.a), whole(self.b)
        self.read = truncated if dtype == "tf32" else lambda array: array
        self.rng = np.random.default_rng((size, len(dtype)))

    @cached_property
    def exact(self):
        return self.times(self.left, self.right)

    def known(self, sums):
        """Return the whole product without multiplying, of these sums of its diagonals."""
        turned = self.expected._rows[:, None] ^ self.expected._columns
        numbers = np.arange(self.size)
        found = sums[(numbers - numbers[:, None]) % self.size]
        return np.where(turned, -found, found)

    def times(self, left, right, read=None):
        read = read or self.read
        return read(left).astype(float) @ read(right).astype(float)

    def without(self, start, stop):
        kept = self.left.copy()
        kept[:, start:stop] = 0.0
        return self.times(kept, self.right)

    def put(self, place, value):
        """Return the product with another value at a place, or with what is made of its own."""
        out = rounded(self.exact, self.dtype)
        out[place] = value(out[place]) if callable(value) else value
        return out

    def place(self):
        return self.rng.integers(self.size), self.rng.integers(self.size)

    def flipped(self, bit):
        out = rounded(self.exact, self.dtype)
        bits = out.view(f"u{out.itemsize}")
        bits[self.place()] ^= bits.dtype.type(1 << (8 * out.itemsize - 1 - bit))
        return out


def wrongs(p):
    """Yield the name and the product of each fault."""
    n, exact, left, right = p.size, p.exact, p.left, p.right
    yield "half of the sums", p.without(n // 2, n)
    yield "a quarter of the sums", p.without(n // 4, n // 2)
    yield "eight steps", p.without(n // 2, n // 2 + 8)
    yield "one step", p.without(n - 1, n)
    yield "columns shifted", np.roll(exact, 1, axis=1)
    yield "rows shifted", np.roll(exact, 1, axis=0)
    yield "one exponent's high bit", p.flipped(1)
    yield "one fraction's high bit", p.flipped(FRACTION[storage(p.dtype)])
    yield "first factor turned", p.times(left.T, right)
    yield "second factor turned", p.times(left, right.T)
    yield "result turned", exact.T
    yield "factors changed places", p.times(right, left)
    yield "of another name's data", Planted(n, p.dtype, (1, 1)).exact
    yield "of another seed", Planted(n, p.dtype, (2, 0)).exact
    yield from _places(p)
    for name, read in NARROWER[p.dtype].items():
        yield f"as {name}", p.times(left, right, read)
    yield from _arithmetics(p)


def _places(p):
    """Yield products of which elements, columns or tiles are wrong."""
    tile = min(TILE, p.size // 4)
    corner, following = (
        tuple(slice(at, at + tile) for at in ats) for ats in ((tile, 2 * tile), (0, tile))
    )
    yield "all zero", p.put(..., 0)
    yield "poison", p.put(..., np.nan)
    yield "one column", p.put((..., p.size // 3), 0)
    yield "an eighth of the columns", p.put((..., slice(0, None, 8)), 0)
    yield "one element zero", p.put(p.place(), 0)
    yield "one element off", p.put(p.place(), lambda old: old + old.dtype.type(3 * p.size**0.5))
    yield "one element negative", p.put(p.place(), np.negative)
    yield "one element NaN", p.put(p.place(), np.nan)
    yield "one element infinite", p.put(p.place(), np.inf)
    yield "tile zero", p.put(corner, 0)
    yield "tile poisoned", p.put(corner, np.nan)
    yield "tile summed twice", p.put(corner, lambda old: 2 * old)
    yield "tile of the diagonal's next", p.put(corner, rounded(p.exact, p.dtype)[following])


def _arithmetics(p):
    if p.dtype == "float64":
        yield "a float32 product", p.exact.astype("float32")
    if storage(p.dtype) in ("float16", "bfloat16"):
        half = p.size // 2
        parts = p.without(0, half), p.without(half, p.size)
        yield "partial sums of 16 bits", sum(rounded(part, p.dtype) for part in parts)
    if p.dtype == "float16":
        yield "written as bfloat16", narrowed("bfloat16")(p.exact)


# its first bit, from the sign
FRACTION = {"float16": 6, "bfloat16": 9, "float32": 9, "float64": 12}
NARROWER = {
    "float16": {"bfloat16": narrowed("bfloat16")},
    "bfloat16": {},
    "float32": {"tf32": truncated, "tf32, to the nearest": nearest,
                "float16": narrowed("float16"), "bfloat16": narrowed("bfloat16")},
    "tf32": {"bfloat16": narrowed("bfloat16")},
    "float64": {"float32": narrowed("float32"), "tf32": truncated},
}  # fmt: skip


EVERY = pytest.mark.parametrize("dtype", DTYPES)


def made(size, dtype="float32"):
    a = Matrix((1, 0), size, dtype)
    return a, a.following, Expected(a)


@EVERY
@pytest.mark.parametrize("size", [1, 2, 3, 17, ROWS - 1, ROWS, ROWS + 1, 257, 500])
def test_a_right_product_passes(size, dtype):
    p = Planted(size, dtype)
    check = p.expected.check(rounded(p.exact, dtype))
    assert (check.method, check.passed, check.bound) == ("float64 reference", True, 1.0)
    assert check.max_error <= 0.55
    assert (check.nbytes, check.first_bad_offset) == (None, None)


def by_size(terms):
    """Sum the largest first, so that all others are added to a large number."""
    order = np.argsort(-abs(terms), axis=1)
    return np.cumsum(np.take_along_axis(terms, order, axis=1), axis=1, dtype=terms.dtype)[:, -1]


def by_value(terms):
    """Sum all negative ones before the first positive one: no order has larger partial sums."""
    return np.cumsum(np.sort(terms, axis=1), axis=1, dtype=terms.dtype)[:, -1]


def of_a_tensor_core(terms):
    """Sum four at a time as tensor cores do, which cut off what they align and what they sum.

    They are aligned to the largest, with two bits more than float32 has (Fasi, Higham, Mikaitis &
    Pranesh, PeerJ Computer Science 2021).
    """
    sums = np.zeros(len(terms))
    for k in range(0, len(terms), 4):
        four = terms[:, k : k + 4].astype(float)
        unit = np.exp2(np.floor(np.log2(np.maximum(abs(four).max(axis=1), abs(sums)))) - 25)
        sums = unit * (np.trunc(four / unit[:, None]).sum(axis=1) + np.trunc(sums / unit))
        unit = np.exp2(np.floor(np.log2(abs(sums))) - 23)
        sums = unit * np.trunc(sums / unit)
    return sums


@pytest.mark.parametrize(("dtype", "order"), [
    *((dtype, order) for dtype in DTYPES for order in (by_size, by_value)),
    *((dtype, of_a_tensor_core) for dtype in ("float16", "bfloat16", "tf32")),
])  # fmt: skip
def test_a_right_product_passes_in_any_order_of_its_sums(dtype, order):
    """Elements of one diagonal have the same terms; each is rounded as well."""
    p, wide = Planted(1024, dtype), "float64" if dtype == "float64" else "float32"
    (left, _), (right, _) = p.a.drawn(), p.b.drawn()
    places = (np.arange(p.size)[:, None] - np.arange(p.size)) % p.size
    terms = p.read(left).astype(wide) * p.read(right).astype(wide)[places]
    assert p.expected.check(rounded(p.known(order(terms).astype(float)), dtype)).passed


@EVERY
@pytest.mark.parametrize("size", [64, 257])
def test_every_wrong_product_fails(size, dtype):
    """Sums, tiles, columns, elements, arithmetic, places and data, whatever is wrong of them."""
    p = Planted(size, dtype)
    errors = {name: p.expected.check(rounded(out, dtype)) for name, out in wrongs(p)}
    assert len(errors) >= 27
    assert [name for name, check in errors.items() if check.passed or check.max_error <= 1.0] == []
    assert not any(math.isnan(check.max_error) for check in errors.values())


def test_the_product_is_what_the_factors_give():
    """Element by element, in exact numbers."""
    a, b, expected = made(9, "float64")
    left, right = whole(a), whole(b)
    exact = [[sum(Fraction(left[i, k]) * Fraction(right[k, j]) for k in range(9))
              for j in range(9)] for i in range(9)]  # fmt: skip
    assert expected.check(np.array(exact, float)).max_error < 0.05


@EVERY
@pytest.mark.parametrize("size", [1, 40, 300])
@pytest.mark.parametrize("place", [(0, 0), (0, -1), (-1, 0), (-1, -1)])
def test_what_is_allowed_passes_and_no_more(size, dtype, place):
    """Of any element, on its own scale: that of its terms' sum, and its own."""
    p = Planted(size, dtype)
    squares = np.square(p.left) @ np.square(p.right)
    out = rounded(p.exact, "float64")
    exact = (p.left @ p.right)[place]
    room = allowance(dtype, size, exact, squares[place] ** 0.5)
    for share, passes in ((-0.9, True), (0.9, True), (-1.1, False), (1.1, False)):
        out[place] = exact + share * room
        assert p.expected.check(out).passed is passes
    for error, passes in ((1.0, True), (math.nextafter(1.0, 2.0), False)):
        assert judged("m", error) == Check("m", passes, error, 1.0)


@pytest.mark.parametrize(("dtype", "sums", "read", "write", "least"), [
    ("float64", 16 * 2**-52, 0.0, 2**-52, 2**-1022),
    ("float32", 16 * 2**-23, 0.0, 2**-23, 2**-126), ("float16", 64 * 2**-23, 0.0, 2**-10, 2**-14),
    ("bfloat16", 64 * 2**-23, 0.0, 2**-7, 2**-126),
    ("tf32", 16 * 2**-23, 2**-10, 2**-23, 2**-126),
])  # fmt: skip
def test_each_arithmetic_has_its_own_allowance(dtype, sums, read, write, least):
    """A sum's grows with the root of its terms; what is read and written is rounded once."""
    of_terms = allowance(dtype, 100, 0.0, 5.0)
    of_element = allowance(dtype, 100, -3.0, 0.0)
    assert of_terms == pytest.approx(sums * 10.0 * 5.0 + read * 15.0 + least, rel=1e-12)
    assert of_element == pytest.approx((read + write) * 3.0 + least, rel=1e-12)


@EVERY
def test_a_matrix_can_be_made_again(dtype):
    """The same seed gives the same elements, and another one not one; nothing is kept for it."""
    matrix = Matrix((1, 2, 0), 2 * ROWS + 30, dtype)
    blocks = list(matrix.blocks())
    assert [rows for rows, _ in blocks] == [
        slice(0, ROWS), slice(ROWS, 2 * ROWS), slice(2 * ROWS, 2 * ROWS + 30),
    ]  # fmt: skip
    assert {block.dtype for _, block in blocks} == {numpy_dtype(storage(dtype))}
    assert np.array_equal(whole(matrix), whole(Matrix((1, 2, 0), 2 * ROWS + 30, dtype)))


def test_another_seed_is_another_matrix():
    matrix = whole(Matrix((1, 2, 0), 300, "float32"))
    for seed in ((1, 2, 1), (2, 2, 0), (1, 3, 0)):
        assert (matrix != whole(Matrix(seed, 300, "float32"))).all()
    assert matrix.all()
    # standard normal numbers; along a diagonal they have the same size and other signs
    matrix = whole(Matrix((1, 0), 512, "float64"))
    along = (matrix[:-1, :-1] / matrix[1:, 1:]).ravel()
    assert abs(matrix.mean()) < 0.01
    assert matrix.std() == pytest.approx(1.0, abs=0.1)
    assert set(along) == {-1.0, 1.0}
    assert abs(along.mean()) < 0.01
    assert (matrix[:256] != matrix[256:]).all()


GOOD, BETTER = (Check("m", passed=True, max_error=error, bound=1.0) for error in (0.5, 0.1))
BAD, WORST = (Check("m", passed=False, max_error=error, bound=1.0) for error in (5.0, math.inf))


@pytest.mark.parametrize(("first", "second", "shown"), [
    (GOOD, BETTER, GOOD), (BETTER, GOOD, GOOD), (GOOD, BAD, BAD), (BAD, BETTER, BAD),
    (BAD, WORST, WORST), (WORST, BAD, WORST),
])  # fmt: skip
def test_of_two_checks_the_worse_is_shown(first, second, shown):
    assert shown == worse(first, second)


@pytest.mark.parametrize(
    ("size", "dtype"), [(512, "float32"), (1500, "float64"), (3000, "float16")]
)
def test_the_host_memory_is_planned(size, dtype):
    a, _, _ = made(size, dtype)
    out = np.zeros((size, size), numpy_dtype(dtype))
    tracemalloc.start()
    try:
        Expected(a).check(out)
        for _ in a.blocks():
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 1.1 * host_bytes(size)
