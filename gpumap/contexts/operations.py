"""The operations on arrays: the kernel of each, what the host computes, and which shapes fit.

Shapes are equal, or one is the end of the other: (5,) fits to (10, 5), and a number to anything.
Then the smaller operand is repeated, as NumPy would.

Where an operation runs, by one rule.

On the device that holds most bytes of its operands; the first operand decides a tie. What is in
host memory counts nothing: it is copied to the device. Only where no operand is on a device does
the host compute. The order of operands decides nothing else, and what has to be moved for the rule
is moved visibly: the trace lists it as implicit; under ``policy="strict"`` it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpumap.errors import ShapeError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

HOST = "cpu"  # the target that means host memory, never a cpu device


def place(operands: Sequence[tuple[str, Hashable, int]]) -> str:
    """Return the target on which an operation runs.

    Args:
        operands: for each its target, what tells its device from others (two names may stand for
            one), and its bytes. The target of host memory is HOST.
    """
    held: dict[Hashable, int] = {}
    first: dict[Hashable, str] = {}
    for target, device, nbytes in operands:
        if target != HOST:
            held[device] = held.get(device, 0) + nbytes
            first.setdefault(device, target)
    if not held:
        return HOST
    return first[max(held, key=lambda device: held[device])]  # of equal ones the first


@dataclass(frozen=True, slots=True)
class Operation:
    """An elementwise operation: the name of its kernel, and the NumPy function of the host."""

    kernel: str
    function: str  # of numpy, or of this table's own

    def on_host(self, *operands: Any) -> Any:
        """Return what NumPy computes; host memory in and out."""
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            if self.kernel == "relu":
                return np.maximum(operands[0], operands[0].dtype.type(0))
            function: Callable[..., Any] = getattr(np, self.function)
            return function(*operands)


ADD = Operation("add", "add")
SUB = Operation("sub", "subtract")
MUL = Operation("mul", "multiply")
DIV = Operation("div", "divide")
MAXIMUM = Operation("maximum", "maximum")
RELU = Operation("relu", "maximum")
EXP = Operation("exp_each", "exp")
LOG = Operation("log_each", "log")
TANH = Operation("tanh_each", "tanh")


def elementwise(operation: Operation, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the result.

    Raises:
        ShapeError: the shapes fit neither as they are nor by repeating one.
    """
    longest = max(shapes, key=len)
    for shape in shapes:
        if shape and shape != longest[len(longest) - len(shape) :]:
            listed = " and ".join(map(str, shapes))
            raise ShapeError(
                f"{operation.kernel} of shapes {listed}",
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
