"""Copies that can be proved: whatever a copy does wrong is found, in each direction and pair.

Their buffers have known bytes, poison that is looked at, and a comparison of all bytes.
"""

import os
from functools import partial

import numpy as np
import pytest
from buffers import verified
from sessions import opened
from worlds import SETTINGS, copies_on, dot_on, gpu, noting, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench import verified_copies as module
from gpumap.bench.dot import Params
from gpumap.bench.verified_copies import BothWays, Buffers, HostCopy, PairCopy
from gpumap.model import replace

N = 5000


def part(here, name, seed):
    return Buffers(name, here.sessions[name], N, "pageable", (seed, 0)).part(N)


WAYS = {"upload": "h2d", "download": "d2h", "copy": "d2d"}


def copying(here, command, *, sync=True):
    one = part(here, "a", 1)
    if command == "copy":
        return PairCopy(one, part(here, "b", 2), sync=sync)
    return HostCopy([one], WAYS[command], sync=sync)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("command", WAYS)
def test_a_right_copy_passes(command, sync):
    """All its bytes are compared; of a pair the route is known when a copy was made, not before."""
    work = copying(world(gpu(0), gpu(1)), command, sync=sync)
    assert work.route is None
    check = verified(work)
    assert (check.passed, check.nbytes, check.first_bad_offset) == (True, N, None)
    assert work.route == ("peer" if command == "copy" else None)


@pytest.mark.parametrize(
    ("fault", "offset"), [("flip", N // 2 | 7), ("short", N - 1), ("nothing", None)]
)
@pytest.mark.parametrize("features", [("kernels",), ()])
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("command", WAYS)
def test_a_wrong_copy_is_found(command, sync, features, fault, offset):
    """A flipped byte, a missing last byte, a copy that moves nothing: the first wrong byte."""
    here = world(gpu(0, fault=fault, fault_in=command, features=features), gpu(1))
    check = verified(copying(here, command, sync=sync))
    assert not check.passed
    assert offset in (None, check.first_bad_offset)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no thread")
@pytest.mark.parametrize(("sync", "count"), [(True, 1), (True, 2), (False, 1)])
def test_copies_to_one_core_are_called_and_waited_for_from_it(sync, count, monkeypatch):
    """From another one each wait wakes it. Afterwards the caller runs where it did."""
    before = os.sched_getaffinity(0)
    with opened(*["numpy"] * count) as sessions:
        buffers = [Buffers("a", each, N, "pageable", (1, 0)).part(N) for each in sessions]
        work = HostCopy(buffers, "h2d", sync=sync)
        work.renew()
        places, wait = [], sessions[0].synchronize
        monkeypatch.setattr(
            sessions[0], "synchronize", lambda: places.append(os.sched_getaffinity(0)) or wait()
        )
        work.queue()
        work.finish()
        assert places == [{*sessions[0].device.cores} if count == 1 else before]
        assert os.sched_getaffinity(0) == before
        assert verified(work).passed


@pytest.mark.parametrize("command", [None, "upload", "download"])
def test_both_ways_checks_both(command):
    fault = {"fault": "nothing", "fault_in": command, "fault_after": 4} if command else {}
    here, back = world(gpu(0, **fault), gpu(0)), world(gpu(0, **fault))
    work = BothWays(part(here, "a", 1), part(back, "a", 2))
    work.queue(iterations=8)
    check = verified(work)
    assert check.passed == (command is None)
    assert check.nbytes == 2 * N or command


def test_sync_waits_after_each_iteration_and_queued_after_all():
    here = world(gpu(0, latency=1.0), gpu(1))
    a = part(here, "a", 1)
    start = here.clock.now()
    HostCopy([a], "h2d", sync=False).queue(iterations=3)
    assert here.clock.now() == start
    here.sessions["a"].synchronize()
    queued = here.clock.now() - start
    HostCopy([a], "h2d", sync=True).queue(iterations=3)
    assert here.clock.now() - start == pytest.approx(2 * queued)


def test_a_copy_that_moves_nothing_is_found_though_another_left_the_same_bytes():
    here = world(gpu(0))
    place = part(here, "a", 1)
    one, other = (HostCopy([place], "h2d", sync=sync) for sync in (True, False))
    assert [one.check().passed, other.check().passed] == [True, True]
    one._copy = lambda *_: None
    assert not one.check().passed


def test_both_devices_of_a_pair_are_waited_for():
    kind, heard = noting("synchronize")
    work = copying(world(gpu(0), gpu(1), kind=kind), "copy", sync=False)
    work.queue()
    heard.clear()
    work.finish()
    assert sorted(heard) == [("synchronize", "cuda:0"), ("synchronize", "cuda:1")]


class Late(FakeSession):
    """A device that does what it was given when it is waited for, and nothing before."""

    def __init__(self, *given):
        super().__init__(*given)
        self.queued, self.fetched = [], []  # and the bytes of each copy to the host
        for name in ("upload", "download", "copy", "gemm", "run"):
            setattr(self, name, partial(self._later, name))

    def _later(self, name, *arguments, **others):
        if name == "download":
            self.fetched.append(arguments[1].nbytes)
        self.queued.append(partial(getattr(FakeSession, name), self, *arguments, **others))
        return "peer"

    def synchronize(self):
        queued, self.queued = self.queued, []
        for work in queued:
            work()
        super().synchronize()


@pytest.mark.parametrize("features", [("kernels", "pinned"), ()])
@pytest.mark.parametrize(
    "benchmark", [partial(dot_on, params=Params((300,))), lambda here: copies_on(here, 400, 5000)]
)
def test_every_case_is_right_though_its_device_is_late(benchmark, features):
    here = world(gpu(0, features=features), gpu(1, features=features), kind=Late)
    rows = rows_on(here, benchmark(here), replace(SETTINGS, blocks=2))
    assert {r.case.id: r.reason for r in rows if r.status != "ok" and not r.case.skip} == {}
    assert any(row.status == "ok" for row in rows)


def test_the_poison_and_the_bytes_of_a_late_device_are_waited_for():
    """Both are fetched whole: what had not come would be no poison, and no copy."""
    here = world(gpu(0), kind=Late)
    assert verified(copying(here, "upload")).passed
    assert here.sessions["a"].fetched == [N, N]


class _Broken(FakeSession):
    def __init__(self, *given):
        super().__init__(*given)
        self.copies = {}  # "upload", "download" or "copy" -> what is done in its place
        for name in ("upload", "download", "copy"):
            setattr(self, name, partial(self._broken, name))

    def empty(self, shape, dtype):
        made = super().empty(shape, dtype)
        made.native.view("u1")[:] = 0xA5
        return made

    def _broken(self, name, source, target, repeat=1):
        there = getattr(target, "native", target)
        before = there.copy()
        route = getattr(FakeSession, name)(self, source, target, repeat)
        if name in self.copies:
            self.copies[name](there, before)
        return route


def broken(nbytes=N, kind=_Broken, **copies):
    session = world(gpu(0), kind=kind).sessions["a"]
    session.copies = copies
    return Buffers("a", session, nbytes, "pageable", (1, 0))


def h2d(buffers, nbytes=N):
    return HostCopy([buffers.part(nbytes)], "h2d", sync=True)


def nothing(target, before):
    target[...] = before


def test_a_byte_that_two_copies_flip_is_found():
    """Up, and on to the other device: the target is right, and the source never was."""

    def flip(target, _before):
        target[N // 2] ^= 0x40

    here = world(gpu(0), gpu(1), kind=_Broken)
    here.sessions["a"].copies = {"upload": flip, "copy": flip}
    check = verified(copying(here, "copy"))
    assert (check.passed, check.first_bad_offset) == (False, N // 2)


def test_right_bytes_that_were_there_before_do_not_help_a_copy_that_moves_nothing():
    """Memory is given out again with what it held; a poison that is uploaded would move nothing."""
    buffers = broken(upload=nothing)
    buffers.buffer.native[:] = buffers.source
    assert not verified(h2d(buffers)).passed
    assert broken(kind=_Remembering, download=nothing).wrong_at == 0


@pytest.mark.parametrize("nbytes", [1, 2, 64, 255, N])
def test_every_byte_of_a_pair_is_poisoned(nbytes):
    """An earlier copy's right bytes are there: one that does nothing must not pass by them."""
    here = world(gpu(0), gpu(1), kind=_Broken)
    a, b = (Buffers(key, here.sessions[key], N, "pageable", (1, n)) for n, key in enumerate("ab"))
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

    def flipped(target, _before):
        target[[*places]] ^= 0x40

    buffers = broken(nbytes=300, upload=flipped)
    check = h2d(buffers, 300).check()
    assert (check.passed, check.first_bad_offset) == (False, places[0])
