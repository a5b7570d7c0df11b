"""What is right passes, and nothing else: on both sides of the size where the method changes."""

import math

import numpy as np
import pytest

from gpumap.bench.verify import DEAR, Expected, Matrix, host_bytes, worse
from gpumap.dtypes import numpy_dtype, storage
from gpumap.model import Check

BOTH = (8, 300, DEAR + 1)
EPS = 2.0**-23


def pair(size, dtype="float32"):
    """Return two matrices and their product as a device would compute it."""
    a, b = Matrix((1, 0, 0), size, dtype), Matrix((1, 0, 1), size, dtype)
    return a, b, multiplied(a.whole(), b.whole(), dtype)


def multiplied(left, right, dtype):
    """Multiply as a device does: 16 bits are summed in 32, and TF32 drops bits when it reads."""
    wide = "float64" if dtype == "float64" else "float32"
    left, right = left.astype(wide), right.astype(wide)
    if dtype == "tf32":
        left, right = truncated(left), truncated(right)
    return (left @ right).astype(numpy_dtype(storage(dtype)))


def truncated(array):
    """Keep ten bits of the fraction, towards zero: the worst that a device does."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("size", [1, 2, 3, 17, 255, 256, 257, 1000, DEAR, DEAR + 1, 1100])
def test_a_right_product_passes(size):
    """At every size, by the method of that size, well within the bound."""
    a, b, product = pair(size)

    check = Expected(a, b).check(product)

    method = "float64 reference" if size <= DEAR else "Freivalds, 3 vectors"
    assert (method, True, None) == (check.method, check.passed, check.first_bad_offset)
    assert check.max_error <= check.bound


@pytest.mark.parametrize("size", [64, 200, DEAR, DEAR + 76])
@pytest.mark.parametrize(
    ("dtype", "once", "add"),
    [
        ("float64", 2**-52, 2**-52),
        ("float32", 2**-23, 2**-23),
        ("float16", 2**-10, 2**-23),
        ("bfloat16", 2**-7, 2**-23),
        ("tf32", 2**-9 + 2**-23, 2**-23),
    ],
)
def test_each_arithmetic_has_its_own_bound(size, dtype, once, add):
    """Only the sum's rounding grows with the size; a narrow type's own rounding comes once."""
    a, b, product = pair(size, dtype)

    check = Expected(a, b).check(product)

    bound = size * add + once if size <= DEAR else 6 * (size**0.5 * add + once)
    assert check.passed
    assert check.bound == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("narrower", ["tf32", "float16", "bfloat16"])
def test_a_product_of_fewer_bits_fails(narrower):
    """A device that computes float32 with less has not computed float32, however fast."""
    a, b = Matrix((1, 0), 256, "float32"), Matrix((1, 1), 256, "float32")
    left, right = (m.whole().astype(numpy_dtype(storage(narrower))) for m in (a, b))
    product = multiplied(left.astype(float), right.astype(float), narrower)

    assert not Expected(a, b).check(product.astype("float32")).passed


def test_a_float32_product_is_no_float64_product():
    """Its rounding is above the bound."""
    a, b = Matrix((1, 0), 64, "float64"), Matrix((1, 1), 64, "float64")
    narrow = (a.whole().astype("float32") @ b.whole().astype("float32")).astype("float64")

    assert not Expected(a, b).check(narrow).passed


def element(_a, _b, product):
    """One element is off."""
    product[3, 4] += 2.0


def last(_a, _b, product):
    """The last element is off."""
    product[-1, -1] += 2.0


def nan(_a, _b, product):
    """One element is no number."""
    product[5, 6] = np.nan


def infinite(_a, _b, product):
    """One element is infinite."""
    product[5, 6] = np.inf


def transposed(_a, _b, product):
    """Rows are columns."""
    product[:] = product.T.copy()


def missing(a, b, product):
    """One term of the inner sum is left out."""
    product -= np.outer(a.whole()[:, 2], b.whole()[2]).astype(product.dtype)


def swapped(_a, _b, product):
    """Two rows have changed places."""
    product[[0, 1]] = product[[1, 0]]


def shifted(_a, _b, product):
    """Every row begins one element late."""
    product[:] = np.roll(product, 1, axis=1)


def zero(_a, _b, product):
    """Nothing but zeros."""
    product[:] = 0


def unwritten(_a, _b, product):
    """The last row was never written."""
    product[-1:] = np.nan


WRONGS = (element, last, nan, infinite, transposed, missing, swapped, shifted, zero, unwritten)


@pytest.mark.parametrize("wrong", WRONGS)
@pytest.mark.parametrize("size", BOTH)
def test_a_wrong_product_fails(size, wrong):
    """One element is enough; a NaN is larger than any bound."""
    a, b, product = pair(size)
    wrong(a, b, product)

    check = Expected(a, b).check(product)

    assert not check.passed
    assert check.max_error > check.bound
    assert not math.isnan(check.max_error)


@pytest.mark.parametrize(
    ("size", "bound"),
    [(8, 9 * EPS), (DEAR, (DEAR + 1) * EPS), (DEAR + 1, 6 * ((DEAR + 1) ** 0.5 + 1) * EPS)],
)
def test_the_bound_grows_with_the_size(size, bound):
    """(N + 1) eps; 6 (sqrt(n) + 1) eps where a sum of independent roundings is seen."""
    a, b = Matrix((1, 0), size, "float32"), Matrix((1, 1), size, "float32")

    assert pytest.approx(bound, rel=1e-12) == Expected(a, b).bound


def test_a_matrix_can_be_made_again():
    """The same seed gives the same elements; nothing is kept for it."""
    matrix = Matrix((1, 2, 0), 300, "float32")

    blocks = list(matrix.blocks())

    assert [slice(0, 256), slice(256, 300)] == [rows for rows, _ in blocks]
    assert np.array_equal(matrix.whole(), np.concatenate([block for _, block in blocks]))
    assert np.array_equal(matrix.whole(), Matrix((1, 2, 0), 300, "float32").whole())


@pytest.mark.parametrize("seed", [(1, 2, 1), (2, 2, 0), (1, 3, 0)])
def test_another_seed_is_another_matrix(seed):
    """Not one element is the same, and none is zero."""
    matrix = Matrix((1, 2, 0), 300, "float32").whole()

    assert (matrix != Matrix(seed, 300, "float32").whole()).all()
    assert matrix.all()


def test_rows_of_different_blocks_differ():
    """Each block has numbers of its own."""
    matrix = Matrix((1,), 512, "float32").whole()

    assert (matrix[:256] != matrix[256:]).all()


GOOD = Check("m", passed=True, max_error=1.0, bound=4.0)
BETTER = Check("m", passed=True, max_error=0.5, bound=4.0)
BAD = Check("m", passed=False, max_error=5.0, bound=4.0)
WORST = Check("m", passed=False, max_error=math.inf, bound=4.0)


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [(GOOD, BETTER, GOOD), (BETTER, GOOD, GOOD), (GOOD, BAD, BAD), (BAD, BETTER, BAD),
     (BAD, WORST, WORST), (WORST, BAD, WORST)],
)  # fmt: skip
def test_of_two_checks_the_worse_is_shown(first, second, shown):
    """The one that failed, else the larger error."""
    assert shown == worse(first, second)


@pytest.mark.parametrize("size", [512, DEAR, DEAR + 512])
def test_the_host_memory_is_planned(size):
    """What making and keeping the reference takes, and no more than planned."""
    import tracemalloc

    a, b = Matrix((1, 0), size, "float32"), Matrix((1, 1), size, "float32")
    tracemalloc.start()
    try:
        Expected(a, b)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= 1.1 * host_bytes(size)
