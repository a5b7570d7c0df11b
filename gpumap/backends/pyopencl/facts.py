"""What an OpenCL driver says of a device, as far as its kernels are cut by it."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyopencl as cl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Feature

REGISTERS = (64, 32, 16)  # bytes of the vectors that processors have
LANES = 16  # numbers of a vector that a kernel works on, where the compiler makes do with it
_COMPILED_FOR: dict[tuple[str, ...], int] = {}  # to ask a compiler takes as long as a kernel
_BUILDING = threading.Lock()  # warnings are caught for the whole process, not for a thread
# A driver may know the processor's registers better than its compiler does: PoCL 3.0's wheel, with
# LLVM 14, compiles for a Zen 4 as for a Zen 3, but calls functions that were built for AVX-512, and
# ends the process at the first vector of 64 bytes. The compiler's macros tell what it compiles for;
# one that compiles for something in between (SPIR) has none of them.
_ASKED = """
#if !defined(__SSE2__) || defined(__AVX512F__)
__kernel void bytes64(void) {}
#elif defined(__AVX__)
__kernel void bytes32(void) {}
#else
__kernel void bytes16(void) {}
#endif
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a device decides how its work is cut."""

    processor: bool
    units: int  # cores that work side by side
    register: int  # bytes of the widest one that the compiler uses
    local: int  # bytes that a work-group has of its own
    cache: int  # bytes of the last one
    narrow: bool = False  # no vector may be wider than `register`: the compiler fails at it

    @classmethod
    def of(cls, native: Any, context: Any) -> Facts:
        """Return what a driver, and its compiler in a context, say of a device or a part of one.

        Raises:
            pyopencl.Error: it cannot compile.
        """
        processor = bool(native.type & cl.device_type.CPU)
        said = 4 * int(native.native_vector_width_float)  # of a driver without vectors 4 or 0
        register = max((size for size in REGISTERS if size <= said), default=min(REGISTERS))
        used = register
        if processor and register > min(REGISTERS):
            used = min(register, _compiled_for(native, context))
        return cls(
            processor,
            units=int(native.max_compute_units),
            register=used,
            local=int(native.local_mem_size),
            cache=int(native.global_mem_cache_size),
            narrow=used < register,
        )

    def lanes(self, itemsize: int) -> int:
        """Return how many numbers of that size a vector of an elementwise kernel has."""
        return min(LANES, self.register // itemsize) if self.narrow else LANES


def features(native: Any) -> frozenset[Feature]:
    """Return what a driver says that a device can do, without what must be tried."""
    extensions = native.extensions.split()
    has: dict[Feature, bool] = {
        "events": True,
        "kernels": True,
        "float64": "cl_khr_fp64" in extensions,
        "float16": "cl_khr_fp16" in extensions,
        "pinned": not native.host_unified_memory,
    }
    return frozenset(feature for feature, there in has.items() if there)


def _compiled_for(native: Any, context: Any) -> int:
    """Return the bytes of the widest register that a device's compiler uses."""
    key = (native.platform.name, native.name, native.driver_version)
    if key not in _COMPILED_FOR:
        program = built(context, native, _ASKED, [])
        _COMPILED_FOR[key] = int(program.kernel_names.removeprefix("bytes"))
    return _COMPILED_FOR[key]


def built(context: Any, native: Any, source: str, options: Sequence[str]) -> Any:
    """Return a program that is built for a device."""
    with _BUILDING, warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # a driver's chatter
        return cl.Program(context, source).build(list(options), [native], cache_dir=False)
