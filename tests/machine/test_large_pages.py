"""Large pages: asked for whole pages alone, and for nothing small. Room: what limits leave."""

import mmap
from pathlib import Path

import numpy as np
import pytest
from large_pages import asked_for_large

from gpumap.machine.numa import ask_for_large, room_for

pytestmark = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel has no such pages"
)
MIB = 1 << 20


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


def test_little_memory_is_left_alone():
    """So is what is not mapped. Room takes nothing to ask for; no machine has an exbibyte."""
    assert not ask_for_large(0, 4 * MIB - 1)
    assert not ask_for_large(1 << 60, 4 * MIB)
    assert [room_for(nbytes) for nbytes in (16 * MIB, 1 << 60, 1 << 70)] == [True, False, False]
