"""Kernels that are built for a CUDA device and their launches, and how fast it can be at most."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumap.backends.base import Calls, NativeBuffer
from gpumap.backends.third_party import third_party_errors
from gpumap.errors import Unsupported
from gpumap.kernels import GROUP
from gpumap.model import Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.backends.third_party import Current
    from gpumap.dtypes import Arithmetic
    from gpumap.kernels import Kernel
    from gpumap.model import Device


_BLOCK = 256  # threads
_WORD = 8  # bytes
_TYPES = {"float32": "float", "float64": "double"}  # in CUDA C++


class CupyBuffer(NativeBuffer):
    """Memory of one session: a CuPy array, and the type that its elements really have.

    CuPy before 14 has no bfloat16; such an array holds its bits as uint16.
    """

    @property
    def address(self) -> int:
        """Return where the first element is, on the device."""
        return int(self.native.data.ptr)


class Kernels:
    """The kernels of one session, each built the first time that it is requested."""

    def __init__(self, device: Device, current: Current, stream: int, context: int) -> None:
        self._device, self._current = device, current
        self._stream, self._context = stream, context
        self._built: dict[tuple[Any, ...], Any] = {}

    def prepared(
        self, kernel: Kernel, dtype: str, calls: Calls, constants: Mapping[str, int]
    ) -> Callable[[], None]:
        """Return what queues calls of a kernel one after the other, and keeps the memory they use.

        A kernel's last argument is the size of the call.
        """
        launches = []
        with self._current:
            for given, size in calls:
                built = self._of(kernel, dtype, constants)
                packed = _packed((*given, np.uint64(size)))
                at = ctypes.addressof(packed)
                call = (built.ptr, *_grid(kernel, size), 0, self._stream, at, 0)
                launches.append((call, (built, packed, given)))
        return self._queueing(launches)

    def _queueing(self, launches: Sequence[tuple[Any, Any]]) -> Callable[[], None]:
        """Return what calls the driver once for each launch, in the device's context.

        A thread that has called no CUDA yet has none, and CuPy's `Device` gives it none.
        """
        from cupy.cuda import driver

        context, launch, set_current = self._context, driver.launchKernel, driver.ctxSetCurrent

        def queue() -> None:
            try:
                before = driver.ctxGetCurrent()
                try:
                    set_current(context)
                    for call, _used in launches:
                        launch(*call)
                finally:
                    set_current(before)
            except Exception:
                with third_party_errors(self._device):
                    raise

        return queue

    def clear(self) -> None:
        """Forget them all."""
        self._built.clear()

    def _of(self, kernel: Kernel, dtype: str, constants: Mapping[str, int]) -> Any:
        """Return a kernel, compiled by NVRTC."""
        import cupy

        key = (kernel.name, dtype, *constants.items())
        if key not in self._built:
            if dtype not in _TYPES:
                raise Unsupported(f"there are no kernels of {dtype} on {self._device.ref}")
            element = _TYPES[dtype]
            options = [f"-DELEMENT={element}", f"-DREAL={element}", f"-DGROUP={GROUP}"]
            options += [f"-D{constant}={value}" for constant, value in constants.items()]
            module = cupy.RawModule(code=kernel.text("cuda"), options=tuple(options))
            self._built[key] = module.get_function(kernel.name).kernel
        return self._built[key]


def _packed(arguments: Sequence[Any]) -> Any:
    """Return a kernel's parameters as CUDA reads them: the address of each value, then the values.

    A value has a word, of which the first bytes are its own; a buffer is where it is, and from
    which element on.
    """
    values: list[int] = []
    for value in arguments:
        if isinstance(value, CupyBuffer):
            values += [value.address, 0]  # a view's address is its own
        else:
            values.append(int.from_bytes(value.tobytes(), "little"))
    packed = (ctypes.c_uint64 * (2 * len(values)))()
    first = ctypes.addressof(packed) + _WORD * len(values)
    packed[:] = [*range(first, first + _WORD * len(values), _WORD), *values]
    return packed


def _grid(kernel: Kernel, size: int) -> tuple[int, ...]:
    """Return the blocks of a launch, and the threads of each, in three dimensions."""
    if kernel.group is None:
        return -(-size // _BLOCK), 1, 1, _BLOCK, 1, 1
    return kernel.parts(size), 1, 1, kernel.group, 1, 1


# Compute capability -> FLOP of one multiprocessor in one clock, dense, sums in 32 bits for narrow
# types. Sources: NVIDIA's whitepapers of A100 (2020), GA102 (2021), H100 (2022), Ada (2022), and
# the data sheets of A40 and L40S: their peak rates over multiprocessors and boost clock. Of 8.6 and
# 8.9 GeForce does half as much in narrow types as data-centre boards (A40: 149.7 TFLOP/s = 84 x
# 1024 x 1.74 GHz; L40S: 362 = 142 x 1024 x 2.49): the higher rate stands, as a ceiling must.
_PER_CLOCK: dict[tuple[int, int], dict[str, int]] = {
    (8, 0): {"float32": 128, "float64": 128, "tf32": 1024, "float16": 2048, "bfloat16": 2048},
    (8, 6): {"float32": 256, "float64": 4, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    (8, 9): {"float32": 256, "float64": 4, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    (9, 0): {"float32": 256, "float64": 256, "tf32": 2048, "float16": 4096, "bfloat16": 4096},
}


def peak(device: Device, properties: Mapping[str, Any], arithmetic: Arithmetic) -> Limit | None:
    """Return what NVIDIA's tables say for the multiprocessors, at the highest clock."""
    megahertz = device.facts.get("max_clock")
    capability = (properties["major"], properties["minor"])
    each = _PER_CLOCK.get(capability, {}).get(arithmetic)
    if not isinstance(megahertz, int) or each is None:
        return None
    count = properties["multiProcessorCount"]
    source = f"reported: {count} multiprocessors x {each} FLOP x {megahertz} MHz"
    return Limit("rate", count * each * megahertz * 1e6, "FLOP/s", source, "reported")
