"""What a backend is: one suite for all of them, driven by the registry and by `features`.

Each device of each backend that is usable here is opened for real; where one is not, the tests
skip with the probe's own reason. Destinations are poisoned, products are compared with float64.
This file has memory, copies and sessions; test_conformance_products.py has products and kernels.
"""

import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise

import numpy as np
import pytest
from backends.products import assert_product, random
from buffers import got, sent
from contract import DTYPES, PAIRS, PLACES, POISON, REAL, featured, opened, poisoned
from sessions import backend

from gpumap.app.checking import round_trip
from gpumap.errors import GpumapError, OutOfMemory, Unsupported


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (1000,), (3, 5), (64, 64), (2, 3, 4)])
def test_what_goes_up_comes_down(session, rng, dtype, shape):
    array = random(rng, shape, dtype)
    buffer = sent(session, array)
    assert (buffer.shape, buffer.dtype, buffer.nbytes) == (shape, np.dtype(dtype), array.nbytes)
    assert buffer.session is session
    assert buffer.native is not None
    assert got(buffer).tobytes() == array.tobytes()


def test_what_was_uploaded_stays_whatever_becomes_of_its_source(session, rng):
    """Overwritten or dropped: whoever queues a copy need not keep it.

    Also where the source has an alignment at which a library takes it as memory of its own.
    """
    memory = np.zeros(160_000 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    source = memory[start : start + 160_000].view(np.float32)
    arrays = [random(rng, source.shape, "float32") for _ in range(3)]
    source[:] = arrays[0]
    buffers = [sent(session, source), *(sent(session, array.copy()) for array in arrays[1:])]
    gc.collect()
    others = [poisoned((40_000,), "float32") for _ in range(8)]
    buffers[0].session.synchronize()
    source[:] = 0.0
    assert [got(b).tobytes() for b in buffers] == [a.tobytes() for a in arrays]
    assert len(others) == 8


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_views_of_any_shape_and_of_nothing(session, rng, dtype):
    """A buffer without rows is legal, and so is a slice without any."""
    empty, some = session.empty((0, 4), "float32"), sent(session, np.ones((3, 4), "float32"))
    assert got(empty).shape == got(some[1:1]).shape == got(some[2:1]).shape == (0, 4)
    assert got(empty.reshape((4, 0))).shape == (4, 0)
    assert session.copy(some[3:], empty) == "same"
    session.synchronize()
    # rows at any offset, aligned or not
    array, other = (random(rng, (4, 6), dtype) for _ in range(2))
    buffer = sent(session, array)
    for rows in (slice(None, 1), slice(-2, None), slice(None)):
        assert got(buffer[rows]).tobytes() == array[rows].tobytes()
    # the same elements in another shape: a view, of a part of a part too
    assert got(buffer[1:][1:3][1:2]).tobytes() == array[3:4].tobytes()
    part = buffer[1:3].reshape((12,))[3:9].reshape((2, 3))
    assert got(part).tobytes() == array.reshape(-1)[9:15].tobytes()
    session.upload(np.ascontiguousarray(other[:2, :3]), part)
    array.reshape(-1)[9:15] = other[:2, :3].reshape(-1)
    assert got(buffer).tobytes() == array.tobytes()


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


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
def test_host_memory_is_of_the_kind_that_was_asked_for(session, rng, memory):
    if memory != "pageable" and memory not in session.features:
        with pytest.raises(Unsupported, match=f"{memory} host memory is not there on"):
            session.host((4,), "float32", memory)
        return
    array = session.host((33, 3), "float32", memory)
    array[...] = wanted = random(rng, (33, 3), "float32")
    assert (array.shape, array.dtype) == ((33, 3), np.float32)
    assert got(sent(session, array)).tobytes() == wanted.tobytes()


def test_rows_of_pinned_memory_move_both_ways(session, rng):
    """At odd places, again and again: each side sees what the other wrote, and only there."""
    featured(session, "pinned")
    there, back = (session.host((1000,), "uint8", "pinned") for _ in range(2))
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


def test_pinned_memory_outlives_what_it_came_from(session, rng):
    """It stays when the session is closed and all is dropped; an exabyte is out of memory."""
    featured(session, "pinned")
    if session.device.backend != "fake":
        with pytest.raises(OutOfMemory):
            session.host((2**60,), "uint8", "pinned")
    array = session.host((5000,), "float32", "pinned")
    array[...] = wanted = random(rng, (5000,), "float32")
    sent(session, array)
    session.close()
    gc.collect()
    assert array.tobytes() == wanted.tobytes()


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
    """A dry run plans by it."""
    name, device = place
    with opened(place) as session:
        assert session.features == backend(name)[0].features(device)


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
    """Each from a thread of its own, ten iterations of everything: no one sees another's data."""

    def use(place, seed):
        rng = np.random.default_rng(seed)
        with opened(place) as session:
            for _ in range(10):
                assert_product(session, rng, (33, 17, 40), "float32", (False, True), 1.0, 0.0)
                round_trip(session)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(use, pair, range(2), timeout=60))
