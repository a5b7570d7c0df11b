"""What every backend's products and kernels compute, as test_conformance.py has its copies."""

import gc

import numpy as np
import pytest
from backends.products import assert_product, random, turned
from buffers import got, sent
from contract import DTYPES, TURNS, featured, poisoned
from tables import table

from gpumap.backends.base import Clock
from gpumap.dtypes import ROUNDING, numpy_dtype, storage
from gpumap.errors import Unsupported
from gpumap.kernels import KERNELS

FLOATS = pytest.mark.parametrize("dtype", DTYPES[:3])
TABLE = table(__file__)
REALS = pytest.mark.parametrize("dtype", DTYPES[:2])  # of kernels


@FLOATS
@pytest.mark.parametrize("transpose", TURNS)
@pytest.mark.parametrize(("sizes", "alpha", "beta"), TABLE["products"], ids=str)
def test_products_of_every_shape(session, rng, sizes, alpha, beta, transpose, dtype):
    featured(session, dtype)
    assert_product(session, rng, sizes, dtype, transpose, alpha, beta)


@pytest.mark.parametrize("transpose", TURNS)
@pytest.mark.parametrize("arithmetic", ["float16", "bfloat16", "tf32"])
def test_narrow_products_sum_in_32_bits(session, rng, arithmetic, transpose):
    """What is read and written may be narrow; a long sum loses no more than float32 does."""
    featured(session, arithmetic)
    held, rounding = numpy_dtype(storage(arithmetic)), ROUNDING[arithmetic]
    a, b = random(rng, (40, 2000), held), random(rng, (2000, 24), held)
    out = session.empty((40, 24), storage(arithmetic))
    factors = (sent(session, turned(*each)) for each in zip((a, b), transpose, strict=True))
    session.gemm(*factors, out, transpose=transpose, tf32=arithmetic == "tf32")
    exact = a.astype(float) @ b.astype(float)
    terms = np.abs(a).astype(float) @ np.abs(b).astype(float)
    room = (2000 * rounding.add + 2 * rounding.read) * terms + rounding.write * abs(exact)
    assert (np.abs(got(out).astype(float) - exact) <= room).all()


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("inner", [0, 20])
def test_a_product_is_queued_as_often_as_asked(session, rng, beta, repeat, inner):
    """Each reads what the one before it left, where it reads it at all."""
    a, b = random(rng, (9, inner), "float32"), random(rng, (inner, 7), "float32")
    start = random(rng, (9, 7), "float32")
    out = sent(session, start)
    session.gemm(sent(session, a), sent(session, b), out, beta=beta, repeat=repeat)
    expected = start.astype(float)
    for _ in range(repeat):
        expected = a.astype(float) @ b.astype(float) + beta * expected
    assert np.allclose(got(out), expected, rtol=1e-5, atol=1e-5)


def test_products_of_slices(session, rng):
    """Operands and result may begin anywhere; the rows around the result stay."""
    a, b = random(rng, (11, 5), "float32"), random(rng, (9, 13), "float32")
    out = sent(session, poisoned((12, 13), "float32"))
    session.gemm(sent(session, a)[1:8], sent(session, b)[3:8], out[4:11])
    whole = got(out)
    around = np.delete(whole, range(4, 11), axis=0)
    assert np.allclose(whole[4:11], a[1:8] @ b[3:8], rtol=1e-5, atol=1e-6)
    assert around.tobytes() == poisoned((5, 13), "float32").tobytes()
    # no row is nothing to do
    none = session.empty((0, 13), "float32")
    session.gemm(session.empty((0, 5), "float32"), sent(session, b)[:5], none)
    assert got(none).shape == (0, 13)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((2, 3), (3, 4), (4, 2)), ((2, 3), (3, 4), (2, 5))]
)
def test_products_that_do_not_fit_are_refused(session, shapes):
    """And those of TF32 where there are none."""
    with pytest.raises(ValueError, match="shapes do not fit"):
        session.gemm(*(session.empty(shape, "float32") for shape in shapes))
    if "tf32" not in session.features:
        out = session.empty((4, 4), "float32")
        with pytest.raises(Unsupported, match="TF32"):
            session.gemm(out, out, out, tf32=True)


def test_a_chain_of_products_is_worked_off_in_order(session, rng):
    """Each reads what the one before it wrote, without a wait between; dropped buffers live on."""
    matrix = random(rng, (64, 64), "float32") / 8
    current, expected = sent(session, matrix), matrix.astype(float)
    fixed = sent(session, matrix)
    for _ in range(20):
        following = session.empty((64, 64), "float32")
        session.gemm(current, fixed, following)
        current, expected = following, expected @ matrix
        gc.collect(0)  # the youngest: what the loop has dropped
        sent(session, poisoned((64, 64), "float32"))  # takes memory that was freed too early
    assert np.allclose(got(current), expected, rtol=1e-3, atol=1e-6 * np.abs(expected).max() + 1e-9)


EVEN = [n for n, kernel in KERNELS.items() if not {"short", "matrix"} & {*kernel.arguments}]
BUFFERS, SIZE = 40, 33


@REALS
@pytest.mark.parametrize("kernel", EVEN)
def test_kernels_compute_what_their_reference_does(session, rng, kernel, dtype):
    """On slices at odd offsets, over `size` elements; what follows them stays."""
    featured(session, dtype, "kernels")
    kinds = KERNELS[kernel].arguments
    made = {
        "buffer": lambda: random(rng, (BUFFERS,), dtype),
        "scalar": lambda: np.dtype(dtype).type(0.375),
    }
    arrays = [made[kind]() for kind in kinds]
    buffers = [sent(session, a.copy()) if a.ndim else float(a) for a in arrays]
    session.run(kernel, *(b if isinstance(b, float) else b[3:] for b in buffers), size=SIZE)
    KERNELS[kernel].reference(*(a[3 : 3 + SIZE] if a.ndim else a for a in arrays))
    eps = np.finfo(dtype).eps
    for array, buffer in zip(arrays, buffers, strict=True):
        if array.ndim:
            assert np.allclose(got(buffer), array, 16 * eps, eps, equal_nan=True)


def test_a_prepared_kernel_is_queued_each_time_it_is_called(session, rng):
    """As `run` would queue it then, from any thread; no element is nothing to do."""
    featured(session, "kernels")
    a, b = random(rng, (40,), "float32"), random(rng, (40,), "float32")
    total, other, out = sent(session, a), sent(session, b), session.empty((40,), "float32")
    more = session.prepare("add", total[3:], other[3:], total[3:], size=30)
    nothing = session.prepare("add", total, other, total, size=0)
    more()
    session.run("add", other, other, out, size=40)
    nothing()
    Clock().run_concurrently([more])
    expected = a.copy()
    expected[3:33] = (a[3:33] + b[3:33]) + b[3:33]
    assert (got(total) == expected).all()
    assert (got(out) == b + b).all()


def test_a_kernel_that_does_not_fit_is_refused(session):
    """Prepared or run: it would read and write what is not its own; none is there by its name."""
    three, four = session.empty((3,), "float32"), session.empty((4,), "uint8")
    for kernel in ("nonsense", *(KERNELS if "kernels" not in session.features else ())):
        with pytest.raises(Unsupported, match=kernel if kernel == "nonsense" else None):
            session.run(kernel, *[three.reshape((1, 3))] * 4, size=1)
    featured(session, "kernels")
    for use in (session.prepare, session.run):
        with pytest.raises(Unsupported, match="there is no kernel"):
            use("nothing", size=1)
        with pytest.raises(ValueError, match="fill: a buffer has fewer than 4 elements"):
            use("fill", three, 1.0, size=4)
        with pytest.raises(ValueError, match="relu: buffers of one call share a type"):
            use("relu", three, four, size=3)
        with pytest.raises(ValueError, match="sum: there is no room for the result"):
            use("sum", three, three[3:], size=3)


@REALS
@pytest.mark.parametrize(("ours", "theirs"), [(7, 105), (105, 7), (1, 100_003), (105, 105)])
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.endswith("_cyclic")])
def test_the_shorter_operand_is_repeated(session, rng, kernel, ours, theirs, dtype):
    """From its own place on, by its own number of elements; what follows the result stays."""
    featured(session, dtype, "kernels")
    size = max(ours, theirs)
    a, b = (random(rng, (count + 5,), dtype) for count in (ours, theirs))
    out = sent(session, poisoned((size + 5,), dtype))
    one, two = sent(session, a)[3:], sent(session, b)[2:]
    session.run(kernel, one, ours, two, theirs, out[1:], size=size)
    expected = poisoned((size + 5,), dtype)
    left, right = np.resize(a[3 : 3 + ours], size), np.resize(b[2 : 2 + theirs], size)
    KERNELS[kernel.removesuffix("_cyclic")].reference(left, right, expected[1 : 1 + size])
    eps = np.finfo(dtype).eps
    assert np.allclose(got(out), expected, rtol=4 * eps, atol=eps, equal_nan=True)
    before, none = got(two).tobytes(), session.empty((0,), dtype)
    session.run(kernel, none, 0, two, theirs, none, size=0)
    session.run(kernel, two, theirs, none, 0, none, size=0)
    assert got(two).tobytes() == before


@REALS
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 255, 256, 257, 1000, 100_003])
def test_a_sum_is_of_all_elements(session, rng, size, dtype):
    """And of no other: as exact as adding in pairs, whatever the size; that of none is 0."""
    featured(session, dtype, "kernels")
    a = random(rng, (size + 5,), dtype)
    out = sent(session, poisoned((3,), dtype))
    session.run("sum", sent(session, a)[3:], out[1:], size=size)
    found, wide = got(out), a[3 : 3 + size].astype(np.float64)
    eps = np.finfo(dtype).eps
    bound = 16 * eps * np.abs(wide).sum() + eps * abs(wide.sum())
    assert abs(float(found[1]) - wide.sum()) <= bound
    assert found[[0, 2]].tobytes() == poisoned((3,), dtype)[[0, 2]].tobytes()


@REALS
@pytest.mark.parametrize("size", [2, 33, 70_000])
def test_a_sum_beyond_all_numbers_is_infinite(session, size, dtype):
    """As NumPy's, whether an element is infinite or all of them together; NaN alone makes NaN."""
    featured(session, dtype, "kernels")
    inf, nan, most = np.inf, np.nan, np.finfo(dtype).max
    for first, last, rest, total in (
        (inf, 1, 1, inf), (1, inf, 1, inf), (most, most, most, inf), (-most, -most, -most, -inf),
        (inf, -inf, 1, nan), (1, nan, 1, nan),
    ):  # fmt: skip
        a = np.full(size, rest, dtype)
        a[0], a[-1] = first, last
        out = session.empty((1,), dtype)
        session.run("sum", sent(session, a), out, size=size)
        assert np.array_equal(got(out), [total], equal_nan=True)


def chained(session, rng, rows, dtype, inner=10, columns=5, scale=1.0):
    """Run a chain on odd places; return its result with a row around it, and what it must be."""
    x, w = random(rng, (rows + 3, inner), dtype), random(rng, (inner + 1, columns), dtype)
    b, out = random(rng, (columns + 2,), dtype), poisoned((rows + 2, columns), dtype)
    x *= np.dtype(dtype).type(scale)
    sent_out = sent(session, out)
    session.run(
        "chain", sent(session, x)[3:], sent(session, w)[1:], sent(session, b)[2:],
        sent_out[1 : 1 + rows], size=rows,
    )  # fmt: skip
    KERNELS["chain"].reference(x[3:], w[1:], b[2:], out[1 : 1 + rows])
    return got(sent_out), out


@REALS
@pytest.mark.parametrize("shape", TABLE["chains"], ids=str)
def test_a_chain_is_what_its_operations_make(session, rng, shape, dtype):
    """Of any number of rows, and of weights of any size."""
    featured(session, dtype, "kernels")
    rows, inner, columns = shape
    found, expected = chained(session, rng, rows, dtype, inner, columns)
    eps = np.finfo(dtype).eps
    assert np.allclose(found[1:-1], expected[1:-1], rtol=16 * eps, atol=64 * eps)
    assert found[[0, -1]].tobytes() == expected[[0, -1]].tobytes()


def test_a_chain_overflows_where_its_operations_do(session, rng):
    """Exp is infinite above 88.7 in 32 bits, and so is its logarithm; what is no number stays."""
    featured(session, "kernels")
    found, expected = chained(session, rng, 333, "float32", scale=100.0)
    assert np.isinf(expected[1:-1]).any()
    near = np.isfinite(found) == np.isfinite(expected)  # a rounding may decide at the edge
    assert near[1:-1].mean() > 0.99
    assert np.allclose(found[near], expected[near], rtol=2e-6, atol=1e-4, equal_nan=True)
    found, expected = chained(session, rng, 33, "float32", scale=np.nan)
    assert np.isnan(found[1:-1]).all()
    assert np.isnan(expected[1:-1]).all()


@pytest.mark.parametrize(("kernel", "shapes", "size", "message"), TABLE["refused"])
def test_a_chain_that_does_not_fit_is_refused(session, kernel, shapes, size, message):
    """Before a device would read past an end."""
    featured(session, "kernels")
    buffers = [session.empty(tuple(shape), "float32") for shape in shapes]
    with pytest.raises(ValueError, match=message):
        session.run(kernel, *buffers, size=size)


@pytest.mark.parametrize("kernel", ["maximum", "relu", "relu_back"])
def test_what_is_no_number_stays_none(session, kernel):
    """As NumPy's maximum passes it on, from either side; infinities are numbers.

    Behind a relu that let nothing through it is 0, whatever comes back: no product is computed.
    """
    featured(session, "kernels")
    a = np.float32([np.nan, 1.0, np.inf, -np.inf, np.nan, -1.0, 0.0, 1.0, 0.0])
    b = np.float32([1.0, np.nan, 2.0, 2.0, np.nan, -2.0, np.inf, np.inf, np.nan])
    zero = np.float32(0)
    expected = {
        "maximum": np.maximum(a, b),
        "relu": np.maximum(a, zero),
        "relu_back": np.where(a > 0, b, zero),
    }[kernel]
    out = sent(session, poisoned(a.shape, "float32"))
    operands = [sent(session, a), sent(session, b)][: len(KERNELS[kernel].arguments) - 1]
    session.run(kernel, *operands, out, size=a.size)
    assert np.array_equal(got(out), expected, equal_nan=True)
