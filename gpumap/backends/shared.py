"""Host memory that a device uses itself, and how it is found again behind an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import bytes_of

if TYPE_CHECKING:
    import numpy as np

    from gpumap.dtypes import Dtype

    Array = np.ndarray[Any, Any]


class Shared:
    """Bytes at an address of the host; NumPy arrays made of it keep it alive."""

    def __init__(self, session: Any, address: int, nbytes: int) -> None:
        self.session = session
        self.address = address
        self.nbytes = nbytes

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's protocol for memory that another object owns."""
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    def array(self, shape: tuple[int, ...], dtype: Dtype) -> Array:
        """Return all of it as an array."""
        import numpy as np

        from gpumap.dtypes import numpy_dtype

        held = numpy_dtype(dtype)
        return np.asarray(self)[: bytes_of(shape, held)].view(held).reshape(shape)

    def offset(self, array: Array) -> int:
        """Return where in it a view begins, in bytes."""
        return int(array.__array_interface__["data"][0]) - self.address


def behind(array: Array, session: Any) -> Any:
    """Return the `Shared` of a session that an array is a view of, in one piece; else None."""
    owner: Any = array
    while hasattr(owner, "base"):
        owner = owner.base
    if not isinstance(owner, Shared) or owner.session is not session:
        return None
    return owner if array.flags.c_contiguous else None
