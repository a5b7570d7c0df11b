"""Kernels that are built for a CUDA device, and their launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpumap.backends.foreign import foreign
from gpumap.dtypes import numpy_dtype
from gpumap.errors import Unsupported
from gpumap.kernels.table import GROUP, KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.model import Device

# A kernel's name, its type, its arguments but the last, and that: its size.
Call = tuple[str, str, tuple[Any, ...], int]

_BLOCK = 256  # threads
# Element -> its type in CUDA C++, and what the text needs for it.
_TYPES = {
    "float16": ("__half", "-DHALF", "-DREAL=float"),
    "float32": ("float", "-DREAL=float"),
    "float64": ("double", "-DREAL=double"),
    "uint8": ("unsigned char",),
    "uint32": ("unsigned int",),
}


class Current:
    """A device and a stream that are current inside; CuPy's errors become gpumap's.

    Entered for every call: a generator and a table of errors would cost as much as a launch.
    """

    __slots__ = ("_device", "_on", "_stream")

    def __init__(self, device: Device, on: Any, stream: Any) -> None:
        self._device = device
        self._on = on
        self._stream = stream

    def __enter__(self) -> None:
        on = self._on
        try:
            on.__enter__()
            try:
                self._stream.__enter__()
            except BaseException:
                on.__exit__(None, None, None)
                raise
        except Exception as error:  # noqa: BLE001 - the table decides
            self._raise(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._stream.__exit__(kind, error, trace)
        self._on.__exit__(kind, error, trace)
        if isinstance(error, Exception):
            self._raise(error)

    def _raise(self, error: Exception) -> None:
        with foreign(self._device):
            raise error


class Kernels:
    """The kernels of one session, each built the first time that it is asked for."""

    def __init__(self, device: Device, current: Current) -> None:
        self._device = device
        self._current = current
        self._built: dict[tuple[Any, ...], Any] = {}

    def prepared(
        self, calls: Sequence[Call], repeat: int, constants: Mapping[str, int]
    ) -> Callable[[], None]:
        """Return what queues kernels one after the other, all of them `repeat` times."""
        current = self._current
        with current:
            ready = [
                (
                    self._of(kernel, dtype, constants),
                    *_grid(kernel, dtype, size),
                    (*given, np.uint64(size)),
                )
                for kernel, dtype, given, size in calls
                if size or KERNELS[kernel].group
            ] * repeat

        def queue() -> None:
            with current:
                for kernel, grid, block, arguments in ready:
                    kernel(grid, block, arguments)

        return queue

    def clear(self) -> None:
        """Forget them all."""
        self._built.clear()

    def _of(self, name: str, dtype: str, constants: Mapping[str, int]) -> Any:
        """Return a kernel, compiled by NVRTC."""
        import cupy

        key = (name, dtype, *constants.items())
        if key not in self._built:
            if dtype not in _TYPES:
                raise Unsupported(f"there are no kernels of {dtype} on {self._device.ref}")
            element, *needs = _TYPES[dtype]
            options = [f"-DELEMENT={element}", f"-DGROUP={GROUP}", *needs]
            options += [f"-D{constant}={value}" for constant, value in constants.items()]
            code = KERNELS[name].text("cuda")
            module = cupy.RawModule(code=code, options=tuple(options))
            self._built[key] = module.get_function(name)
        return self._built[key]


def _grid(kernel: str, dtype: Any, size: int) -> tuple[tuple[int], tuple[int]]:
    """Return the blocks of a launch, and the threads of each."""
    known = KERNELS[kernel]
    if known.group is None:
        return (-(-size // _BLOCK),), (_BLOCK,)
    return (known.parts(size, numpy_dtype(dtype)),), (known.group,)
