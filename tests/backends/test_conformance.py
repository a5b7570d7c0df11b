"""What a backend is: one suite for all of them, driven by the registry and by `features`.

Each device of each backend that is usable here is opened for real; where one is not, the tests
skip with the probe's own reason. Destinations are poisoned, products are held against float64.
"""

import gc
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import combinations, pairwise, product

import here
import numpy as np
import pytest
from buffers import got, sent, verified
from tables import table

from gpumap.app.checking import round_trip
from gpumap.backends import REGISTRY, load
from gpumap.bench.products import Pair, Product
from gpumap.bench.verified_copies import Buffers, HostCopy
from gpumap.dtypes import ROUNDING, numpy_dtype, storage
from gpumap.errors import GpumapError, OutOfMemory, Unsupported
from gpumap.kernels.definitions import KERNELS

EACH = 3  # devices of one backend: the first, the last, and a part where there are some
SEED = 7
POISON = 0xA5  # a byte that no source holds by accident in every place
DTYPES = ("float32", "float64", "float16", "uint8")
FLOATS = pytest.mark.parametrize("dtype", DTYPES[:3])
TURNS = list(product((False, True), repeat=2))
SPECIAL = pytest.mark.parametrize("memory", ["pinned", "mapped"])
SIZES = ((1, 1, 1), (7, 7, 7), (16, 16, 16), (33, 33, 33), (100, 37, 65))


@cache
def backend(name):
    made = load(name, here.HOST)
    return made, made.probe()


def chosen(devices):
    """Return a few devices that differ in what they are."""
    parts = [d for d in devices if d.ref.part is not None]
    whole = [d for d in devices if d.ref.part is None]
    few = [*whole[:1], *parts[-1:], *whole[-1:]]
    return list({d.id: d for d in few}.values())[:EACH]


def places():
    """Return a (backend, device) for each test, or the backend alone where it has none."""
    for name in REGISTRY:
        probe = backend(name)[1]
        for device in chosen(probe.devices):
            yield pytest.param((name, device), id=f"{name}-{device.ref}")
        if not probe.usable:
            reason = f"{name}: {probe.reason}"
            yield pytest.param((name, None), id=name, marks=pytest.mark.skip(reason))


def opened(place):
    name, device = place
    made = backend(name)[0]
    return made.open(device, made.clock())


PLACES = list(places())
REAL = [p for p in PLACES if p.values[0][1] is not None]
PAIRS = [
    pytest.param((a.values[0], b.values[0]), id=f"{a.id}-to-{b.id}")
    for a, b in product(REAL, REAL)
    if (a.values[0][0] == "fake") == (b.values[0][0] == "fake")
]


@pytest.fixture(params=PLACES)
def session(request):
    with opened(request.param) as session:
        yield session


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def featured(session, *wanted):
    """Skip what the device has not; bytes and float32 are for all."""
    for each in {*wanted} - {"float32", "uint8", *session.features}:
        pytest.skip(f"{session.device.id} has no {each}")


def random(rng, shape, dtype):
    if dtype == "uint8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.uniform(-1, 1, shape).astype(dtype)


def poisoned(shape, dtype):
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = POISON
    return array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1000,), (3, 5), (64, 64), (2, 3, 4)])
def test_what_goes_up_comes_down(session, rng, dtype, shape):
    array = random(rng, shape, dtype)
    buffer = sent(session, array)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == (shape, np.dtype(dtype), array.nbytes)
    assert buffer.session is session
    assert buffer.native is not None
    assert got(buffer).tobytes() == array.tobytes()


def test_views_of_any_shape_and_of_nothing(session, rng):
    """A buffer without rows is legal, and so is a slice without any."""
    empty, some = session.empty((0, 4), "float32"), sent(session, np.ones((3, 4), "float32"))
    assert got(empty).shape == got(some[1:1]).shape == got(some[2:1]).shape == (0, 4)
    assert got(empty.reshape((4, 0))).shape == (4, 0)
    assert session.copy(some[3:], empty) == "same"
    session.synchronize()
    # the same elements in another shape: a view, of a part of a part too
    array, other = (random(rng, (4, 6), "float32") for _ in range(2))
    buffer = sent(session, array)
    assert got(buffer[1:][1:3][1:2]).tobytes() == array[3:4].tobytes()
    part = buffer[1:3].reshape((12,))[3:9].reshape((2, 3))
    assert got(part).tobytes() == array.reshape(-1)[9:15].tobytes()
    session.upload(np.ascontiguousarray(other[:2, :3]), part)
    array.reshape(-1)[9:15] = other[:2, :3].reshape(-1)
    assert got(buffer).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(
    "rows", [slice(1, 4), slice(3, 8), slice(None, 1), slice(-2, None), slice(None)]
)
def test_a_slice_is_a_view_of_rows(session, rng, dtype, rows):
    """At any offset, aligned or not: what is written through it changes those rows alone."""
    array, other = random(rng, (8, 3), dtype), random(rng, (8, 3), dtype)
    buffer = sent(session, array)
    part = buffer[rows]
    assert got(part).tobytes() == array[rows].tobytes()
    session.upload(np.ascontiguousarray(other[rows]), part)
    array[rows] = other[rows]
    assert got(buffer).tobytes() == array.tobytes()


def test_a_source_that_is_dropped_is_copied_all_the_same(session, rng):
    """Whoever queues a copy need not keep its source, and other data may take its place."""
    arrays = [random(rng, (40_000,), "float32") for _ in range(3)]
    buffers = [sent(session, array.copy()) for array in arrays]
    gc.collect()
    others = [poisoned((40_000,), "float32") for _ in range(8)]
    assert [got(b).tobytes() for b in buffers] == [a.tobytes() for a in arrays]
    assert len(others) == 8


@pytest.mark.parametrize("shape", [(5,), (2, 3), (-1, -8), (8, 0)])
def test_a_view_of_other_elements_is_refused(session, shape):
    """Nothing is cut, and nothing behind the end is seen; a copy would lose what is written."""
    buffer = session.empty((8,), "float32")
    with pytest.raises(ValueError, match="cannot be seen as"):
        buffer.reshape(shape)
    for step in (2, -1):
        with pytest.raises(ValueError, match="contiguous"):
            buffer[::step]


def test_a_copy_that_does_not_fit_is_refused(session):
    """Nothing is broadcast, cast, cut or written past its end: shape and type are equal."""
    buffer = sent(session, np.ones((4, 2), "float32"))
    wrong = [np.zeros(s, d) for s, d in [((1, 2), "float32"), ((8,), "float32"),
                                         ((4, 2), "float64"), ((4, 2), "int32"),
                                         ((5, 2), "float32")]]  # fmt: skip
    for array in wrong:
        with pytest.raises(ValueError, match="does not fit"):
            session.upload(array, buffer)
        with pytest.raises(ValueError, match="does not fit"):
            session.download(buffer, array)
    with pytest.raises(ValueError, match="does not fit"):
        session.copy(buffer[1:], buffer)
    assert (got(buffer) == 1).all()


@pytest.mark.parametrize(
    "shape", [(2**60,), (2**32, 2**32), (2**40, 2**40), (np.int64(2**32), np.int64(2**32))]
)
def test_more_than_there_is(session, shape):
    """An exabyte is out of memory, and what no 64 bits count; the session goes on."""
    with pytest.raises(OutOfMemory):
        session.empty(shape, "uint8")
    round_trip(session)


@pytest.mark.parametrize("memory", ["pageable", "pinned", "mapped"])
def test_host_memory_is_of_the_kind_that_was_asked_for(session, rng, memory):
    if memory != "pageable" and memory not in session.features:
        with pytest.raises(Unsupported, match=f"{memory} host memory is not there on"):
            session.host((4,), "float32", memory)
        return
    array = session.host((33, 3), "float32", memory)
    array[...] = wanted = random(rng, (33, 3), "float32")
    assert (array.shape, array.dtype) == ((33, 3), np.float32)
    assert got(sent(session, array)).tobytes() == wanted.tobytes()


@SPECIAL
def test_rows_of_special_memory_move_both_ways(session, rng, memory):
    """At odd places, again and again: each side sees what the other wrote, and only there."""
    featured(session, memory)
    there, back = (session.host((1000,), "uint8", memory) for _ in range(2))
    buffer = sent(session, poisoned((1000,), "uint8"))
    for start, stop in ((1, 4), (8, 400), (37, 999), (0, 1000), (500, 500)):
        there[...] = wanted = random(rng, (1000,), "uint8")
        back[...] = POISON
        session.upload(there[start:stop], buffer[start:stop], 3)
        session.download(buffer[start:stop], back[start:stop], 3)
        session.synchronize()
        expected = poisoned((1000,), "uint8")
        expected[start:stop] = wanted[start:stop]
        assert back.tobytes() == expected.tobytes()
        assert there.tobytes() == wanted.tobytes()


@SPECIAL
def test_special_memory_outlives_what_it_came_from(session, rng, memory):
    """It stays when the session is closed and all is dropped; an exabyte is out of memory."""
    featured(session, memory)
    if session.device.backend != "fake":
        with pytest.raises(OutOfMemory):
            session.host((2**60,), "uint8", memory)
    array = session.host((5000,), "float32", memory)
    array[...] = wanted = random(rng, (5000,), "float32")
    sent(session, array)
    session.close()
    gc.collect()
    assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("pair", PAIRS)
def test_another_session_takes_special_memory_as_any_other(pair, rng):
    """It belongs to one session, and is host memory to all of them."""
    with opened(pair[0]) as one, opened(pair[1]) as two:
        for memory in {"pinned", "mapped"} & one.features:
            array = one.host((300,), "uint8", memory)
            array[...] = random(rng, (300,), "uint8")
            assert got(sent(two, array)).tobytes() == array.tobytes()


def test_a_copy_inside_a_session(session, rng):
    """Between slices at odd offsets; the rows around the target stay."""
    array = random(rng, (9, 7), "float32")
    source, target = sent(session, array), sent(session, poisoned((9, 7), "float32"))
    route = session.copy(source[1:4], target[5:8])
    expected = poisoned((9, 7), "float32")
    expected[5:8] = array[1:4]
    assert (got(target).tobytes(), route) == (expected.tobytes(), "same")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_copy_to_another_session(pair, rng):
    """To any session of any backend; between backends by way of the host, and the target waits."""
    with opened(pair[0]) as one, opened(pair[1]) as two:
        array = random(rng, (100, 33), "float32")
        source = sent(one, array)
        one.copy(source, sent(two, array))  # the way is proved by now: no proof waits for anyone
        target = sent(two, poisoned((100, 33), "float32"))  # queued before: must not win
        route = one.copy(source[1:51], target[3:53])
        expected = poisoned((100, 33), "float32")
        expected[3:53] = array[1:51]
        assert got(target).tobytes() == expected.tobytes()
    same_backend = pair[0][0] == pair[1][0]
    assert route in (("same", "peer", "staged") if same_backend else ("staged",))


def turned(array, turn):
    return np.ascontiguousarray(array.T) if turn else array


def bound(a, b, out, alpha, beta, inner):
    """Return how far a product may be off: each term rounds, in any order of the sum."""
    unit = ROUNDING[out.dtype.name].write
    terms = abs(alpha) * (np.abs(a).astype(float) @ np.abs(b).astype(float))
    terms += abs(beta) * np.nan_to_num(np.abs(out).astype(float))
    return (inner + 4) * unit * terms + unit


def assert_product(session, rng, sizes, dtype, transpose, alpha, beta):
    rows, columns, inner = sizes
    a, b = random(rng, (rows, inner), dtype), random(rng, (inner, columns), dtype)
    out = random(rng, (rows, columns), dtype)
    if beta == 0.0:
        out[...] = np.nan  # must not be read
    factors = (sent(session, turned(*each)) for each in zip((a, b), transpose, strict=True))
    target = sent(session, out)
    session.gemm(*factors, target, transpose=transpose, alpha=alpha, beta=beta)
    expected = alpha * (a.astype(float) @ b.astype(float))
    expected += beta * out.astype(float) if beta else 0.0
    off = np.abs(got(target).astype(float) - expected)
    assert (off <= bound(a, b, out, alpha, beta, inner)).all()


@FLOATS
@pytest.mark.parametrize("transpose", TURNS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s)))
def test_products_of_every_shape(session, rng, sizes, transpose, dtype):
    featured(session, dtype)
    assert_product(session, rng, sizes, dtype, transpose, 1.0, 0.0)


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


def test_float32_products_are_float32(session, rng):
    """TF32 would be off a thousand times as far; who has none refuses it."""
    a, b = random(rng, (64, 64), "float32"), random(rng, (64, 64), "float32")
    out = session.empty((64, 64), "float32")
    session.gemm(sent(session, a), sent(session, b), out)
    assert np.abs(got(out) - a.astype(float) @ b.astype(float)).max() < 1e-5
    if "tf32" not in session.features:
        with pytest.raises(Unsupported, match="TF32"):
            session.gemm(out, out, out, tf32=True)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2, 0), (-0.5, 0.25), (0, 1), (0, 0), (1, -1)])
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_alpha_and_beta(session, rng, alpha, beta, dtype):
    featured(session, dtype)
    for transpose in TURNS:
        assert_product(session, rng, (37, 21, 50), dtype, transpose, float(alpha), float(beta))


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
    # no term is zero; no row is nothing to do
    empty = session.empty
    out = sent(session, poisoned((2, 3), "float32"))
    session.gemm(empty((2, 0), "float32"), empty((0, 3), "float32"), out)
    none = empty((0, 3), "float32")
    session.gemm(empty((0, 4), "float32"), empty((4, 3), "float32"), none)
    assert (got(out) == 0).all()
    assert got(none).shape == (0, 3)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((2, 3), (3, 4), (4, 2)), ((2, 3), (3, 4), (2, 5))]
)
def test_products_that_do_not_fit_are_refused(session, shapes):
    with pytest.raises(ValueError, match="shapes do not fit"):
        session.gemm(*(session.empty(shape, "float32") for shape in shapes))


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


@FLOATS
@pytest.mark.parametrize("kernel", EVEN)
def test_kernels_compute_what_their_reference_does(session, rng, kernel, dtype):
    """On slices at odd offsets, over `size` elements; what stands behind them stays."""
    featured(session, dtype, "kernels")
    kinds = KERNELS[kernel].arguments
    made = {
        "buffer": lambda: random(rng, (BUFFERS,), dtype),
        "scalar": lambda: np.dtype(dtype).type(0.375),
        "counter": lambda: np.arange(BUFFERS, dtype=np.uint32),
    }
    arrays = [made[kind]() for kind in kinds]
    buffers = [sent(session, a.copy()) if a.ndim else float(a) for a in arrays]
    session.run(kernel, *(b if isinstance(b, float) else b[3:] for b in buffers), size=SIZE)
    KERNELS[kernel].reference(*(a[3 : 3 + SIZE] if a.ndim else a for a in arrays))
    eps = np.finfo(dtype).eps
    for array, buffer in zip(arrays, buffers, strict=True):
        if array.ndim:
            assert np.allclose(got(buffer), array, rtol=16 * eps, atol=eps, equal_nan=True)


def test_a_prepared_kernel_is_queued_each_time_it_is_called(session, rng):
    """As `run` would queue it then, whatever has come between; no element is nothing to do."""
    featured(session, "kernels")
    a, b = random(rng, (40,), "float32"), random(rng, (40,), "float32")
    total, other, out = sent(session, a), sent(session, b), session.empty((40,), "float32")
    more = session.prepare("add", total[3:], other[3:], total[3:], size=30)
    nothing = session.prepare("add", total, other, total, size=0)
    more()
    session.run("add", other, other, out, size=40)
    nothing()
    more()
    expected = a.copy()
    expected[3:33] = (a[3:33] + b[3:33]) + b[3:33]
    assert (got(total) == expected).all()
    assert (got(out) == b + b).all()


def test_a_kernel_that_does_not_fit_is_refused(session):
    """Prepared or run: it would read and write what is not its own; none is there by its name."""
    three, four = session.empty((3,), "float32"), session.empty((4,), "uint32")
    for kernel in ("nonsense", *(KERNELS if "kernels" not in session.features else ())):
        with pytest.raises(Unsupported, match=kernel if kernel == "nonsense" else None):
            session.run(kernel, *[three.reshape((1, 3))] * 4, size=1)
    featured(session, "kernels")
    for use in (session.prepare, session.run):
        with pytest.raises(Unsupported, match="there is no kernel"):
            use("nothing", size=1)
        with pytest.raises(ValueError, match="fill: a buffer has fewer than 4 elements"):
            use("fill", three, 1.0, size=4)
        with pytest.raises(ValueError, match="copy: buffers of one call share a type"):
            use("copy", three, four, size=3)


@FLOATS
@pytest.mark.parametrize(("ours", "theirs"), [(7, 105), (105, 7), (1, 100_003), (105, 105)])
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.endswith("_cyclic")])
def test_the_shorter_operand_is_repeated(session, rng, kernel, ours, theirs, dtype):
    """From its own place on, by its own number of elements; what stands behind the result stays."""
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


@FLOATS
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.endswith("_cyclic")])
def test_nothing_is_repeated_where_there_is_nothing(session, kernel, dtype):
    """A call of no elements is one; the operand that would be repeated has some."""
    featured(session, dtype, "kernels")
    none, some = session.empty((0,), dtype), sent(session, np.ones(3, dtype))
    for width in (1, 3):
        session.run(kernel, none, 0, some, width, none, size=0)
        session.run(kernel, some, width, none, 0, none, size=0)
    assert got(some).tolist() == [1.0, 1.0, 1.0]


@FLOATS
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 255, 256, 257, 1000, 100_003])
def test_a_sum_is_of_all_elements(session, rng, size, dtype):
    """And of no other: as exact as adding in pairs, whatever the size; that of none is 0."""
    featured(session, dtype, "kernels")
    a = random(rng, (size + 5,), dtype)
    out = sent(session, poisoned((3,), dtype))
    session.run("sum", sent(session, a)[3:], out[1:], size=size)
    found, wide = got(out), a[3 : 3 + size].astype(np.float64)
    eps = np.finfo(np.float32 if dtype == "float16" else dtype).eps
    bound = 16 * eps * np.abs(wide).sum() + np.finfo(dtype).eps * abs(wide.sum())
    assert abs(float(found[1]) - wide.sum()) <= bound
    assert found[[0, 2]].tobytes() == poisoned((3,), dtype)[[0, 2]].tobytes()


@FLOATS
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


@FLOATS
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 63, 64, 65, 1000, 100_003])
def test_a_chain_is_what_its_operations_make(session, rng, rows, dtype):
    featured(session, dtype, "kernels")
    found, expected = chained(session, rng, rows, dtype)
    eps = np.finfo(dtype).eps
    assert np.allclose(found[1:-1], expected[1:-1], rtol=16 * eps, atol=64 * eps)
    assert found[[0, -1]].tobytes() == expected[[0, -1]].tobytes()


@pytest.mark.parametrize(("inner", "columns"), [(1, 1), (3, 4), (2, 8), (7, 9), (16, 16), (5, 33)])
def test_a_chain_of_other_weights(session, rng, inner, columns):
    featured(session, "kernels")
    found, expected = chained(session, rng, 77, "float32", inner, columns)
    assert np.allclose(found[1:-1], expected[1:-1], rtol=2e-6, atol=8e-6)


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


@FLOATS
@pytest.mark.parametrize("columns", [1, 2, 10, 100])
@pytest.mark.parametrize("rows", [0, 1, 17, 1000])
def test_a_softmax_is_shares_of_each_row(session, rng, rows, columns, dtype):
    """As its reference, in place too; exp of large numbers is none, the rows around stay."""
    featured(session, dtype, "kernels")
    a, out = random(rng, (rows + 3, columns), dtype), poisoned((rows + 2, columns), dtype)
    a *= np.dtype(dtype).type(100)
    given, target = sent(session, a), sent(session, out)
    for to in (target[1:-1], given[2:-1]):
        session.run("softmax", given[2:-1], to, size=rows)
    expected = np.empty((rows, columns), np.float64)
    KERNELS["softmax"].reference(a[2:-1].astype(np.float64), expected)
    eps = np.finfo(dtype).eps
    found, inside = got(target), got(given)
    # a distance of 200 is off by half a unit, which its exp is off by too
    assert np.allclose(found[1:-1], expected, rtol=(200 + columns) * eps, atol=eps)
    assert np.allclose(found[1:-1].astype(np.float64).sum(axis=1), 1, atol=(columns + 8) * eps)
    assert inside[2:-1].tobytes() == found[1:-1].tobytes()
    assert found[[0, -1]].tobytes() == out[[0, -1]].tobytes()
    assert inside[[0, 1, -1]].tobytes() == a[[0, 1, -1]].tobytes()


def test_infinity_stays_behind_a_relu_that_let_nothing_through(session):
    """The derivative is 0 there, whatever comes back; no product makes no number of it."""
    featured(session, "kernels")
    a, d = (np.array(each, "float32") for each in ([0, 1, 0, 2, 0], [np.inf, np.inf, np.nan, 3, 4]))
    buffer = sent(session, d)
    session.run("relu_back", sent(session, a), buffer, buffer, size=5)
    assert got(buffer).tolist() == [0, np.inf, 0, 3, 0]


@pytest.mark.parametrize(("kernel", "shapes", "size", "message"), table(__file__)["refused"])
def test_a_chain_or_a_softmax_that_does_not_fit_is_refused(session, kernel, shapes, size, message):
    """Before a device would read past an end, or divide by the sum of nothing."""
    featured(session, "kernels")
    buffers = [session.empty(tuple(shape), "float32") for shape in shapes]
    with pytest.raises(ValueError, match=message):
        session.run(kernel, *buffers, size=size)


@pytest.mark.parametrize("kernel", ["maximum", "relu"])
def test_what_is_no_number_stays_none(session, kernel):
    """As NumPy's maximum passes it on, from either side; infinities are numbers."""
    featured(session, "kernels")
    a = np.float32([np.nan, 1.0, np.inf, -np.inf, np.nan, -1.0])
    b = np.float32([1.0, np.nan, 2.0, 2.0, np.nan, -2.0])
    out = sent(session, poisoned((6,), "float32"))
    operands = [sent(session, a), sent(session, b)][: len(KERNELS[kernel].arguments) - 1]
    session.run(kernel, *operands, out, size=6)
    expected = np.maximum(a, b if kernel == "maximum" else np.float32(0))
    assert np.array_equal(got(out), expected, equal_nan=True)


COUNTED = (1, 31, 257, 4096, 4097, 100_001)  # around what a work-item, and a group of them, takes


@pytest.mark.parametrize("size", COUNTED)
def test_differing_bytes_are_counted(session, rng, size):
    """All, none, and any; from odd places on, and no byte beside those that are meant."""
    featured(session, "kernels")
    a = random(rng, (size + 8,), "uint8")
    places = sorted({0, size // 2, size - 1, int(rng.integers(size))})
    one, two, counter = sent(session, a), sent(session, a), sent(session, np.zeros(3, "u4"))

    def count(changed):
        other = a.copy()
        other[3:][changed] ^= 0x10
        other[[1, 2, 3 + size, 4 + size]] ^= 1  # beside
        session.upload(other, two)
        session.upload(np.full(3, 5, np.uint32), counter)
        session.run("differ", one[3:], two[3:], counter[1:], size=size)
        return got(counter).tolist()

    assert count([]) == [5, 5, 5]
    assert count(places) == [5, 5 + len(places), 5]
    assert count(slice(0, size)) == [5, 5 + size, 5]


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
@pytest.mark.parametrize("size", COUNTED)
def test_whole_numbers_are_shifted_around_their_end(session, rng, size, dtype):
    """As the reference does: every element is another one, and those beside stay."""
    featured(session, "kernels")
    source = rng.integers(0, np.iinfo(dtype).max, size + 5, dtype=dtype, endpoint=True)
    target = sent(session, poisoned((size + 5,), dtype))
    session.run("shift", target[2:], sent(session, source)[3:], 200.0, size=size)
    expected = poisoned((size + 5,), dtype)
    expected[2 : 2 + size] = source[3 : 3 + size] + np.dtype(dtype).type(200)
    assert got(target).tobytes() == expected.tobytes()


def test_marks_are_in_order_on_the_host_clock_and_seconds_are_the_devices_own(session, rng):
    """A mark lies between the host's times around it; with `events`, parts add up; else None."""
    clock = backend(session.device.backend)[0].clock()
    matrix = sent(session, random(rng, (256, 256), "float32"))
    out = session.empty((256, 256), "float32")
    session.gemm(matrix, matrix, out)  # compiles
    session.synchronize()
    before = clock.now()
    marks = [session.mark()]
    for _ in range(3):
        session.gemm(matrix, matrix, out)
        marks.append(session.mark())
    assert all(mark.session is session for mark in marks)
    times = [session.at(mark) for mark in reversed(marks)][::-1]
    session.synchronize()
    after = clock.now()
    first, *_, last = marks
    if "events" in session.features:
        parts = [session.seconds(*each) for each in pairwise(marks)]
        assert min(parts) > 0
        assert session.seconds(first, last) == pytest.approx(sum(parts))
        assert times[-1] - times[0] == pytest.approx(sum(parts), abs=1e-3)
    else:
        assert session.seconds(first, last) is None
    if None in times:
        assert set(times) == {None}
        assert "events" not in session.features
        return
    assert times == sorted(times)
    slack = 2e-3 if "events" in session.features else 1e-6  # two clocks, brought together
    assert before - slack <= times[0]
    assert times[-1] <= after + slack


@pytest.mark.parametrize("pair", PAIRS)
def test_a_session_waits_for_a_mark_of_any_other(pair, rng):
    """What is queued after the wait sees what was queued before the mark."""
    with opened(pair[0]) as one, opened(pair[1]) as two:
        a = random(rng, (300, 300), "float32") / 16
        source, out = sent(one, a), one.empty((300, 300), "float32")
        for _ in range(5):
            one.gemm(source, source, out)
        mark = one.mark()
        two.wait(mark)
        reached = two.mark()
        two.synchronize()
        assert two.wait(reached) is None  # its own mark: already in order
        if one.at(mark) is not None and two.at(reached) is not None:
            slack = 2e-3 if "events" in one.features | two.features else 0.0
            assert one.at(mark) <= two.at(reached) + slack


def test_what_goes_wrong_is_raised_by_synchronize_at_the_latest(session):
    """An argument that no kernel can take; afterwards the session is usable."""
    featured(session, "kernels")
    buffer = session.empty((4,), "float32")
    with pytest.raises((GpumapError, ValueError, TypeError)):  # noqa: PT012 - either of the two
        session.run("fill", buffer, "three", size=4)
        session.synchronize()
    session.synchronize()
    round_trip(session)


@pytest.mark.parametrize("place", REAL)
def test_what_a_device_can_do_is_known_before_it_is_opened(place):
    """A dry run plans by it; only what a device can do for its neighbours shows later."""
    name, device = place
    with opened(place) as session:
        assert session.features - {"peer"} == backend(name)[0].features(device) - {"peer"}


@pytest.mark.parametrize("place", PLACES)
def test_closing_twice_is_closing_once(place):
    session = opened(place)
    buffer = sent(session, np.ones(1000, "float32"))
    session.download(buffer, np.empty(1000, "float32"))
    session.close()
    assert session.close() is None
    with session:
        pass
    with opened(place) as again:
        assert round_trip(again) is None


@pytest.mark.parametrize("pair", [
    pytest.param((a.values[0], b.values[0]), id=f"{a.id}-and-{b.id}")
    for a, b in [*combinations(REAL, 2), *((p, p) for p in REAL)]
    if "fake" not in (a.values[0][0], b.values[0][0])  # its clock is one, and not a thread's
])  # fmt: skip
def test_different_sessions_at_the_same_time(pair):
    """Each from a thread of its own, ten rounds of everything: no one sees another's data."""

    def use(place, seed):
        rng = np.random.default_rng(seed)
        with opened(place) as session:
            for _ in range(10):
                assert_product(session, rng, (33, 17, 40), "float32", (False, True), 1.0, 0.0)
                round_trip(session)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(use, pair, range(2), timeout=60))


def test_a_session_may_be_used_from_one_thread_after_another(session, rng):
    array = random(rng, (64,), "float32")
    buffer = sent(session, array)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(got, buffer).result(60).tobytes() == array.tobytes()


class Faulty:
    """A real session that gets one byte of a copy, or one place of a product, wrong."""

    fault = ""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        call = getattr(self._session, name)
        if name != self.fault:
            return call

        def spoilt(*arguments, **given):
            call(*arguments, **given)
            self._session.synchronize()
            target = arguments[2 if name == "gemm" else 1]
            if name == "download":  # the last byte on the host
                target.reshape(-1).view(np.uint8)[-1] ^= 0x40
                return
            array = got(target)  # on the device: the first byte, or the highest of the first place
            array.reshape(-1).view(np.uint8)[target.dtype.itemsize - 1] ^= 0x40
            self._session.upload(array, target)
            self._session.synchronize()

        return spoilt


@pytest.mark.parametrize(("fault", "direction"), [("upload", "h2d"), ("download", "d2h")])
def test_a_planted_byte_of_a_copy_is_found(session, fault, direction):
    faulty = Faulty(session)
    work = HostCopy(
        [Buffers("a", faulty, 5000, "pageable", (1, 0)).part(5000)], direction, sync=True
    )
    assert verified(work).passed
    faulty.fault = fault
    assert not verified(work).passed


def test_a_planted_place_of_a_product_is_found(session):
    faulty = Faulty(session)
    product = Product("a", faulty, Pair((1, 0), 100, "float32"))
    for faulty.fault in ("", "gemm"):
        product.poison()
        product.queue()
        session.synchronize()
        assert product.check(fetched=False).passed == (not faulty.fault)
