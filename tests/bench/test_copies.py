"""Copies that can be proved: whatever a copy does wrong is found, in each direction and pair."""

import os
from contextlib import ExitStack
from functools import partial

import pytest
from buffers import verified
from worlds import SETTINGS, copies_on, dot_on, gpu, noting, rows_on, world

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.fake import FakeSession
from gpumap.bench.dot import Params
from gpumap.bench.verified_copies import BothWays, Buffers, HostCopy, PairCopy
from gpumap.machine import topology
from gpumap.model import replace

N = 5000


def part(here, name, seed, nbytes=N):
    return Buffers(name, here.sessions[name], N, "pageable", (seed, 0)).part(nbytes)


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
    if command == "copy":
        assert work.route is None
    check = verified(work)
    assert (check.passed, check.nbytes, check.first_bad_offset) == (True, N, None)
    if command == "copy":
        assert work.route == "peer"


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
    host = Host(dict(os.environ), topology.read())
    backend, before = load("numpy", host), os.sched_getaffinity(0)
    cores = [d for d in backend.probe().devices if d.ref.index is not None]
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(backend.open(cores[0], backend.clock())) for _ in range(count)
        ]
        buffers = [Buffers("a", each, N, "pageable", (1, 0)).part(N) for each in sessions]
        work = HostCopy(buffers, "h2d", sync=sync)
        work.renew()
        places, wait = [], sessions[0].synchronize
        monkeypatch.setattr(
            sessions[0], "synchronize", lambda: places.append(os.sched_getaffinity(0)) or wait()
        )
        work.queue()
        work.finish()
        assert places == [{*cores[0].cores} if count == 1 else before]
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


class _Flipping(FakeSession):
    """A session: each upload to the first device, and each copy to another one, flips a byte."""

    def _flip(self, buffer):
        buffer.session.synchronize()
        buffer.native.reshape(-1)[N // 2] ^= 0x40

    def upload(self, source, target, repeat=1):
        super().upload(source, target, repeat)
        if self.device.ref.index == 0:
            self._flip(target)

    def copy(self, source, target, repeat=1):
        route = super().copy(source, target, repeat)
        self._flip(target)
        return route


def test_a_byte_that_two_copies_flip_is_found():
    """Up, and on to the other device: the target is right, and the source never was."""
    check = verified(copying(world(gpu(0), gpu(1), kind=_Flipping), "copy"))
    assert (check.passed, check.first_bad_offset) == (False, N // 2)


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
    session = world(gpu(0), kind=Late).sessions["a"]
    work = HostCopy([Buffers("a", session, N, "pageable", (1, 0)).part(N)], "h2d", sync=True)
    assert verified(work).passed
    assert session.fetched == [N, N]
