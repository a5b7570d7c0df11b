"""Products of cuBLAS, with the arithmetic named in each call.

CuPy's own products follow environment variables (CUPY_TF32), and a figure must not depend on one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import check_shapes, require

if TYPE_CHECKING:
    from gpumap.backends.cupy import CupySession
    from gpumap.backends.cupy_memory import CupyBuffer

_NOT_TRANSPOSED, _TRANSPOSED = 0, 1  # cublasOperation_t
_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT: cuBLAS chooses
# Element -> cudaDataType_t and cublasComputeType_t: never less than the type of a sum says.
_PRODUCTS = {
    "float16": (2, 68),  # CUDA_R_16F, CUBLAS_COMPUTE_32F
    "bfloat16": (14, 68),  # CUDA_R_16BF
    "float32": (0, 68),  # CUDA_R_32F
    "float64": (1, 70),  # CUDA_R_64F, CUBLAS_COMPUTE_64F
}
_FAST_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32


def queue_product(
    session: CupySession,
    a: CupyBuffer,
    b: CupyBuffer,
    out: CupyBuffer,
    transpose: tuple[bool, bool],
    scale: tuple[float, float],
    *,
    tf32: bool,
) -> None:
    """Queue out = alpha a.b + beta out, of which `scale` has alpha and beta."""
    import numpy as np

    rows, columns, inner = check_shapes(a.shape, b.shape, out.shape, transpose)
    element = out.dtype.name
    if element not in ("float32", "float64"):
        require(session, element, f"{element} products")
    if tf32:
        require(session, "tf32", "TF32 products")
    if not rows * columns:
        return
    kind, compute = _PRODUCTS[element]
    compute = _FAST_TF32 if tf32 else compute
    # cuBLAS counts by columns, where row-major c = a.b reads c' = b'.a'
    left = (b.address, kind, max(b.shape[1], 1))
    right = (a.address, kind, max(a.shape[1], 1))
    operations = [_TRANSPOSED if t else _NOT_TRANSPOSED for t in reversed(transpose)]
    scales = np.array(scale, "float64" if element == "float64" else "float32")
    alpha_at = scales.ctypes.data
    beta_at = alpha_at + scales.itemsize
    with session.current():
        _cublas().gemmEx(
            _handle(), *operations, columns, rows, inner, alpha_at, *left, *right,
            beta_at, out.address, kind, columns, compute, _ALGORITHM,
        )  # fmt: skip


@cache
def _cublas() -> Any:
    """Return CuPy's thin layer over cuBLAS; loads the library."""
    from cupy_backends.cuda.libs import cublas

    return cublas


def _handle() -> int:
    """Return this thread's cuBLAS handle on the current device."""
    from cupy.cuda.device import get_cublas_handle

    return int(get_cublas_handle())
