"""An array on a named device, or in host memory: immutable, with operators and methods.

Shapes of one operation are equal, or one is the end of the other: (5,) fits to (10, 5), and a
number to anything. Then the smaller operand is repeated, as NumPy would.

An operation runs on the device that holds most bytes of its operands; the first operand decides a
tie. What is in host memory counts nothing: it is copied to the device. Only where no operand is on
a device does the host compute. The order of operands decides nothing else, and what has to be moved
for the rule is moved visibly: the trace lists it as implicit; under ``policy="strict"`` it is an
error.

Arrays are hashable, and are keys, by identity. They are not compared: `==` would have to fetch, or
to mean `is`. So what falls back on `==` raises where `is` has not found it: `x in list`,
`list.index` and `list.remove` with another array before `x`, and weak sets and keys, which ask for
`==` of an array and itself. ``any(each is x for each in list)`` asks for identity alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gpumap.errors import ContextError, ShapeError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Device

    Number = float | int


HOST = "cpu"  # the target that means host memory, never a cpu device


def place(operands: Sequence[tuple[str, Hashable, int]]) -> str:
    """Return the target on which an operation runs.

    Args:
        operands: for each its target, what tells its device from others (two names may stand for
            one), and its bytes. The target of host memory is HOST.
    """
    there = [each for each in operands if each[0] != HOST]
    held = Counter[Hashable]()
    for _, device, nbytes in there:
        held[device] += nbytes
    # of equal ones the first
    return max(there, key=lambda each: held[each[1]])[0] if there else HOST


def elementwise(kernel: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what a kernel makes of each element.

    Raises:
        ShapeError: the shapes fit neither as they are nor by repeating one.
    """
    longest = max(shapes, key=len)
    for shape in shapes:
        if shape and shape != longest[len(longest) - len(shape) :]:
            listed = " and ".join(map(str, shapes))
            raise ShapeError(
                f"{kernel} of shapes {listed}",
                "make them equal, or one the end of the other: (5,) fits to (10, 5)",
            )
    return longest


def product(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, int]:
    """Return the shape of a matrix product.

    Raises:
        ShapeError: they are no matrices, or the inner lengths differ.
    """
    matrices = 2
    if len(a) != matrices or len(b) != matrices:
        raise ShapeError(f"dot of shapes {a} and {b}", "dot takes two matrices: reshape first")
    if a[1] != b[0]:
        raise ShapeError(
            f"dot of shapes {a} and {b}", f"the inner lengths differ: {a[1]} and {b[0]}"
        )
    return a[0], b[1]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class Array:
    """Numbers in C order, float32 or float64; made by `Context.shared` and by operations.

    What it was made by may still run on its device: `numpy` waits for it.

    Attributes:
        context: the `Context` that it belongs to.
        target: the name of its device, or "cpu" for host memory.
        shape: its extent along each axis.
        dtype: the NumPy type of its elements.
        held: the backend's buffer, or an ndarray of the host; None when the context is closed.
    """

    __array_priority__ = 1000  # so that NumPy leaves `ndarray + Array` to us

    context: Any
    target: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    held: Any

    @property
    def device(self) -> Device | None:
        """Return the device that it is on; None for host memory."""
        return None if self.target == HOST else self.context[self.target].device

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of its elements."""
        return self.size * self.dtype.itemsize

    def transfer(self, target: str) -> Array:
        """Return a copy at `target`, a name of the map or "cpu"; itself if it is there already.

        Raises:
            TargetError: there is no such name.
        """
        return self.context.transferred(self, target)  # type: ignore[no-any-return]

    def to(self, target: str) -> Array:
        """Return a copy at `target`; the same as `transfer`."""
        return self.transfer(target)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return its elements as a new NumPy array, when they are there.

        Raises:
            DeviceError: what went wrong on its device, also in an operation before.
            ContextError: the context is closed.
        """
        found: np.ndarray[Any, Any] = self.context.fetched(self)
        return found

    def maximum(self, other: Array | np.ndarray[Any, Any] | Number) -> Array:
        """Return the larger of each two elements."""
        return self._with("maximum", self, other)

    def relu(self) -> Array:
        """Return the elements, 0 for those below."""
        return self._with("relu", self)

    def exp(self) -> Array:
        """Return e to the power of each element."""
        return self._with("exp_each", self)

    def log(self) -> Array:
        """Return the natural logarithm of each element."""
        return self._with("log_each", self)

    def tanh(self) -> Array:
        """Return the hyperbolic tangent of each element."""
        return self._with("tanh_each", self)

    def sum(self) -> Array:
        """Return the sum of all elements, of shape ()."""
        return self.context.summed(self)  # type: ignore[no-any-return]

    def __add__(self, other: Any) -> Array:
        return self._with("add", self, other)

    def __radd__(self, other: Any) -> Array:
        return self._with("add", other, self)

    def __sub__(self, other: Any) -> Array:
        return self._with("sub", self, other)

    def __rsub__(self, other: Any) -> Array:
        return self._with("sub", other, self)

    def __mul__(self, other: Any) -> Array:
        return self._with("mul", self, other)

    def __rmul__(self, other: Any) -> Array:
        return self._with("mul", other, self)

    def __truediv__(self, other: Any) -> Array:
        return self._with("div", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return self._with("div", other, self)

    def __matmul__(self, other: Any) -> Array:
        return self.context.dot(self, other)  # type: ignore[no-any-return]

    def __rmatmul__(self, other: Any) -> Array:
        return self.context.dot(other, self)  # type: ignore[no-any-return]

    def __neg__(self) -> Array:
        return self._with("mul", self, -1.0)  # exact; 0 - x would make +0.0 of 0.0

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of shape () has no length")
        return self.shape[0]

    def __float__(self) -> float:
        """Return its only element, by an implicit transfer where it is on a device."""
        return float(self.context.fetched(self, implicit=True).item())

    def __int__(self) -> int:
        """Return its only element without its fraction, by an implicit transfer as for a float."""
        return int(self.context.fetched(self, implicit=True).item())

    def __bool__(self) -> bool:
        """Return whether its only number is not 0, by an implicit transfer as for a float."""
        if self.shape:
            fix = "fetch it and say which: .numpy().any() or .numpy().all()"
            raise TypeError(f"an array of shape {self.shape} is neither true nor false: {fix}")
        return bool(self.context.fetched(self, implicit=True).item())

    __hash__ = object.__hash__  # by identity: `==` raises

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("arrays are not compared on a device: compare their .numpy()")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # noqa: FBT001 - NumPy's protocol
        """Return its elements to NumPy, which asks implicitly: as in ``numpy.exp(array)``.

        From a device that is an implicit transfer; `numpy` is the explicit one.

        Raises:
            ImplicitTransfer: it is on a device, and the policy is strict.
        """
        if copy is False:
            raise ValueError("an array on a device cannot become NumPy's without a copy")
        found: np.ndarray[Any, Any] = self.context.fetched(self, implicit=True)
        return found if dtype is None else found.astype(dtype)

    def __copy__(self) -> Array:
        return self  # immutable

    def __dlpack__(self, **options: Any) -> Any:
        """Return a DLPack capsule of the memory itself, where the backend's arrays have one.

        It is no copy: what a consumer writes into it is in this array, which is immutable only to
        those that go by its methods. No policy refuses it, as nothing is moved.
        """
        native = self._exported()
        self.context.wait(self)
        return native.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self._exported().__dlpack_device__()
        return found

    def __getattr__(self, name: str) -> NoReturn:
        message = f"arrays of gpumap have no {name!r}"
        if not name.startswith("_"):  # what protocols look for
            message += ": they are no array library. Use .numpy(), or from_dlpack of a library"
        raise AttributeError(message, name=name, obj=self)

    def __repr__(self) -> str:
        where = self.target if self.held is not None else "a closed context"
        return f"<gpumap.Array {self.shape} {self.dtype} on {where}>"

    def _with(self, kernel: str, *operands: Any) -> Array:
        return self.context.elementwise(kernel, operands)  # type: ignore[no-any-return]

    def _exported(self) -> Any:
        if self.held is None:
            raise ContextError("the context of this array is closed", "use it inside the `with`")
        on_host = self.target == HOST or not self.size  # without elements nothing is on a device
        native = self.held if on_host else self.held.native
        if not hasattr(native, "__dlpack__"):
            name = type(native).__module__.partition(".")[0]
            raise Unsupported(f"arrays of {name} have no __dlpack__", "use .numpy()")
        return native
