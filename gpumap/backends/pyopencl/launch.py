"""Kernels that are built for an OpenCL device, and their launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from gpumap.backends.base import require
from gpumap.backends.pyopencl.facts import LANES, built
from gpumap.dtypes import Dtype
from gpumap.kernels.table import GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.pyopencl.facts import Facts
    from gpumap.kernels.table import Kernel

# Element -> its type in OpenCL C, and the type that sums of it have.
_TYPES = {
    "float16": ("half", "float"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "uint8": ("uchar", "uchar"),
    "uint32": ("uint", "uint"),
}
_FRACTIONS = ("float", "double")
# Whether a device is a processor -> the elements that one item takes of an elementwise kernel, and
# the items of a work-group. A processor's driver runs a work-group on one core: one item in it is
# best. A GPU needs whole warps.
_GRAIN = {True: 4096, False: 1}
_GROUP = {True: (1,), False: (64,)}
_BUFFERS = ("buffer", "short", "matrix", "counter")  # what is given as memory


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel, what it is built for, what it is given, and over how many items it goes.

    `items` are all of them along each axis, `local` those of a work-group; `constants` are macros
    that its text is built with. Numbers are Python's own: PyOpenCL packs those of NumPy in three
    times as long.
    """

    name: str
    source: str
    dtype: Dtype
    arguments: tuple[Any, ...]
    types: tuple[Any, ...]  # NumPy's, of the arguments that are numbers; None of the others
    items: tuple[int, ...]
    local: tuple[int, ...]
    constants: Mapping[str, int] = field(default_factory=dict)

    @property
    def padded(self) -> tuple[int, ...]:
        """Return the items in whole groups."""
        return tuple(-(-n // m) * m for n, m in zip(self.items, self.local, strict=True))


def launch_of(
    kernel: Kernel,
    arguments: Sequence[Any],
    size: int,
    dtype: Any,
    facts: Facts,
    *,
    streams: bool,
) -> Launch:
    """Return the launch of a kernel of the table, over at least one element of a type.

    `streams`: what it writes goes past the caches.
    """
    flat: list[Any] = []
    types: list[Any] = []
    for kind, argument in zip(kernel.arguments, arguments, strict=True):
        if kind in _BUFFERS:
            flat += (argument.native, argument.first)
            types += (None, np.uint64)
        else:
            flat.append(int(argument) if kind == "count" else dtype.type(argument).item())
            types.append(np.uint64 if kind == "count" else dtype)
    processor = facts.processor
    grain = (kernel.grain if processor else None) or _GRAIN[processor]
    items, group = -(-size // grain), _GROUP[processor]
    if kernel.group is not None:
        group = (1 if processor else kernel.group,)
        items = kernel.parts(size, dtype) * group[0]
    built = {"GRAIN": grain, **kernel.constants(arguments, size)}
    if processor and streams:
        built["STREAM"] = 1
    if processor and (lanes := facts.lanes(max(dtype.itemsize, 4))) < LANES:
        built |= {"LANES": lanes, "NARROW": 1}  # of what is computed in: sixteen bits in 32
    every = (*flat, size), (*types, np.uint64)
    return Launch(kernel.name, kernel.text("opencl"), dtype.name, *every, (items,), group, built)


class Kernels:
    """The kernels of one session, each built the first time that it is asked for."""

    def __init__(self, session: Any, native: Any) -> None:
        self._session = session
        self._native = native
        self._built: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # programs, and a kernel of each

    def shared(self, launch: Launch) -> Any:
        """Return the kernel of a launch; its arguments are those of whoever set them last."""
        return self._of(launch)[1]

    def own(self, launch: Launch) -> Any:
        """Return a kernel of this launch alone, with its arguments set."""
        kernel = self._typed(self._of(launch)[0], launch)  # a driver may not tell a kernel's own
        kernel.set_args(*launch.arguments)
        return kernel

    def clear(self) -> None:
        """Forget them all."""
        self._built.clear()

    def _of(self, launch: Launch) -> tuple[Any, Any]:
        key = (launch.name, launch.dtype, *launch.constants.items())
        if key not in self._built:
            program = self._program(launch)
            self._built[key] = program, self._typed(program, launch)
        return self._built[key]

    def _typed(self, program: Any, launch: Launch) -> Any:
        """Return a kernel that knows its numbers: to find that out anew takes 6 us for each."""
        kernel = cl.Kernel(program, launch.name)
        kernel.set_scalar_arg_dtypes(launch.types)
        return kernel

    def _program(self, launch: Launch) -> Any:
        if launch.dtype in ("float16", "float64"):
            require(self._session, launch.dtype, f"{launch.dtype} arithmetic")
        element, wide = _TYPES[launch.dtype]
        lanes = launch.constants.get("LANES", LANES)
        options = [f"-DELEMENT={element}", f"-DW={wide}", f"-DWV={wide}{lanes}", f"-DGROUP={GROUP}"]
        options += [
            *(f"-D{name}={value}" for name, value in launch.constants.items()),
            *([f"-DREAL={wide}"] if wide in _FRACTIONS else []),
        ]
        return built(self._session.context, self._native, launch.source, options)
