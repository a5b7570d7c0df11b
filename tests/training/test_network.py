"""A gradient is right wherever it is computed; examples are whoever makes them; and presets."""

from itertools import pairwise

import numpy as np
import pytest
from buffers import got
from hypothesis import given
from hypothesis import strategies as st
from sessions import opened, places
from tables import table

from gpumap.training.network import ITEM, PARAMETERS, Layer, Network, Replica, cross_entropy

SEED = 3
EPS = 2.0**-23


def network(hidden="tanh", widths=(5, 4, 3, 2)):
    inputs, *units, final = widths
    inner = (Layer(n, hidden) for n in units)
    return Network("small", inputs, (*inner, Layer(final, "sigmoid")))


def drawn(net, examples, dtype=np.float64):
    rng = np.random.default_rng(SEED)
    parameters = (net.initial(SEED) + rng.normal(0, 0.1, net.parameters)).astype(dtype)
    x = rng.uniform(-1, 1, (examples, net.inputs)).astype(dtype)
    y = rng.uniform(0, 1, (examples, net.last.units))
    return parameters, x, y.astype(dtype)


@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_the_gradient_is_what_the_loss_changes_by(hidden):
    net = network(hidden)
    parameters, x, y = drawn(net, 6)
    step = 1e-6
    found = np.empty_like(parameters)
    for number in range(net.parameters):
        moved = np.zeros_like(parameters)
        moved[number] = step
        above, below = (net.judged("loss", parameters + d, x, y) for d in (moved, -moved))
        found[number] = (above - below) / (2 * step)
    exact = net.gradient(parameters, x, y, 1 / len(x))
    assert abs(exact).max() > 0.01
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-8)


def test_a_loss_is_finite_unless_an_output_is_not():
    """Certain and wrong is a large loss; what is no number makes none of it."""
    wrong, y = np.array([[0, 1]], np.float32), np.array([[1, 0]], np.float32)
    assert cross_entropy(wrong, y) == pytest.approx(-np.log(1e-7), rel=1e-3)
    assert cross_entropy(y, y) == pytest.approx(0, abs=1e-6)
    assert np.isnan(cross_entropy(np.array([[np.nan, 1]], np.float32), y))
    assert np.isnan(cross_entropy(np.array([[np.inf, 1]], np.float32), y))


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("widths", [(20, 16, 12, 3), (60, 24, 2), (7, 5)])
@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_a_replica_agrees_with_the_reference(place, hidden, widths):
    net = network(hidden, widths)
    parameters, x, y = drawn(net, 33, np.float32)
    with opened(place) as (session,):
        replica = Replica(net, session, 40)
        replica.put(parameters)
        replica.load(x, y)
        replica.compute(1 / len(x))
        found = got(replica.gradient)
    exact = net.gradient(parameters.astype(np.float64), x, y, 1 / len(x))
    assert abs(found - exact).max() <= 32 * EPS * abs(exact).max()  # a few roundings of each layer


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 20))
def test_operations_are_those_of_each_product(widths, examples):
    """Forward a.W, back a^T.delta, and delta.W^T but for the first layer; 2 for each product."""
    net, counted, parameters = network(widths=widths), 0, 0
    for number, (inputs, units) in enumerate(pairwise(widths)):
        products = [(examples, inputs, units), (inputs, examples, units)]
        products += [(examples, units, inputs)] if number else []
        counted += sum(2 * a * b * c for a, b, c in products)
        parameters += inputs * units + units
    assert (net.operations(examples), net.parameters) == (counted, parameters)


SEEDS = st.integers(0, 2**64 - 1)


def line(inputs=11, units=3):
    return Network("line", inputs, (Layer(units, "sigmoid"),))


@given(SEEDS, st.integers(1, 40), st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_an_example_is_a_function_of_seed_and_number(seed, inputs, numbers):
    net = line(inputs=inputs)
    x, y = net.data(10, seed).batch(np.array(numbers))
    for row, number in enumerate(numbers):
        alone_x, alone_y = net.data(99, seed).batch(np.array([number]))
        assert alone_x.tobytes() == x[row].tobytes()
        assert alone_y.tobytes() == y[row].tobytes()


def test_another_seed_or_number_is_another_example():
    """None shares a number with a neighbour, nor is shifted into it; epochs differ in order."""
    net = line(inputs=9)
    x, _ = net.data(10, 1).batch(np.arange(200))
    other, _ = net.data(10, 2).batch(np.arange(200))
    assert len(np.unique(x)) > 0.999 * x.size
    assert len(np.intersect1d(x, other)) < 0.001 * x.size
    # no float tells these apart
    seeds = (0, 1, *(2**63 + n for n in (-1, 0, 1)), 2**64 - 1, 10**30, 10**30 + 1)
    firsts = {net.data(10, seed).batch(np.arange(1))[0].tobytes() for seed in seeds}
    assert len(firsts) == len(seeds)
    net = line()
    first, other = net.data(100, 1), net.data(100, 2)
    orders = [tuple(first.numbers(100 * e, 100 * (e + 1)).tolist()) for e in range(5)]
    assert len({*orders, tuple(range(100)), tuple(other.numbers(0, 100).tolist())}) == 7


@given(SEEDS, st.integers(1, 50), st.integers(0, 4))
def test_each_epoch_holds_every_number_once(seed, count, epoch):
    examples = line().data(count, seed)
    found = examples.numbers(epoch * count, (epoch + 1) * count)
    assert sorted(found.tolist()) == list(range(count))


NETWORKS = table(__file__)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_those_of_the_layers(name):
    network = NETWORKS[name]
    total = sum(n * out * side**2 + out * more for n, out, side, more in network["layers"])
    assert total == PARAMETERS[name] == network["parameters"]
    assert ITEM * PARAMETERS[name] == 4 * total
