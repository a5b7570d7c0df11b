"""The number of threads that BLAS works with, which belongs to the whole process.

Nested limits restore wrongly, so there is one owner: the first session sets the limit to 1, the
last one lifts it, and who wants all cores for a moment asks here.

The arithmetic peak of a core: multiply-adds on registers alone, in a loop of machine code.

Nothing of Python's or NumPy's comes near it, and what a system tells of its clock is not what the
core runs at. So the loop is assembled here, for x86-64 with AVX2 or AVX-512: twelve sums in
registers, more than latency times ports of any core so far, so that only the units limit it.
Encodings: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, 2.3 (VEX), 2.7
(EVEX) and the pages of VFMADD231PS, VMOVUPS and VZEROUPPER. Source of the method: Dolbeau,
"Theoretical peak FLOPS per instruction set", J. Supercomputing 2018.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.machine import topology
from gpumap.machine.topology import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SUMS = 12  # registers 0 to 11 are summed into, 12 and 13 are the factors
_UNROLLED = 8  # multiply-adds of each sum in a turn of the loop: counting costs little
_TURNS = 2000
_LOOKS = 200  # the quickest is the one in which no other process had the core
_WARM = 5
_lock = threading.Lock()
_holders = 0
_limit: Any = None


@dataclass(frozen=True, slots=True)
class Vectors:
    """The widest vectors that a core multiplies and adds in one instruction."""

    name: str
    nbytes: int

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of a size go into one."""
        return self.nbytes // itemsize


def vectors() -> Vectors | None:
    """Return the vectors of this machine; None where the loop cannot be assembled for it."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        return None
    flags = topology.flags(Tree(Path("/")))
    if "avx512f" in flags:
        return Vectors("AVX-512", 64)
    return Vectors("AVX2", 32) if {"avx2", "fma"} <= flags else None


def peak(itemsize: int) -> float | None:
    """Return the FLOP/s of the core that runs this thread, for elements of 4 or 8 bytes.

    Takes about 5 ms. None where the loop cannot be run: another processor, or a system that
    forbids new machine code (SELinux, hardened kernels).
    """
    wide = vectors()
    run = _loop(wide.nbytes, itemsize) if wide else None
    if wide is None or run is None:
        return None
    operations = 2 * wide.lanes(itemsize) * _SUMS * _UNROLLED * _TURNS
    seconds = []
    for _ in range(_WARM + _LOOKS):
        start = time.perf_counter()
        run(_TURNS)
        seconds.append(time.perf_counter() - start)
    return operations / min(seconds[_WARM:])


@cache
def _loop(nbytes: int, itemsize: int) -> Callable[[int], None] | None:
    """Return the loop as a function of its turns."""
    import numpy as np

    # values near one: zeros cost a processor less than numbers do
    values = np.random.default_rng(1).uniform(0.5, 1.5, (_SUMS + 2) * nbytes // itemsize)
    registers = values.astype(f"f{itemsize}")
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(_assembled(nbytes, itemsize))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    function = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)(address)
    pointer = ctypes.c_void_p(registers.ctypes.data)
    kept: Any = (code, registers)  # as long as the function lives

    def run(turns: int, _kept: Any = kept) -> None:
        function(turns, pointer)

    return run


def _assembled(nbytes: int, itemsize: int) -> bytes:
    """Return ``f(turns in rdi, registers in rsi)``."""
    long = nbytes == 64  # noqa: PLR2004 - bytes of AVX-512
    double = itemsize == 8  # noqa: PLR2004 - bytes of a float64
    loads = (_encoded((0x10, 1, 0), r, 0, 6, long=long, at=r * nbytes) for r in range(_SUMS + 2))
    operation = (0xB8, 2, 1 | double << 7)
    turn = (_encoded(operation, r, _SUMS, _SUMS + 1, long=long) for r in range(_SUMS))
    body = b"".join(turn) * _UNROLLED + b"\x48\xff\xcf"  # dec rdi
    back = -(len(body) + 6)
    jump = b"\x0f\x85" + back.to_bytes(4, "little", signed=True)  # jnz
    return b"".join(loads) + body + jump + b"\xc5\xf8\x77\xc3"  # vzeroupper, ret


def _encoded(
    operation: tuple[int, int, int], reg: int, second: int, rm: int, *, long: bool,
    at: int | None = None,
) -> bytes:  # fmt: skip
    """Return an instruction: its code, table and prefix on 512-bit (EVEX) or 256-bit registers.

    `rm` is a register or, with `at`, holds an address that the operand is `at` bytes behind.
    """
    code, table, prefix = operation
    high_rm = 0 if at is not None else rm >> 3
    first = (1 - (reg >> 3)) << 7 | 1 << 6 | (1 - high_rm) << 5 | table
    middle = (~second & 15) << 3 | 1 << 2 | prefix
    lead = (0x62, first | 1 << 4, middle, 0x48) if long else (0xC4, first, middle)
    operands = (reg & 7) << 3 | rm & 7
    if at is None:
        return bytes((*lead, code, 0xC0 | operands))
    return bytes((*lead, code, 0x80 | operands)) + at.to_bytes(4, "little")


def hold() -> None:
    """Let each product run on the thread that calls it, until `release`."""
    from threadpoolctl import ThreadpoolController

    global _holders, _limit
    with _lock:
        if _limit is None:
            _limit = ThreadpoolController().limit(limits=1, user_api="blas")
        _holders += 1


def release() -> None:
    """Give BLAS its threads back, if no one else holds them."""
    global _holders, _limit
    with _lock:
        _holders -= 1
        if _holders == 0:
            limit, _limit = _limit, None
            limit.restore_original_limits()


class Cores:
    """BLAS on as many threads as the program may use cores: what a product of the host's own has.

    Finding the loaded libraries takes a millisecond, so a `Cores` is made once and entered often.
    """

    def __init__(self, threads: int) -> None:
        from threadpoolctl import ThreadpoolController

        self._threads = threads
        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers

    @contextmanager
    def all(self) -> Iterator[None]:
        """Lift the limit inside the `with`; what else multiplies then would use all cores too."""
        before = [library.get_num_threads() for library in self._libraries]
        self._set([self._threads] * len(before))
        try:
            yield  # without the lock: an interrupt here may leave this function standing
        finally:
            with _lock:
                self._set(before if _limit is None else [1] * len(before))

    def _set(self, threads: list[int]) -> None:
        for library, count in zip(self._libraries, threads, strict=True):
            library.set_num_threads(count)
