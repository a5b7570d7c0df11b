"""Copies that can be proved: whatever a copy does wrong is found, in each direction and pair."""

import pytest
from worlds import gpu, noting, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.copies import BothWays, HostCopy, PairCopy
from gpumap.bench.ends import Ends

N = 5000


def cut(here, name, seed, nbytes=N):
    """Return both ends on one device."""
    return Ends(name, here.sessions[name], N, "pageable", (seed, 0)).cut(nbytes)


def verified(work):
    """Do a round once, from wrong to right, and return its check."""
    work.poison()
    work.queue()
    work.finish()
    return work.check()


def h2d(here, *, sync=True):
    """Copy to the first device."""
    return HostCopy([cut(here, "a", 1)], "h2d", sync=sync)


def d2h(here, *, sync=True):
    """Copy from the first device."""
    return HostCopy([cut(here, "a", 1)], "d2h", sync=sync)


def d2d(here, *, sync=True):
    """Copy from the first device to the second."""
    return PairCopy(cut(here, "a", 1), cut(here, "b", 2), sync=sync)


WAYS = [(h2d, "upload"), (d2h, "download"), (d2d, "copy")]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(("way", "command"), WAYS)
def test_a_right_copy_passes(way, command, sync):
    """All its bytes are compared."""
    del command
    check = verified(way(world(gpu(0), gpu(1)), sync=sync))
    assert (check.passed, check.nbytes, check.first_bad_offset) == (True, N, None)


@pytest.mark.parametrize(
    ("fault", "offset"), [("flip", N // 2 | 7), ("short", N - 1), ("nothing", None)]
)
@pytest.mark.parametrize("features", [("kernels",), ()])
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(("way", "command"), WAYS)
def test_a_wrong_copy_is_found(way, command, sync, features, fault, offset):
    """A flipped byte, a missing last byte, a copy that moves nothing: the first wrong byte."""
    here = world(gpu(0, fault=fault, fault_in=command, features=features), gpu(1))
    check = verified(way(here, sync=sync))
    assert not check.passed
    assert offset in (None, check.first_bad_offset)


@pytest.mark.parametrize(("way", "command"), WAYS)
def test_a_copy_that_goes_wrong_only_later_is_found_by_the_last_look(way, command):
    """What was right at first may be wrong after a thousand rounds."""
    here = world(gpu(0, fault="flip", fault_in=command, fault_after=100), gpu(1))
    work = way(here)
    assert verified(work).passed
    for _ in range(100):
        work.queue()
    work.finish()
    assert not work.check().passed


def test_both_ways_checks_both():
    """The upload on one queue, the download on another."""
    here = world(gpu(0), gpu(0))
    work = BothWays(cut(here, "a", 1), cut(here, "b", 2))
    check = verified(work)
    assert (check.passed, check.nbytes) == (True, 2 * N)


@pytest.mark.parametrize("command", ["upload", "download"])
def test_both_ways_finds_what_one_way_does_wrong(command):
    """Either of them."""
    here = world(gpu(0, fault="nothing", fault_in=command, fault_after=4), gpu(0))
    back = world(gpu(0, fault="nothing", fault_in=command, fault_after=4))
    work = BothWays(cut(here, "a", 1), cut(back, "a", 2))
    for _ in range(8):
        work.queue()
    assert not verified(work).passed


def test_rounds_that_share_their_memory_do_not_spoil_each_others_check():
    """Another round came after: then this one copies once more before it looks."""
    here = world(gpu(0), gpu(1))
    a, b = cut(here, "a", 1), cut(here, "b", 2)
    up, over = HostCopy([b], "h2d", sync=True), PairCopy(a, b, sync=True)
    assert verified(up).passed
    assert verified(over).passed
    assert up.check().passed
    assert over.check().passed


def test_the_route_is_what_the_session_says():
    """Known when a copy was made, not before."""
    here = world(gpu(0), gpu(1))
    work = d2d(here)
    assert work.route is None
    work.queue()
    assert work.route == "peer"


def test_sync_waits_after_each_round_and_queued_after_all():
    """On a device whose host time is nothing, the clock shows when it was waited for."""
    here = world(gpu(0, latency=1.0), gpu(1))
    a = cut(here, "a", 1)
    start = here.clock.now()
    HostCopy([a], "h2d", sync=False).queue(rounds=3)
    assert here.clock.now() == start
    here.sessions["a"].synchronize()
    queued = here.clock.now() - start
    HostCopy([a], "h2d", sync=True).queue(rounds=3)
    assert here.clock.now() - start == pytest.approx(2 * queued)


def test_a_cut_is_the_first_bytes():
    """Sizes of a ladder share one piece of memory."""
    here = world(gpu(0))
    ends = Ends("a", here.sessions["a"], N, "pageable", (1, 0))
    small = ends.cut(64)
    assert (small.source.size, small.buffer.nbytes, small.landing.size) == (64, 64, 64)
    assert small.source.base is not None
    assert verified(HostCopy([small], "h2d", sync=True)).nbytes == 64


def test_a_copy_that_moves_nothing_is_found_though_another_left_the_same_bytes():
    """Two rounds of one source and one place: what came last is not taken for one's own."""
    here = world(gpu(0))
    place = cut(here, "a", 1)
    one, other = (HostCopy([place], "h2d", sync=sync) for sync in (True, False))
    assert verified(one).passed
    other.queue()
    other.finish()
    one._copy = lambda *_: None
    assert not one.check().passed


def test_both_devices_of_a_pair_are_waited_for():
    """The target's queue may be behind that of the source."""
    kind, heard = noting("synchronize")
    work = d2d(world(gpu(0), gpu(1), kind=kind), sync=False)
    work.queue()
    heard.clear()
    work.finish()
    assert sorted(heard) == [("synchronize", "cuda:0"), ("synchronize", "cuda:1")]


class Flipping(FakeSession):
    """A session of which each upload, and each copy to another device, flips one byte."""

    def _flip(self, buffer):
        buffer.session.synchronize()
        buffer.native.reshape(-1)[N // 2] ^= 0x40

    def upload(self, source, target, repeat=1):
        """Upload, and flip it."""
        super().upload(source, target, repeat)
        self._flip(target)

    def copy(self, source, target, repeat=1):
        """Copy, and flip it back."""
        route = super().copy(source, target, repeat)
        self._flip(target)
        return route


def test_a_byte_that_two_copies_flip_is_found():
    """Up, and on to the other device: the target is right, and the source never was."""
    here = world(gpu(0), gpu(1), kind=Flipping)
    check = verified(d2d(here))
    assert (check.passed, check.first_bad_offset) == (False, N // 2)
