"""Beside the stand-in for CuPy: where the bindings of CUDA's libraries are.

As in CuPy itself, cuBLAS must be asked of its package, which loads the library first:
`import cupy_backends.cuda.libs.cublas` finds none.
"""

import cupy

cupy.modules(__name__)
