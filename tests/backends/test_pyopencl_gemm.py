"""How products are cut for OpenCL devices, and what comes of it."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from backends.products import assert_product
from hypothesis import given
from hypothesis import strategies as st
from sessions import usable
from tables import table

from gpumap.backends.pyopencl.launch import BLOCKS, REGISTERS, Facts, cut, fits
from gpumap.errors import Unsupported

SIZE = st.integers(1, 5000)
LEAST = 32 << 10  # bytes that each device has for a group: OpenCL 3.0, table 5
PROCESSORS = st.builds(
    partial(Facts, processor=True, cache=0), units=st.integers(1, 300),
    register=st.sampled_from(REGISTERS), local=st.integers(LEAST, 4 << 20),
)  # fmt: skip
GPUS = st.builds(
    partial(Facts, processor=False, register=16, cache=0), units=st.integers(1, 300),
    local=st.integers(LEAST, 256 << 10), group=st.sampled_from((64, 256, 1024)),
    sums=st.sampled_from((32, 64)),
)  # fmt: skip
ITEMSIZE = st.sampled_from([4, 8])


@given(PROCESSORS, ITEMSIZE, st.tuples(SIZE, SIZE, SIZE), st.booleans())
def test_blocks_cover_a_product_once(facts, itemsize, sizes, turned):
    """Each begins inside it and the last ends behind it; a tile goes into them without a rest."""
    found = cut(facts, itemsize, sizes, turned=turned)
    for whole, groups, block in zip(sizes[1::-1], found.groups, found.block[::-1], strict=True):
        assert (groups - 1) * block < whole <= groups * block
    assert found.block[0] % found.constants["ROWS"] == 0
    assert found.block[1] % (found.constants["VECTORS"] * found.constants["LANES"]) == 0
    assert found.items == (1, 1)  # one work-item each
    # both packed factors and the sums fit its memory, in the numbers that the kernel counts them in
    height, width = found.block
    rows, depth = found.constants["ROWS"], found.constants["DEPTH"]
    assert found.scratch == (rows * depth, depth * width, height * width)
    assert sum(found.scratch) * itemsize <= facts.local
    steps = found.constants["A_ROW"], found.constants["A_TERM"]
    assert steps == ((1, rows) if turned else (depth, 1))


@given(PROCESSORS, ITEMSIZE)
def test_a_large_product_keeps_every_core_at_work(facts, itemsize):
    """As many blocks as cores, a multiple of them, or so many that the last ones weigh little."""
    across, down = cut(facts, itemsize, (5000, 5000, 5000)).groups
    assert across * down % facts.units == 0 or across * down > 4 * facts.units


def test_where_a_core_has_little_memory_a_block_is_about_as_wide_as_high():
    """So both factors are packed as rarely as can be: one of 64 by 684 took 1.02 times as long."""
    facts = Facts(processor=True, units=2, register=64, local=256 << 10, cache=1 << 20)
    assert cut(facts, 4, (2048, 2048, 2048)).block == (192, 160)


@given(PROCESSORS, ITEMSIZE, st.integers(1, 32))
def test_a_small_product_wakes_one_core(facts, itemsize, size):
    """Another one would take longer to wake than to compute."""
    assert cut(facts, itemsize, (size, 1, size)).groups == (1, 1)
    assert cut(facts, itemsize, (1, 1, size)).groups == (1, 1)


@given(GPUS, ITEMSIZE, st.tuples(SIZE, SIZE, SIZE))
def test_blocks_of_a_gpu_cover_a_product_once(facts, itemsize, sizes):
    """With whole groups of work-items, in the memory and registers that the device has.

    Each work-item reads as many numbers of a piece as any other.
    """
    found = cut(facts, itemsize, sizes)
    side, high, wide, depth, skew = found.constants.values()
    for whole, groups, block in zip(
        sizes[1::-1], found.groups, (side * wide, side * high), strict=True
    ):
        assert (groups - 1) * block < whole <= groups * block
        assert block * depth % side**2 == block % 4 == 0
    assert found.items == (side, side)
    assert side * side <= facts.group
    assert 2 * depth * (side * (high + wide) + 2 * skew) * itemsize <= facts.local
    assert high * wide * itemsize <= 4 * facts.sums


@given(GPUS, ITEMSIZE)
def test_a_large_product_has_the_largest_blocks_and_a_small_one_busies_the_units(facts, itemsize):
    large = tuple(cut(facts, itemsize, (20_000,) * 3).constants.values())[:4]
    assert large == next(block for block in BLOCKS if fits(facts, itemsize, block))
    across, down = cut(facts, itemsize, (2048, 2048, 9)).groups
    assert across * down >= 0.75 * facts.units
    with pytest.raises(Unsupported):
        cut(facts._replace(group=32), itemsize, (64, 64, 64))


WAYS = table(__file__)


@pytest.fixture(scope="module", params=WAYS)
def session(request):
    backend, (first, *_) = usable("pyopencl")
    with backend.open(first, backend.clock()) as opened:
        opened._facts = opened._facts._replace(**WAYS[request.param])
        yield opened


TURNS = list(product((False, True), repeat=2))
FACTORS = [(1.0, 0.0), (0.5, -2.0), (1.0, 1.0)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sizes_around_tiles(session, dtype):
    if dtype not in {"float32", *session.features}:
        pytest.skip(f"{session.device.id} has no {dtype}")
    rng = np.random.default_rng(7)
    each = [*product((1, 4, 5, 13, 65), (3, 4, 5, 17, 33), (1, 257)), (129, 131, 17), (131, 129, 8)]
    for number, sizes in enumerate(each):
        assert_product(session, rng, sizes, dtype, TURNS[number % 4], *FACTORS[number % 3])
