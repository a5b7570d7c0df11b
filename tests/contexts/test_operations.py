"""Random expressions over random places: NumPy's numbers, and every transfer accounted for."""

import os
import random
import time
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest

import gpumap
from gpumap.contexts.array import HOST

TREES = 250  # on scripted devices, and as many on real ones
DEPTH = 4
SIDE = 6
REAL = "a->cpu0;b->opencl0:0.0;c->opencl0:0.1"
FAKE = "a->cpu0;b->opencl0:0;c->cuda0"
UNARY = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}  # errors must not explode
BINARY = {"__add__": np.add, "__sub__": np.subtract, "__mul__": np.multiply,
          "maximum": np.maximum, "dot": np.matmul}  # fmt: skip


class Node(NamedTuple):
    """A value in the tree: gpumap's, the truth, and where it must be."""

    ours: object
    right: np.ndarray
    where: str


def opened(map_, backend=None):
    try:
        return gpumap.open(map_, backend=backend)
    except gpumap.AbsentError as error:
        return pytest.skip(str(error))


class Tree:
    def __init__(self, context, seed):
        self.context = context
        self.rng = random.Random(seed)  # noqa: S311 - a tree, not a secret
        self.numbers = np.random.default_rng(seed)
        self.implicit = []

    def grown(self, depth):
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf()
        if self.rng.random() < 0.3:
            name = self.rng.choice(sorted(UNARY))
            node = self.grown(depth - 1)
            return Node(getattr(node.ours, name)(), UNARY[name](node.right), node.where)
        return self.joined(self.rng.choice(sorted(BINARY)), depth)

    def leaf(self):
        values = self.numbers.uniform(-1, 1, (SIDE, SIDE)).astype(np.float32)
        where = self.rng.choice([*self.context.names, HOST])
        return Node(self.context.shared(values, target=where), values.astype(float), where)

    def joined(self, name, depth):
        """Return a node of two operands; now and then the second is a row, or a number."""
        left = self.grown(depth - 1)
        kind = "matrix" if name == "dot" else self.rng.choice(["matrix", "matrix", "row", "number"])
        if kind == "number":
            value = round(self.rng.uniform(-1, 1), 3)
            ours = getattr(left.ours, name)(value)
            return Node(ours, BINARY[name](left.right, np.float32(value)), left.where)
        right = self.grown(depth - 1)
        if kind == "row":
            row, there = right.right[0].astype(np.float32), right.where
            right = Node(self.context.shared(row, target=there), row.astype(float), there)
        where = self.moved(left, right)
        use = gpumap.dot if name == "dot" else getattr(type(left.ours), name)
        ours = use(left.ours, right.ours)
        return Node(ours, BINARY[name](left.right, right.right), where)

    def moved(self, *nodes):
        """Return where an operation must run, and account for what must be moved for it."""
        held = defaultdict(int)
        for node in nodes:
            if node.where != HOST:
                held[node.where] += 4 * node.right.size
        target = max(held, key=held.get) if held else HOST
        for node in nodes:
            if node.where != target:
                way = target if node.where == HOST else f"{node.where}->{target}"
                name = "upload" if node.where == HOST else "copy"
                self.implicit.append((name, way, 4 * node.right.size))
        return target


@pytest.mark.parametrize("map_", [FAKE, REAL])
def test_random_expressions(map_, monkeypatch):
    """Each result is NumPy's, where the rule says, with no transfer too many."""
    monkeypatch.setitem(os.environ, "POCL_AFFINITY", "1")
    with opened(map_, "fake" if map_ == FAKE else None) as context:
        for seed in range(TREES):
            before, tree = len(context.trace), Tree(context, seed)
            node = tree.grown(DEPTH)
            bound = 1e-5 * max(np.abs(node.right).max(), 1.0) * SIDE**2
            assert node.ours.target == node.where
            assert np.abs(node.ours.numpy() - node.right).max() <= bound
            moved = [e for e in context.trace[before:] if e.kind == "transfer" and e.implicit]
            assert [(e.name, e.device, e.nbytes) for e in moved] == tree.implicit


@pytest.mark.parametrize("device", ["cpu0", "opencl0:0"])
def test_every_operation_on_a_real_device(device):
    x, row = np.float32([[1, -2], [0.5, 4]]), np.float32([2, -1])
    with opened(f"a->{device}") as context:
        a, b = context.shared(x, target="a"), context.shared(row, target="a")
        pairs = [
            (a + b, x + row), (b - a, row - x), (a * 2, x * 2), (1 / a, 1 / x), (a / b, x / row),
            (3 - a, 3 - x), (-a, -x), (a @ a, x @ x), (x @ a, x @ x), (row + a, row + x),
            (a.maximum(0.25), np.maximum(x, 0.25)), (a.relu(), np.maximum(x, 0)),
            (a.exp(), np.exp(x)), (a.relu().exp().log(), np.maximum(x, 0)),
            (a.tanh(), np.tanh(x)), (a.sum(), x.sum()), (a.sum() + 1, x.sum() + 1),
        ]  # fmt: skip
        for found, right in pairs:
            assert np.allclose(found.numpy(), right, rtol=1e-6, atol=1e-6)
            assert found.shape == np.shape(right)
        assert (float(a.sum()), len(a)) == (3.5, 2)


@pytest.mark.parametrize("target", ["a", "cpu"])
def test_shapes_fit_at_their_end(target):
    """And a product has the rows of the first, and the columns of the second matrix."""
    x, y = (np.arange(n, dtype=np.float32).reshape(3, -1) for n in (6, 12))
    with gpumap.open("a->cuda0", backend="fake") as context:
        a, b = context.shared(x, target), context.shared(y, target)
        assert np.array_equal((a - x[1]).numpy(), x - x[1])
        product = gpumap.dot(context.shared(x.T, target), b)
        assert (product.shape, product.numpy().tolist()) == ((2, 4), (x.T @ y).tolist())
        with pytest.raises(gpumap.ShapeError):
            a + np.zeros(3, np.float32)


def test_a_device_that_is_busy_gets_and_gives_what_was_asked():
    """What is shared may change at once; what leaves by DLPack is computed; times are the run's."""
    began, x = time.perf_counter(), np.eye(600, dtype=np.float32)
    with gpumap.open("a->cpu0") as context:
        a = context.shared(x, "a")
        for _ in range(20):
            a = gpumap.dot(a, a)
        other = context.shared(x, "a")
        x[:] = 0
        assert np.array_equal(np.from_dlpack(gpumap.dot(a, other)), np.eye(600))
        times = [at for event in context.trace for at in (event.start, event.stop)]
    assert 0 <= min(times) <= max(times) <= time.perf_counter() - began


def test_what_a_consumer_of_dlpack_writes_is_in_the_array():
    """It is the memory itself, as README says; what NumPy's own protocol gives never is."""
    with gpumap.open("a->cpu0", policy="strict") as context:
        for target in ("a", "cpu"):
            array = context.shared(np.zeros(3, np.float32), target=target)
            native = array.held if target == "cpu" else array.held.native
            assert np.shares_memory(np.from_dlpack(array), native)
            native[0] = 1
            assert array.numpy()[0] == 1
            assert not any(event.implicit for event in context.trace)
            with pytest.raises(ValueError, match="without a copy"):
                array.__array__(copy=False)
