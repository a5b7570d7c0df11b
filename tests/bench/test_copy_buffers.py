"""Buffers of a copy: known bytes, poison that is proved, and a comparison where the bytes are."""

import numpy as np
import pytest
from buffers import verified
from hypothesis import given
from hypothesis import strategies as st
from worlds import gpu, world

from gpumap.backends.fake import FakeSession
from gpumap.bench import verified_copies as module
from gpumap.bench.verified_copies import Buffers, Counter, HostCopy, PairCopy
from gpumap.kernels import KERNELS

N = 5000
SIZES = (1, 2, 64, 255, N)


class _Broken(FakeSession):
    """A device whose kernels and copies can be broken at any moment."""

    kernels = ()  # name -> what runs in its place, on NumPy arrays
    copies = ()  # "upload" or "download" -> what is done in its place
    fetched = ()  # bytes of each download

    def empty(self, shape, dtype):
        made = super().empty(shape, dtype)
        made.native.view("u1")[:] = 0xA5
        return made

    def run(self, kernel, *arguments, size):
        if kernel in self.kernels:
            natives = [a if isinstance(a, float) else a.native for a in arguments]
            self.kernels[kernel](*natives, size)
        else:
            super().run(kernel, *arguments, size=size)

    def upload(self, source, target, repeat=1):
        before = target.native.copy()
        super().upload(source, target, repeat)
        if "upload" in self.copies and target.dtype == "uint8":
            self.copies["upload"](target.native, before)

    def download(self, source, target, repeat=1):
        self.fetched = (*self.fetched, target.nbytes)
        before = target.copy()
        super().download(source, target, repeat)
        if "download" in self.copies:
            self.copies["download"](target, before)


def broken(nbytes=N, kind=_Broken, memory="pageable", script=None, before=None, **faults):
    session = world(script or gpu(0), kind=kind).sessions["a"]
    session.copies = before or ()
    made = Buffers("a", session, nbytes, memory, (1, 0))
    session.kernels = {k: f for k, f in faults.items() if k in KERNELS}
    session.copies = before or {k: f for k, f in faults.items() if k not in KERNELS}
    return made


def pair():
    here = world(gpu(0), gpu(1), kind=_Broken)
    return [
        Buffers(name, here.sessions[name], N, "pageable", (1, n)) for n, name in enumerate("ab")
    ]


def d2h(buffers):
    return HostCopy([buffers.part(N)], "d2h", sync=True)


def spoilt(work, buffers, kernels=None, **copies):
    """Do an iteration from wrong to right with broken copies and kernels; return its check."""
    work.poison()
    buffers.session.copies = copies
    if kernels:
        buffers.session.kernels = kernels
    work.queue()
    work.finish()
    return work.check()


def h2d(buffers, nbytes=N):
    return HostCopy([buffers.part(nbytes)], "h2d", sync=True)


def flipped(at):
    def flip(target, _before):
        if target.size > at:
            target[at] ^= 0x40

    return flip


def short(target, before):
    target[-1:] = before[-1:]


def nothing(target, before):
    target[...] = before


FAULTS = {"flip": flipped(0), "short": short, "nothing": nothing}
_shift, _differ = (KERNELS[name].reference for name in ("shift", "differ"))


def idle(*_arguments):
    """Do nothing."""


def half_shift(out, source, value, size):
    _shift(out[: size // 2], source[: size // 2], value)


def no_shift(out, source, _value, size):
    out[:size] = source[:size]


def half_differ(a, b, counter, size):
    _differ(a[: size // 2], b[: size // 2], counter)


def last_differ(a, b, counter, size):
    _differ(a[size - 1 : size], b[size - 1 : size], counter)


def all_differ(_a, _b, counter, size):
    counter += np.uint32(size)


def one_differs(_a, _b, counter, _size):
    counter += np.uint32(1)


KERNEL_FAULTS = [
    {"shift": idle}, {"shift": half_shift}, {"shift": no_shift},
    {"differ": idle}, {"differ": half_differ}, {"differ": last_differ}, {"differ": all_differ},
    {"differ": one_differs}, {"fill": idle},
    {"shift": idle, "differ": idle, "fill": idle}, {"shift": idle, "differ": one_differs},
    {"shift": half_shift, "differ": half_differ, "fill": idle},
]  # fmt: skip


def label(faults):
    return "+".join(f"{kernel}-{fault.__name__}" for kernel, fault in faults.items())


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("faults", KERNEL_FAULTS, ids=label)
def test_no_broken_kernel_hides_a_wrong_copy(faults, fault, nbytes):
    """Though right bytes are still there; and a right copy passes whatever the kernels do."""
    buffers = broken(**faults)
    work = h2d(buffers, nbytes)
    assert verified(work).passed
    check = spoilt(work, buffers, upload=FAULTS[fault])
    assert not check.passed
    assert check.first_bad_offset == (nbytes - 1 if fault == "short" else 0)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("copy", ["upload", "download"])
def test_a_fault_that_was_always_there_is_found(copy, fault):
    """Also one that makes the device's own copy as wrong as what is compared with it."""
    buffers = broken(before={copy: FAULTS[fault]})
    check = verified(h2d(buffers))
    assert (buffers.proved, check.passed) == (False, False)
    assert check.first_bad_offset == (N - 1 if fault == "short" else 0)


def test_right_bytes_that_were_there_before_do_not_help_a_copy_that_moves_nothing():
    """Memory is given out again with what it held; a poison that is uploaded would move nothing."""
    buffers = broken(before={"upload": nothing})
    buffers.buffer.native[:] = buffers.source
    assert not verified(h2d(buffers)).passed
    assert not broken(kind=_Remembering, before={"download": nothing}).proved


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("faults", [{}, {"shift": idle}, {"shift": no_shift}], ids=label)
def test_a_pair_is_poisoned_though_a_kernel_does_nothing(faults, nbytes):
    """The last byte is looked at: without that, an earlier copy's right bytes would stay."""
    a, b = pair()
    work = PairCopy(a.part(nbytes), b.part(nbytes), sync=True)
    assert verified(work).passed
    b.session.kernels = faults
    work.poison()
    wrong = b.buffer.native[:nbytes] != a.source[:nbytes]
    assert wrong[-1]
    assert wrong.mean() > 0.95
    assert not work.check().passed


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("differ", [idle, all_differ])
def test_a_kernel_that_breaks_after_the_poison_hides_nothing(differ, fault, nbytes):
    """The byte behind the end is still wrong: who does not see it saw no other."""
    buffers = broken()
    work = h2d(buffers, nbytes)
    assert verified(work).passed
    assert not spoilt(work, buffers, {"differ": differ}, upload=FAULTS[fault]).passed


@given(st.sets(st.integers(0, 299), min_size=1), st.integers(1, 255))
def test_any_wrong_byte_is_found_and_the_first_is_named(places, change):
    buffers = broken(nbytes=300)

    def flip(target, _before):
        target[sorted(places)] ^= change

    check = spoilt(h2d(buffers, 300), buffers, upload=flip)
    assert (check.passed, check.first_bad_offset) == (False, min(places))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_count_that_does_not_come_back_right_is_no_proof(fault):
    """The download may be what is broken: then everything is fetched, and found wrong."""
    buffers = broken()
    work = h2d(buffers)
    assert verified(work).passed
    assert not spoilt(work, buffers, download=FAULTS[fault]).passed


def test_four_bytes_come_back():
    buffers = broken()
    work = h2d(buffers)
    work.poison()
    work.queue()
    buffers.session.fetched = ()
    assert work.check().passed
    assert buffers.session.fetched == (4,)
    work.queue()
    buffers.buffer.native[7] ^= 1
    assert work.check().first_bad_offset == 7
    assert buffers.session.fetched == (4, 4, N)


def test_a_landing_that_served_a_check_is_not_a_downloads_any_more():
    """Where the device compares it is left alone."""
    buffers = broken(script=gpu(0, features=()))
    down = d2h(buffers)
    assert verified(down).passed
    h2d(buffers).poison()
    assert (buffers.destination[:N] != buffers.source[:N]).any()
    assert down.check().passed
    buffers = broken()
    down = d2h(buffers)
    assert verified(down).passed
    answer = buffers.destination.copy()
    assert verified(h2d(buffers)).passed
    assert (buffers.destination == answer).all()
    assert down.check().passed


@pytest.mark.parametrize("wrong", [(), (0,), (99, 100, 299), tuple(range(300))])
def test_what_is_too_much_for_a_counter_is_counted_in_parts(monkeypatch, wrong):
    monkeypatch.setattr(module, "COUNTS", 100)
    session = world(gpu(0)).sessions["a"]
    a, b = (session.empty((300,), "uint8") for _ in range(2))
    a.native[:] = b.native[:] = 3
    b.native[list(wrong)] = 4
    assert Counter(session).count(a, b, 300) == len(wrong)


def test_an_answer_that_is_lost_is_no_number(monkeypatch):
    """Of any part: a sum of the others would look like one."""
    monkeypatch.setattr(module, "COUNTS", 100)
    session = world(gpu(0), kind=_Broken).sessions["a"]
    a = session.empty((300,), "uint8")
    session.copies = {"download": nothing}
    assert Counter(session).count(a, a, 300) == -1


class _Remembering(_Broken):
    """A device whose host memory holds already what a destination should get."""

    def host(self, shape, dtype, memory):
        made = super().host(shape, dtype, memory)
        made[:] = np.random.default_rng((1, 0)).integers(0, 256, made.size, dtype=np.uint8)
        return made


@pytest.mark.parametrize("place", [0, 99, 100, 250, 299])
def test_a_wrong_byte_is_named_by_its_place_in_the_whole_copy(monkeypatch, place):
    """Not by that in the part which is compared at a time."""
    monkeypatch.setattr(module, "_PART", 100)
    buffers = broken(nbytes=300)
    assert spoilt(h2d(buffers, 300), buffers, upload=flipped(place)).first_bad_offset == place


@pytest.mark.parametrize("apart", [0x55, 0xAA, 0])
def test_the_last_byte_of_a_pair_is_wrong_whatever_both_have_there(apart):
    """What is added to the target's own byte must not make it the source's."""
    a, b = pair()
    b.source[63] = b.device_copy.native[63] = (int(a.source[63]) - apart) % 256
    b.part(64).poison(a.source[:64])
    assert b.buffer.native[63] != a.source[63]


def test_bytes_of_an_earlier_check_do_not_help_a_fetch_that_brings_nothing():
    buffers = broken()
    assert verified(d2h(buffers)).passed
    assert not spoilt(h2d(buffers), buffers, upload=flipped(0), download=nothing).passed


def lost_byte(target, before):
    """Lose the answer about one byte, and no count."""
    if target.size == 1 and target.dtype == np.uint8:
        target[...] = before


def test_an_answer_about_the_last_byte_that_is_lost_proves_no_poison():
    """Here no byte was made wrong, and a count says that all were."""
    buffers = broken(shift=idle, differ=all_differ, download=lost_byte)
    part = buffers.part(64)
    part.poison(buffers.source[:64])
    assert not part._planted
