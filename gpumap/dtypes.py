"""Types of elements: how NumPy holds them, what a product of them rounds; NumPy, loaded late.

NumPy has no bfloat16 of its own, ml_dtypes brings it. TF32 is no type of memory: it is float32 of
which a product reads ten bits after the point. Formats: IEEE 754-2019, table 3.5; NVIDIA, A100
architecture whitepaper, 2020, for bfloat16 and TF32. Sums: Fasi, Higham, Mikaitis & Pranesh,
Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 2021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:

    class _Numpy:
        """NumPy, imported when it is first used; what was read of it is kept, as quick as its own.

        A start, a help text and a completion take none of it.
        """

        def __getattr__(self, name: str) -> Any:
            import numpy as np

            found = getattr(np, name)
            setattr(self, name, found)
            return found

    np, Array = _Numpy(), Any

__all__ = ["Array", "np"]  # beside what is made here

Dtype = Literal["float16", "bfloat16", "float32", "float64", "uint8"]
Arithmetic = Literal["float16", "bfloat16", "tf32", "float32", "float64"]

ITEMSIZE: dict[Dtype, int] = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "uint8": 1,
}  # fmt: skip


class Rounding(NamedTuple):
    """The relative spacing of numbers where a product reads, sums and writes them.

    `sums` is how many spacings a long sum may be off, on the scale of `gpumap.engine.verify`, and
    `least` the smallest normal number: a device may write 0 for less.
    """

    read: float  # 0 where a product reads its factors as they are
    add: float
    write: float
    sums: int
    least: float


# Factors of 16 bits are summed in 32, as cuBLAS does with CUBLAS_COMPUTE_32F. Tensor cores truncate
# what they add, so that the sum drifts: by up to 17 spacings over 16384 terms, four at a time.
ROUNDING: dict[Arithmetic, Rounding] = {
    "float16": Rounding(0.0, 2**-23, 2**-10, 64, 2**-14),
    "bfloat16": Rounding(0.0, 2**-23, 2**-7, 64, 2**-126),
    "tf32": Rounding(2**-10, 2**-23, 2**-23, 16, 2**-126),
    "float32": Rounding(0.0, 2**-23, 2**-23, 16, 2**-126),
    "float64": Rounding(0.0, 2**-52, 2**-52, 16, 2**-1022),
}


def storage(arithmetic: Arithmetic) -> Dtype:
    """Return the type of the memory that a product of this arithmetic reads and writes."""
    return "float32" if arithmetic == "tf32" else arithmetic


def numpy_dtype(dtype: Dtype) -> np.dtype[Any]:
    """Return NumPy's type; ImportError for bfloat16 where ml_dtypes is not installed."""
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    named: np.dtype[Any] = np.dtype(dtype)
    return named


def has_bfloat16() -> bool:
    """Return whether bfloat16 can be held on the host at all."""
    from importlib.util import find_spec

    return find_spec("ml_dtypes") is not None
