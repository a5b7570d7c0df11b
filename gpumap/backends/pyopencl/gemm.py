"""How a product is cut for an OpenCL device: a few facts of it, and the blocks that fit them.

A processor's core takes a block at a time, and packs what it needs of both factors into memory of
its own, which lies in its caches (`kernels/gemm.cl`). How many numbers a register holds, the driver
says, and a tile, the part of a block that is summed in registers, is as large as they allow. Blocks
and tiles are of rows and columns of the product; what is packed is counted in terms of its sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl

from gpumap.backends.pyopencl.launch import Launch
from gpumap.kernels.definitions import text

if TYPE_CHECKING:
    from gpumap.backends.base import Product
    from gpumap.backends.pyopencl.launch import Facts

# Bytes of a register -> rows, and vectors of columns, of a tile: its sums, and a line of the other
# factor, fill what there is. AVX-512 has 32 registers, AVX2 and SSE have 16 (Intel, Software
# Developer's Manual 1, chapters 14 and 15).
_TILES = {64: (12, 2), 32: (6, 2), 16: (6, 2)}
_DEPTH = 192  # terms that are packed at a time
_WIDEST, _HIGHEST = 256, 696  # columns and rows of a block at most: whole tiles, of any registers
_WORTH = 1 << 18  # multiply-adds of a block for which another core is woken
_ROUNDS = 4  # blocks for each core, beyond which an uneven number of them costs little

# Of a GPU's block: work-items along a side, places of each along a side, terms at a time.
_SIDE, _EACH, _TERMS = 16, 4, 16


@dataclass(frozen=True, slots=True)
class Cut:
    """How one product goes over the groups of a device."""

    constants: Mapping[str, int]  # what the kernel is built for
    groups: tuple[int, int]  # along columns and rows: one for each block
    items: tuple[int, int]  # of each group
    block: tuple[int, ...] = ()  # height and width, which a processor's kernel is told
    scratch: tuple[int, ...] = ()  # numbers in packed_a, packed_b and sums, a group's own memory

    @property
    def everything(self) -> tuple[int, int]:
        """Return all work-items, along columns and rows."""
        return self.groups[0] * self.items[0], self.groups[1] * self.items[1]


def product_of(product: Product, facts: Facts) -> Launch:
    """Return the launch of a product."""
    a, b, out, sizes, transpose, *factors, _ = product
    wide = np.result_type(out.dtype, np.float32)  # what its places are summed in
    parts = cut(facts, wide.itemsize, sizes, turned=transpose[0])
    a_strides = (1, a.shape[1]) if transpose[0] else (a.shape[1], 1)
    b_strides = (1, b.shape[1]) if transpose[1] else (b.shape[1], 1)
    places = (a.first, b.first, out.first, *a_strides, *b_strides)
    scalars = tuple(out.dtype.type(factor).item() for factor in factors)
    own = tuple(cl.LocalMemory(n * wide.itemsize) for n in parts.scratch)
    given = [
        ((a.native, b.native, out.native), None),
        (sizes, np.uint32),
        (places, np.uint64),
        (scalars, out.dtype),
        (parts.block, np.uint32),
        (own, None),
    ]
    return Launch(
        name="gemm",
        source=text("gemm.cl"),
        dtype=out.dtype.name,
        arguments=tuple(value for values, _ in given for value in values),
        types=tuple(type_ for values, type_ in given for _ in values),
        items=parts.everything,
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
        block = _SIDE * _EACH
        constants = {"SIDE": _SIDE, "EACH": _EACH, "DEPTH": _TERMS}
        return Cut(constants, (_parts(columns, block), _parts(rows, block)), (_SIDE, _SIDE))
    lanes = facts.register // itemsize
    tile_rows, vectors = _TILES[facts.register]
    if columns <= lanes:
        vectors = 1  # and no other: each tile is a kernel that takes half a second to compile
    room = facts.local // itemsize
    # At most a quarter of the room is for each packed factor; what is left of it is for the sums.
    depth = min(_DEPTH, room // (4 * max(tile_rows, vectors * lanes)))
    width = _even(columns, min(_WIDEST, room // (4 * depth)), vectors * lanes)
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
