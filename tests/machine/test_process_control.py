"""Room: what limits leave. Pinning: the calling thread alone, on all processors or on none."""

import os
import threading

import pytest

from gpumap.machine.process_control import pin, room_for

MIB = 1 << 20


def test_room_takes_nothing_to_ask_for():
    """No machine has an exbibyte."""
    assert [room_for(nbytes) for nbytes in (16 * MIB, 1 << 60, 1 << 70)] == [True, False, False]


pins = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot pin here")


def in_thread(cpus):
    seen = []
    worker = threading.Thread(target=lambda: seen.extend((pin(cpus), os.sched_getaffinity(0))))
    worker.start()
    worker.join()
    return tuple(seen)


@pins
def test_only_the_calling_thread_is_pinned():
    before = os.sched_getaffinity(0)
    last = max(before)
    assert in_thread([last]) == (True, {last})
    assert os.sched_getaffinity(0) == before


@pins
@pytest.mark.parametrize("cpus", [[], [-1], [10**9], [2**80], [65000]])
def test_refused(cpus):
    """So is a set of which the kernel would silently keep a part."""
    before = os.sched_getaffinity(0)
    assert in_thread(cpus) == in_thread([*cpus, min(before), 900]) == (False, before)


@pins
def test_a_system_that_cannot_pin(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert pin([0]) is False
