"""What an OpenCL driver says of a device, as far as its kernels are cut by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REGISTERS = (64, 32, 16)  # bytes of the vectors that processors have


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a device decides how its work is cut."""

    processor: bool
    units: int  # cores that work side by side
    register: int  # bytes of the widest one
    local: int  # bytes that a work-group has of its own
    cache: int  # bytes of the last one

    @classmethod
    def of(cls, native: Any) -> Facts:
        """Return what a driver says of a device, or of a part of one."""
        import pyopencl as cl

        processor = bool(native.type & cl.device_type.CPU)
        said = 4 * int(native.native_vector_width_float)  # of a driver without vectors 4 or 0
        register = max((size for size in REGISTERS if size <= said), default=min(REGISTERS))
        return cls(
            processor,
            units=int(native.max_compute_units),
            register=register,
            local=int(native.local_mem_size),
            cache=int(native.global_mem_cache_size),
        )
