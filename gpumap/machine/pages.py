"""Memory of this process: whether there is more, and large pages of what nobody has written yet."""

from __future__ import annotations

import mmap

_LARGE = 4 << 20  # bytes, from which on it is worth a call; NumPy asks from there on, too


def ask_for_large(address: int, nbytes: int) -> bool:
    """Ask for large pages of memory of this process; return whether the kernel took it well.

    Only whole pages are asked for: what shares the first and the last one is somebody else's.
    """
    wish = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux alone
    if wish is None or not worth_asking(nbytes):
        return False
    import ctypes

    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (address + nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    done: int = madvise(start, stop - start, wish)
    return done == 0


def room_for(nbytes: int) -> bool:
    """Return whether this process could have so much more memory, as far as its limits tell."""
    try:
        mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, OverflowError):
        return False
    return True


def worth_asking(nbytes: int) -> bool:
    """Return whether so much memory is worth large pages."""
    return nbytes >= _LARGE
