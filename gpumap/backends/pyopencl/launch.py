"""Buffers, and kernels that are built for an OpenCL device by what its driver says of it.

How a product is cut for an OpenCL device: a few facts of it, and the blocks that fit them.

A processor's core takes a block at a time, and packs what it needs of both factors into memory of
its own, which lies in its caches (`kernels/gemm.cl`). How many numbers a register holds, the driver
says, and a tile, the part of a block that is summed in registers, is as large as they allow. Blocks
and tiles are of rows and columns of the product; what is packed is counted in terms of its sums.
"""

from __future__ import annotations

import threading
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl

from gpumap.backends.base import Elements
from gpumap.errors import Unsupported
from gpumap.kernels import GROUP, text
from gpumap.machine.process_control import room_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.backends.base import Feature, Product
    from gpumap.dtypes import Dtype
    from gpumap.kernels import Kernel


_NEIGHBOURS = 1 << 20  # bytes, of what a driver keeps beside a buffer
_CHECKED = 4 << 20  # bytes of a buffer, from which on the host is asked for room
REGISTERS = (64, 32, 16)  # bytes of the vectors that processors have
LANES = 16  # numbers of a vector that a kernel works on, where the compiler makes do with it
_COMPILED_FOR: dict[tuple[str, ...], int] = {}  # to ask a compiler takes as long as a kernel
# A thread of NVIDIA's and AMD's GPUs has some 200 registers, one of Intel's 4 KB for 16 work-items.
_SUMS, _SUMS_OF = 64, {0x8086: 32}
_BUILDING = threading.Lock()  # warnings are caught for the whole process, not for a thread
# A driver may know the processor's registers better than its compiler does: PoCL 3.0's wheel, with
# LLVM 14, compiles for a Zen 4 as for a Zen 3, but calls functions that were built for AVX-512, and
# ends the process at the first vector of 64 bytes. The compiler's macros tell what it compiles for;
# one that compiles for something in between (SPIR) has none of them.
_ASKED = """
#if !defined(__SSE2__) || defined(__AVX512F__)
__kernel void bytes64(void) {}
#elif defined(__AVX__)
__kernel void bytes32(void) {}
#else
__kernel void bytes16(void) {}
#endif
"""


def allocate(context: Any, nbytes: int, flags: int = 0, *, on_host: bool = False) -> Any:
    """Return a buffer that no one has written yet, with flags beside READ_WRITE.

    It is the driver's own, which keeps it until the last command that uses it is done: NumPy's
    memory (USE_HOST_PTR) would be gone with the last name that a program has for the buffer.

    Raises:
        MemoryError: it is a processor's (`on_host`), and the host has no room. PoCL would end the
            process at the buffer's first use.
    """
    room = not on_host or nbytes < _CHECKED or room_for(nbytes + _NEIGHBOURS)
    # what goes beyond the driver's own bounds, it says
    native = cl.Buffer(context, cl.mem_flags.READ_WRITE | flags, max(nbytes, 1))
    if not room:
        raise MemoryError(f"the host has no room for {nbytes} bytes")
    return native


class PyopenclBuffer(Elements):
    """A place in an OpenCL buffer: the buffer, and the offset of the first element in bytes."""

    @property
    def native(self) -> Any:
        """Return OpenCL's buffer, all of it."""
        return self.memory

    @property
    def at(self) -> int:
        """Return where in it the first element is, in bytes."""
        return self.start * self.dtype.itemsize


class Facts(NamedTuple):
    """What of a device decides how its work is cut."""

    processor: bool
    units: int  # cores that work side by side
    register: int  # bytes of the widest one that the compiler uses
    local: int  # bytes that a work-group has of its own
    cache: int  # bytes of the last one
    narrow: bool = False  # no vector may be wider than `register`: the compiler fails at it
    group: int = 256  # work-items of a group at most
    sums: int = _SUMS  # numbers of 32 bits that a work-item of a GPU may sum in registers

    @classmethod
    def of(cls, native: Any, context: Any) -> Facts:
        """Return what a driver, and its compiler in a context, say of a device or a part of one.

        Raises:
            pyopencl.Error: it cannot compile.
        """
        processor = bool(native.type & cl.device_type.CPU)
        width = 4 * int(native.native_vector_width_float)  # of a driver without vectors 4 or 0
        register = max((size for size in REGISTERS if size <= width), default=min(REGISTERS))
        used = register
        if processor and register > min(REGISTERS):
            used = min(register, _compiled_for(native, context))
        return cls(
            processor,
            units=int(native.max_compute_units),
            register=used,
            local=int(native.local_mem_size),
            cache=int(native.global_mem_cache_size),
            narrow=used < register,
            group=int(native.max_work_group_size),
            sums=_SUMS_OF.get(int(native.vendor_id), _SUMS),
        )

    def lanes(self, itemsize: int) -> int:
        """Return how many numbers of that size a vector of an elementwise kernel has."""
        return min(LANES, self.register // itemsize) if self.narrow else LANES


def features(native: Any) -> frozenset[Feature]:
    """Return what a driver says that a device can do, without what must be tried."""
    extensions = native.extensions.split()
    has: dict[Feature, bool] = {
        "events": True,
        "kernels": True,
        "float64": "cl_khr_fp64" in extensions,
        "float16": "cl_khr_fp16" in extensions,
        "pinned": not native.host_unified_memory,
    }
    return frozenset(feature for feature, there in has.items() if there)


def _compiled_for(native: Any, context: Any) -> int:
    """Return the bytes of the widest register that a device's compiler uses."""
    key = (native.platform.name, native.name, native.driver_version)
    if key not in _COMPILED_FOR:
        program = built(context, native, _ASKED, [])
        _COMPILED_FOR[key] = int(program.kernel_names.removeprefix("bytes"))
    return _COMPILED_FOR[key]


def built(context: Any, native: Any, source: str, options: Sequence[str]) -> Any:
    """Return a program that is built for a device."""
    with _BUILDING, warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # a driver's chatter
        return cl.Program(context, source).build(list(options), [native], cache_dir=False)


# Element -> its type in OpenCL C, and the type that sums of it have.
_TYPES = {
    "float16": ("half", "float"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
}
# Elements that one item of a processor takes of an elementwise kernel: its driver runs a work-group
# on one core, and one item in it is best. A GPU needs whole warps: so many items of one element.
_GRAIN, _GROUP = 4096, 64
_BUFFERS = ("buffer", "short", "matrix")  # what is given as memory


class Launch(NamedTuple):
    """A kernel, what it is built for, what it is given, and over how many items it goes.

    `items` are all of them along each axis, in whole groups, `local` those of a work-group;
    `constants` are macros that its text is built with. Numbers are Python's own: PyOpenCL packs
    those of NumPy in three times as long.
    """

    name: str
    source: str
    dtype: Dtype
    arguments: tuple[Any, ...]
    types: tuple[Any, ...]  # NumPy's, of the arguments that are numbers; None of the others
    items: tuple[int, ...]
    local: tuple[int, ...]
    constants: Mapping[str, int] = {}

    def program(self, context: Any, native: Any) -> Any:
        """Return a program that is built for it."""
        element, wide = _TYPES[self.dtype]
        lanes = self.constants.get("LANES", LANES)
        options = [f"-DELEMENT={element}", f"-DW={wide}", f"-DWV={wide}{lanes}", f"-DGROUP={GROUP}"]
        options += [f"-DREAL={wide}", *(f"-D{key}={n}" for key, n in self.constants.items())]
        return built(context, native, self.source, options)

    def kernel(self, program: Any) -> Any:
        """Return a kernel that knows its numbers: to find that out anew takes 6 us for each."""
        kernel = cl.Kernel(program, self.name)
        kernel.set_scalar_arg_dtypes(self.types)
        return kernel


def launch_of(
    kernel: Kernel, dtype: Any, facts: Facts, arguments: Sequence[Any], size: int, *, streams: bool
) -> Launch:
    """Return the launch of a kernel of the table, over at least one element of a type.

    `streams`: what it writes goes past the caches.
    """
    given: list[tuple[Any, Any]] = []
    for kind, argument in zip(kernel.arguments, arguments, strict=True):
        if kind in _BUFFERS:
            given += [(argument.native, None), (argument.start, np.uint64)]
        elif kind == "count":
            given.append((int(argument), np.uint64))
        else:
            given.append((dtype.type(argument).item(), dtype))
    values, types = zip(*given, (size, np.uint64), strict=True)
    processor = facts.processor
    grain = (kernel.grain or _GRAIN) if processor else 1
    group = 1 if processor else kernel.group or _GROUP
    groups = kernel.parts(size) if kernel.group else _parts(size, grain * group)
    built = {"GRAIN": grain, **kernel.constants(arguments, size)}
    if processor and streams:
        built["STREAM"] = 1
    if processor and (lanes := facts.lanes(dtype.itemsize)) < LANES:
        built |= {"LANES": lanes, "NARROW": 1}
    made = (kernel.name, kernel.text("opencl"), dtype.name, values, types)
    return Launch(*made, (groups * group,), (group,), built)


# Bytes of a register -> rows, and vectors of columns, of a tile: its sums, and a line of the other
# factor, fill what there is. AVX-512 has 32 registers, AVX2 and SSE have 16 (Intel, Software
# Developer's Manual 1, chapters 14 and 15).
_TILES = {64: (12, 2), 32: (6, 2), 16: (6, 2)}
_DEPTH = 192  # terms that are packed at a time
_WIDEST, _HIGHEST = 256, 696  # columns and rows of a block at most: whole tiles, of any registers
_WORTH = 1 << 18  # multiply-adds of a block for which another core is woken
_ROUNDS = 4  # blocks for each core, beyond which an uneven number of them costs little

# Of a GPU: work-items along a side of a group, rows and columns that each sums, and terms of a
# piece. The larger a block is, the less is read for each of its sums. NVIDIA's assembler needs 128
# registers for the first one in 32 bits (benchmarks/assembled.py): a multiprocessor holds two.
BLOCKS = (
    (16, 8, 8, 8), (16, 8, 4, 16), (16, 8, 4, 8), (16, 4, 4, 16), (16, 4, 4, 8), (8, 4, 4, 8),
)  # fmt: skip
SKEW = 4  # numbers between two terms of a piece
_BUSY = 0.75  # of the units have a block, or blocks are made smaller


class Cut(NamedTuple):
    """How one product goes over the groups of a device."""

    constants: Mapping[str, int]  # what the kernel is built for
    groups: tuple[int, int]  # along columns and rows: one for each block
    items: tuple[int, int]  # of each group
    block: tuple[int, ...] = ()  # height and width, which a processor's kernel is told
    scratch: tuple[int, ...] = ()  # numbers in packed_a, packed_b and sums, a group's own memory


def product_of(product: Product, facts: Facts) -> Launch:
    """Return the launch of a product."""
    a, b, out, sizes, transpose, *factors, _ = product
    wide = np.result_type(out.dtype, np.float32)  # what its places are summed in
    parts = cut(facts, wide.itemsize, sizes, turned=transpose[0])
    a_strides = (1, a.shape[1]) if transpose[0] else (a.shape[1], 1)
    b_strides = (1, b.shape[1]) if transpose[1] else (b.shape[1], 1)
    values, types = zip(
        *((buffer.native, None) for buffer in (a, b, out)),
        *((size, np.uint32) for size in sizes),
        *((place, np.uint64) for place in (a.start, b.start, out.start, *a_strides, *b_strides)),
        *((out.dtype.type(factor).item(), out.dtype) for factor in factors),
        *((length, np.uint32) for length in parts.block),
        *((cl.LocalMemory(numbers * wide.itemsize), None) for numbers in parts.scratch),
        strict=True,
    )
    return Launch(
        name="gemm",
        source=text("gemm.cl"),
        dtype=out.dtype.name,
        arguments=values,
        types=types,
        items=tuple(groups * own for groups, own in zip(parts.groups, parts.items, strict=True)),
        local=parts.items,
        constants=parts.constants,
    )


@lru_cache(512)
def cut(facts: Facts, itemsize: int, sizes: tuple[int, int, int], *, turned: bool = False) -> Cut:
    """Return how a product of rows, columns and inner `sizes` is cut.

    Its sums are numbers of `itemsize` bytes; `turned`: its first factor is read transposed.
    """
    rows, columns, inner = sizes
    if not facts.processor:
        return _block_of_gpu(facts, itemsize, rows, columns)
    lanes = facts.register // itemsize
    tile_rows, vectors = _TILES[facts.register]
    if columns <= lanes:
        vectors = 1  # and no other: each tile is a kernel that takes half a second to compile
    room = facts.local // itemsize
    # Half of the room is for packed columns, the sums get what is left: blocks as wide as high are
    # packed least (256 KB, as Intel's runtime has, are 160 columns and 192 rows).
    depth = min(_DEPTH, room // (4 * max(tile_rows, vectors * lanes)))
    width = _even(columns, min(_WIDEST, room // (2 * depth)), vectors * lanes)
    left = room - depth * (width + tile_rows)
    height = _even(rows, min(_HIGHEST, left // width), tile_rows)
    height = _shared(facts.units, height, tile_rows, rows, _parts(columns, width), width * inner)
    row, term = (1, tile_rows) if turned else (depth, 1)  # steps in packed_a: as its rows come
    flags = (("CACHED", facts.cache), ("NARROW", facts.narrow))
    given = {name: 1 for name, so in flags if so}
    tile = {"ROWS": tile_rows, "VECTORS": vectors, "LANES": lanes}
    return Cut(
        {"BLOCKED": 1, **tile, "DEPTH": depth, "A_ROW": row, "A_TERM": term, **given},
        (_parts(columns, width), _parts(rows, height)),
        (1, 1),
        (height, width),
        (depth * tile_rows, depth * width, height * width),
    )


def fits(facts: Facts, itemsize: int, block: tuple[int, int, int, int]) -> bool:
    """Return whether a GPU has the work-items, registers and local memory for a block."""
    side, high, wide, depth = block
    piece = depth * (side * (high + wide) + 2 * SKEW) * itemsize  # of both factors
    registers = high * wide * itemsize <= 4 * facts.sums
    return registers and side * side <= facts.group and 2 * piece <= facts.local


def _block_of_gpu(facts: Facts, itemsize: int, rows: int, columns: int) -> Cut:
    """Return the largest blocks that a GPU can hold, and of which most of its units have one."""
    for block in BLOCKS:
        side, high, wide, depth = block
        groups = _parts(columns, side * wide), _parts(rows, side * high)
        if fits(facts, itemsize, block) and groups[0] * groups[1] >= _BUSY * facts.units:
            break
    if not fits(facts, itemsize, block):
        raise Unsupported(f"this device has no room for a product: {side}x{side} work-items")
    constants = {"SIDE": side, "HIGH": high, "WIDE": wide, "DEPTH": depth, "SKEW": SKEW}
    return Cut(constants, groups, (side, side))


def _even(whole: int, most: int, step: int) -> int:
    """Return the length of as few equal parts as cover `whole`: whole steps, no more than `most`.

    One step where `most` is less than that.
    """
    most = max(most // step, 1) * step
    return _parts(_parts(whole, _parts(whole, most)), step) * step


def _shared(units: int, height: int, tile_rows: int, rows: int, across: int, work: int) -> int:
    """Return the height of blocks that keep every unit at work, where one more is worth it.

    They have `height` rows where they need not be lower, in tiles of `tile_rows`; `across` of them
    stand side by side, and each of their rows takes `work` multiply-adds.
    """
    for count in range(_parts(rows, height), _parts(rows, tile_rows) + 1):
        even = _parts(_parts(rows, count), tile_rows) * tile_rows
        groups = across * _parts(rows, even)
        if groups % units == 0 or groups > _ROUNDS * units:
            return even
        if even * work < 2 * _WORTH:
            break
    return height


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)
