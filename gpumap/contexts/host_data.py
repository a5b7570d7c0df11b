"""Host data as contexts take them: an ndarray, in C order and the machine's byte order."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpumap.errors import DtypeError, GpumapError, ShapeError, Unsupported
from gpumap.text import printable

_HOST = (1, 3, 11)  # of DLPack: the processor's memory, pinned by CUDA, pinned by ROCm


def from_dlpack(source: Any) -> Any:
    """Return another library's array in host memory, without a copy.

    Raises:
        Unsupported: it has no `__dlpack__` that NumPy reads, or is not in host memory.
        DtypeError: it is masked.
    """
    if not hasattr(source, "__dlpack_device__"):
        kind = printable(type(source).__name__)
        raise Unsupported(f"{kind} has no __dlpack__", "use .shared()")
    if source.__dlpack_device__()[0] not in _HOST:
        fix = "copy it to host memory first, such as tensor.cpu() of PyTorch"
        raise Unsupported("from_dlpack reads host memory only", fix)
    if isinstance(source, np.ma.MaskedArray):
        raise DtypeError("a masked array would lose its mask", "fill it before: .filled(0)")
    try:
        return np.from_dlpack(source)
    except (AttributeError, BufferError, TypeError, ValueError) as error:
        raise Unsupported(f"from_dlpack: {printable(str(error))}", "use .shared()") from error


def plain(data: Any) -> Any:
    """Return anything that NumPy makes an array of, in C order and the machine's byte order.

    Raises:
        ShapeError: lists in a list have different lengths.
        DtypeError: NumPy makes no array of it, or it is masked: the mask would be lost.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise DtypeError("a masked array would lose its mask", "fill it before: .filled(0)")
    source = _array(data)
    return np.asarray(source, source.dtype.newbyteorder("="), order="C")


def number(value: float, dtype: Any) -> Any:
    """Return a plain number as an array of shape ().

    Raises:
        DtypeError: an integer beyond every number of that type.
    """
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        bits = int(value).bit_length()
        fix = "use a smaller number"
        raise DtypeError(f"an integer of {bits} bits does not fit into {dtype}", fix) from error


def _array(data: Any) -> Any:
    try:
        if isinstance(data, (list, tuple)):  # NumPy 1.24 warns of an array that is no sequence
            data = [np.asarray(one) if hasattr(one, "__array__") else one for one in data]
        return np.asarray(data)
    except GpumapError:  # of an array of ours inside the data
        raise
    except ValueError as error:
        fix = "give each list in a list the same length"
        raise ShapeError(f"no array: {printable(str(error))}", fix) from error
    except (TypeError, OverflowError) as error:
        fix = "give an ndarray, or lists of numbers"
        raise DtypeError(f"no array: {printable(str(error))}", fix) from error
