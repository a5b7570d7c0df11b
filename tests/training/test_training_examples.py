"""Examples that are made when needed: who makes them, and with which others, changes nothing."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.training.network import Layer, Network

SEEDS = st.integers(0, 2**64 - 1)


def network(inputs=11, units=3):
    return Network("small", inputs, (Layer(units, "sigmoid"),))


@given(SEEDS, st.integers(1, 40), st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_an_example_is_a_function_of_seed_and_number(seed, inputs, numbers):
    net = network(inputs=inputs)
    x, y = net.data(10, seed).batch(np.array(numbers))
    for row, number in enumerate(numbers):
        alone_x, alone_y = net.data(99, seed).batch(np.array([number]))
        assert alone_x.tobytes() == x[row].tobytes()
        assert alone_y.tobytes() == y[row].tobytes()


def test_a_target_does_not_depend_on_the_batch():
    """Many at once or each alone, whose products add in another order."""
    examples = network(300, 2).data(10, 1)
    x, y = examples.batch(np.arange(500))
    alone = np.concatenate([examples.batch(np.array([n]))[1] for n in range(500)])
    assert x.shape == (500, 300)
    assert alone.tobytes() == y.tobytes()


def test_a_side_is_the_exact_one():
    """Next to the plane too, where rounding would choose it: held against fractions."""
    examples = network(inputs=50, units=1).data(10, 1)
    hidden = [Fraction(float(h)) for h in examples._hidden[:, 0]]
    x, _ = examples.batch(np.arange(300))
    for row in x:  # the first number is chosen so that the row is as near to the plane as can be
        rest = sum((Fraction(float(v)) - Fraction(1, 2)) * h
                   for v, h in zip(row[1:], hidden[1:], strict=True))  # fmt: skip
        row[0] = round((Fraction(1, 2) - rest / hidden[0]) * 2**24) / 2**24
    exact = [sum((Fraction(float(v)) - Fraction(1, 2)) * h
                 for v, h in zip(row, hidden, strict=True)) for row in x]  # fmt: skip
    near = [n for n, sum_ in enumerate(exact)
            if abs(sum_) < Fraction(1, 10**6) and 0 <= x[n, 0] < 1]  # fmt: skip
    assert len(near) > 20
    found = examples._targets(x)[:, 0]
    assert found[near].tolist() == [float(exact[n] > 0) for n in near]


def test_another_seed_or_number_is_another_example():
    """None shares a number with its neighbours, nor is it shifted into them."""
    net = network(inputs=9)
    x, _ = net.data(10, 1).batch(np.arange(200))
    other, _ = net.data(10, 2).batch(np.arange(200))
    assert len(np.unique(x)) > 0.999 * x.size
    assert len(np.intersect1d(x, other)) < 0.001 * x.size
    seeds = (0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1)  # no float tells these apart
    firsts = {net.data(10, seed).batch(np.arange(1))[0].tobytes() for seed in seeds}
    assert len(firsts) == len(seeds)


def test_examples_are_of_32_bits_and_uniform():
    x, y = network().data(10, 1).batch(np.arange(5000))
    assert (x.dtype, y.dtype) == (np.float32, np.float32)
    assert (x.shape, y.shape) == ((5000, 11), (5000, 3))
    none, nothing = network().data(10, 1).batch(np.arange(0))
    assert (none.shape, nothing.shape) == ((0, 11), (0, 3))
    assert x.min() >= 0
    assert x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / x.size) ** 0.5)
    assert x.var() == pytest.approx(1 / 12, rel=0.02)


@given(SEEDS, st.integers(1, 50), st.integers(0, 4))
def test_each_epoch_holds_every_number_once(seed, count, epoch):
    examples = network().data(count, seed)
    found = examples.numbers(epoch * count, (epoch + 1) * count)
    assert sorted(found.tolist()) == list(range(count))


def test_each_epoch_has_another_order():
    net = network()
    first, same, other = net.data(100, 1), net.data(100, 1), net.data(100, 2)
    orders = [tuple(first.numbers(100 * e, 100 * (e + 1)).tolist()) for e in range(5)]
    assert len({*orders, tuple(range(100))}) == 6
    assert tuple(same.numbers(200, 300).tolist()) == orders[2]
    assert tuple(other.numbers(0, 100).tolist()) not in orders


@given(st.integers(1, 20), st.integers(0, 60), st.lists(st.integers(0, 30), max_size=6))
def test_places_may_be_asked_for_in_parts(count, start, lengths):
    examples = network().data(count, 1)
    stop, found = start, []
    for length in lengths:
        found += examples.numbers(stop, stop + length).tolist()
        stop += length
    assert network().data(count, 1).numbers(start, stop).tolist() == found
