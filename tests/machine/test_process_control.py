"""Large pages: asked for whole pages alone, and for nothing small. Room: what limits leave."""

import mmap
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from large_pages import asked_for_large

from gpumap.machine.process_control import ask_for_large, pin, room_for

large = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel has no such pages"
)
MIB = 1 << 20


@large
@pytest.mark.parametrize("odd", [0, 1, 129])
def test_whole_pages_are_asked_for(odd):
    """From the first page that is all the caller's to the last one; its neighbours stay."""
    with mmap.mmap(-1, 16 * MIB) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        whole = np.frombuffer(memory, "uint8")
        address = int(whole.__array_interface__["data"][0]) + 4 * MIB
        del whole
        assert ask_for_large(address + odd, 8 * MIB)
        assert asked_for_large(address + 4 * MIB)
        assert asked_for_large(address + mmap.PAGESIZE)
        assert asked_for_large(address) == (odd == 0)
        assert not asked_for_large(address - 1)
        assert not asked_for_large(address + 8 * MIB + mmap.PAGESIZE)


@large
def test_little_memory_is_left_alone():
    """So is what is not mapped. Room takes nothing to ask for; no machine has an exbibyte."""
    assert not ask_for_large(0, 4 * MIB - 1)
    assert not ask_for_large(1 << 60, 4 * MIB)
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
