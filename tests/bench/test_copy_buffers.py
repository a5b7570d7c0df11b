"""Buffers of a copy: known bytes, poison that is looked at, and a comparison of all bytes."""

import numpy as np
import pytest
from buffers import verified
from worlds import gpu, world

from gpumap.backends.fake import FakeSession
from gpumap.bench import verified_copies as module
from gpumap.bench.verified_copies import Buffers, HostCopy, PairCopy

N = 5000
SIZES = (1, 2, 64, 255, N)


class _Broken(FakeSession):
    """A device whose copies can be broken at any moment."""

    copies = ()  # "upload" or "download" -> what is done in its place
    fetched = ()  # bytes of each download

    def empty(self, shape, dtype):
        made = super().empty(shape, dtype)
        made.native.view("u1")[:] = 0xA5
        return made

    def upload(self, source, target, repeat=1):
        before = target.native.copy()
        super().upload(source, target, repeat)
        if "upload" in self.copies:
            self.copies["upload"](target.native, before)

    def download(self, source, target, repeat=1):
        self.fetched = (*self.fetched, target.nbytes)
        before = target.copy()
        super().download(source, target, repeat)
        if "download" in self.copies:
            self.copies["download"](target, before)


def broken(nbytes=N, kind=_Broken, **copies):
    session = world(gpu(0), kind=kind).sessions["a"]
    session.copies = copies
    return Buffers("a", session, nbytes, "pageable", (1, 0))


def pair():
    here = world(gpu(0), gpu(1), kind=_Broken)
    return [
        Buffers(name, here.sessions[name], N, "pageable", (1, n)) for n, name in enumerate("ab")
    ]


def h2d(buffers, nbytes=N):
    return HostCopy([buffers.part(nbytes)], "h2d", sync=True)


def flipped(*places):
    def flip(target, _before):
        target[[*places]] ^= 0x40

    return flip


def nothing(target, before):
    target[...] = before


def test_right_bytes_that_were_there_before_do_not_help_a_copy_that_moves_nothing():
    """Memory is given out again with what it held; a poison that is uploaded would move nothing."""
    buffers = broken(upload=nothing)
    buffers.buffer.native[:] = buffers.source
    assert not verified(h2d(buffers)).passed
    assert broken(kind=_Remembering, download=nothing).wrong_at == 0


@pytest.mark.parametrize("nbytes", SIZES)
def test_every_byte_of_a_pair_is_poisoned(nbytes):
    """An earlier copy's right bytes are there: one that does nothing must not pass by them."""
    a, b = pair()
    work = PairCopy(a.part(nbytes), b.part(nbytes), sync=True)
    assert verified(work).passed
    work.spoil()
    assert (b.buffer.native[:nbytes] != a.source[:nbytes]).all()


def test_a_fetch_that_brings_no_poison_proves_none():
    """What was sent as poison is still on the host, and right bytes may be on the device."""
    buffers = broken()
    work = h2d(buffers)
    buffers.session.copies = {"upload": nothing, "download": nothing}
    work.spoil()
    buffers.session.copies = {}
    buffers.buffer.native[:] = buffers.source
    assert not work.compare().passed


@pytest.mark.parametrize("places", [(0,), (2500,), (N - 1,)])
def test_poison_that_is_right_anywhere_proves_no_copy(places):
    """What was right before would be right after a copy that leaves it out."""
    buffers = broken()

    def right(target, _before):
        target[[*places]] = buffers.source[[*places]]

    work = h2d(buffers)
    buffers.session.copies = {"upload": right}
    assert (verified(work).passed, work.check().first_bad_offset) == (False, places[0])
    buffers.session.copies = {}
    assert verified(work).passed


class _Remembering(_Broken):
    """A device whose host memory holds already what a destination should get."""

    def host(self, shape, dtype, memory):
        made = super().host(shape, dtype, memory)
        made[:] = np.random.default_rng((1, 0)).integers(0, 256, made.size, dtype=np.uint8)
        return made


@pytest.mark.parametrize("places", [(0,), (99,), (100,), (250, 299), (299,), range(300)])
def test_the_first_wrong_byte_is_named_by_its_place_in_the_whole_copy(monkeypatch, places):
    """Not by that in the part which is compared at a time."""
    monkeypatch.setattr(module, "_PART", 100)
    buffers = broken(nbytes=300)
    buffers.session.copies = {"upload": flipped(*places)}
    check = h2d(buffers, 300).check()
    assert (check.passed, check.first_bad_offset) == (False, places[0])
