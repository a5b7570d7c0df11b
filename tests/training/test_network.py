"""A gradient is right wherever it is computed; examples are whoever makes them; and presets."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import got, opened, places
from tables import table

from gpumap.backends.fake.script import Engine, FakeClock, FakeDevice, device_of
from gpumap.backends.fake.session import FakeSession
from gpumap.errors import Unsupported
from gpumap.training.network import (
    PARAMETERS,
    Layer,
    Network,
    Replica,
    cross_entropy,
    nbytes,
    outputs,
    reference,
)
from gpumap.training.tasks import Transformer

SEED = 3
EPS = 2.0**-23
CALL = 8  # units in the last place that a device's exp or tanh, with what is around it, may be off


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


def bounded(net, parameters, x, y, share):
    """Return the gradient in float64, and how far off one of float32 may be, each parameter.

    To first order: a sum of n products is off by n + 4 roundings of the products' sizes, and by
    what its operands are off by, carried on through weights and slopes; EPS is twice a rounding.
    Where a relu's sum is nearer to 0 than its own error its slope may be either: the data has none.
    """
    parameters, x, y = (array.astype(np.float64) for array in (parameters, x, y))
    slots, activations, errors = list(net.slots()), [x], [np.zeros_like(x)]
    for layer, (weights, biases, shape) in zip(net.layers, slots, strict=True):
        w, b = parameters[weights].reshape(shape), parameters[biases]
        a, off = activations[-1], errors[-1]
        sums = a @ w + b
        off = off @ abs(w) + (shape[0] + 4) * EPS * (abs(a) @ abs(w) + abs(b))
        if layer.activation == "relu":
            assert (abs(sums) > off).all()
        activations.append(applied(layer.activation, sums))
        errors.append(carried(layer.activation, activations[-1], off))
    delta, off = (activations[-1] - y) * share, errors[-1] * share
    delta, off = delta / net.last.units, off / net.last.units
    off = off + 4 * EPS * abs(delta)
    bound = np.empty_like(parameters)
    for number in reversed(range(len(slots))):
        weights, biases, shape = slots[number]
        a, before = activations[number], errors[number]
        terms = (len(x) + 4) * EPS
        grown = abs(a).T @ off + before.T @ abs(delta) + terms * (abs(a).T @ abs(delta))
        bound[weights] = grown.reshape(-1)
        bound[biases] = (off + terms * abs(delta)).sum(axis=0)
        if number:
            w = parameters[weights].reshape(shape)
            off = off @ abs(w).T + (shape[1] + 4) * EPS * (abs(delta) @ abs(w).T)
            delta = delta @ w.T
            kind = net.layers[number - 1].activation
            if kind == "relu":
                delta, off = delta * (a > 0), off * (a > 0)
            elif kind == "tanh":
                off = off + abs(delta) * (2 * abs(a) * before + 4 * EPS)
                delta = delta * (1 - a * a)
    return reference(net, parameters, x, y, share), bound


def applied(activation, sums):
    every = {
        "relu": lambda s: np.maximum(s, 0),
        "tanh": np.tanh,
        "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
    }
    return every[activation](sums)


def carried(activation, a, off):
    steepest = 0.25 if activation == "sigmoid" else 1
    return off * steepest + (CALL * EPS * abs(a) if activation in ("tanh", "sigmoid") else 0)


@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_the_gradient_is_what_the_loss_changes_by(hidden):
    net = network(hidden)
    parameters, x, y = drawn(net, 6)
    step = 1e-6
    found = np.empty_like(parameters)
    for number in range(net.parameters):
        moved = np.zeros_like(parameters)
        moved[number] = step
        above, below = (cross_entropy(outputs(net, parameters + d, x), y) for d in (moved, -moved))
        found[number] = (above - below) / (2 * step)
    exact = reference(net, parameters, x, y, 1 / len(x))
    assert abs(exact).max() > 0.01
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-8)


def test_the_gradient_of_a_transformer_is_what_its_loss_changes_by():
    """In float64, of every array, along random directions."""
    rng, block = np.random.default_rng(SEED), Transformer()
    x, y = (array.astype(np.float64) for array in block.batch(np.arange(6)))
    block.parameters = [p + rng.normal(0, 0.1, p.shape) for p in block.parameters]
    exact = block.gradients(x, y, 1 / len(x))
    for array, gradient in zip(block.parameters, exact, strict=True):
        for way in rng.standard_normal((3, *array.shape)):
            losses = []
            for step in (1e-6, -1e-6):
                np.add(array, step * way, out=array)
                losses.append(block.loss(x, y))
                np.subtract(array, step * way, out=array)
            assert (losses[0] - losses[1]) / 2e-6 == pytest.approx((gradient * way).sum(), abs=1e-7)
        assert abs(gradient).max() > 1e-4


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
        out, found = replica.output(), got(replica.gradient)
    exact, bound = bounded(net, parameters, x, y, 1 / len(x))
    wide = outputs(net, parameters.astype(np.float64), x)
    assert (abs(found - exact) <= bound).all()
    assert np.median(bound) < 1e-2 * abs(exact).max()  # it could tell a wrong one
    np.testing.assert_allclose(out, wide, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("counts", [(7, 4, 0), (1, 10), (0, 0, 11)])
def test_replicas_of_parts_sum_up_to_the_batch(place, counts):
    net = network("relu", (5, 4, 3, 1))
    parameters, x, y = drawn(net, 11, np.float32)
    exact, bound = bounded(net, parameters, x, y, 1 / 11)
    total = np.zeros_like(exact)
    with opened(place) as (session,):
        replica = Replica(net, session, 11)
        replica.put(parameters)
        for start, stop in pairwise(np.cumsum([0, *counts]).tolist()):
            session.run("fill", replica.gradient, np.nan, size=net.parameters)
            replica.load(x[start:stop], y[start:stop])
            replica.compute(1 / 11)
            total += got(replica.gradient)
    assert (abs(total - exact) <= bound).all()


@pytest.mark.parametrize("place", places())
@pytest.mark.parametrize("hidden", ["relu", "tanh"])
def test_a_smaller_batch_uses_nothing_of_a_larger_one(place, hidden):
    """The larger one is no number anywhere; the smaller one is as if it had been the first."""
    net = network(hidden)
    parameters, x, y = drawn(net, 3, np.float32)
    none = np.full((8, net.inputs), np.nan, np.float32)
    with opened(place) as (session,):
        used, fresh = Replica(net, session, 8), Replica(net, session, 8)
        used.put(parameters)
        used.load(none, np.full((8, net.last.units), np.nan, np.float32))
        used.compute(1 / 8)
        assert np.isnan(got(used.gradient)).any()
        for replica in (used, fresh):
            replica.put(parameters)
            replica.load(x, y)
            replica.compute(1 / 3)
        assert used.output().tobytes() == fresh.output().tobytes()
        assert got(used.gradient).tobytes() == got(fresh.gradient).tobytes()
        assert used.output().shape == (3, net.last.units)


def test_without_kernels_no_network_is_trained():
    script = FakeDevice("cuda0", features=("float64",))
    with FakeSession(device_of(script), script, FakeClock(), Engine()) as session:
        with pytest.raises(Unsupported, match="training a network is not there") as raised:
            Replica(network(), session, 4)
        assert raised.value.fixes


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 20))
def test_operations_are_those_of_each_product(widths, examples):
    """Forward a.W, back a^T.delta, and delta.W^T but for the first layer; 2 for each product.

    The parameters lie one behind the other, in the order of the layers.
    """
    net, counted, at = network(widths=widths), 0, 0
    slots = zip(net.slots(), pairwise(widths), strict=True)
    for number, ((weights, biases, shape), (inputs, units)) in enumerate(slots):
        products = [(examples, inputs, units), (inputs, examples, units)]
        products += [(examples, units, inputs)] if number else []
        counted += sum(2 * a * b * c for a, b, c in products)
        assert shape == (inputs, units)
        assert (weights.start, weights.stop) == (at, at + inputs * units)
        at = weights.stop + units
        assert (biases.start, biases.stop) == (weights.stop, at)
    assert (net.operations(examples), net.parameters) == (counted, at)


@pytest.mark.parametrize("widths", [(20, 16, 12, 3), (5, 9), (3, 1, 8, 2)])
@pytest.mark.parametrize("most", [1, 7, 64])
def test_the_memory_that_is_told_is_what_is_taken(monkeypatch, widths, most):
    net, taken = network(widths=widths), []
    with opened("numpy") as (session,):
        given_ = session.empty

        def empty(shape, dtype):
            taken.append(given_(shape, dtype))
            return taken[-1]

        monkeypatch.setattr(session, "empty", empty)
        Replica(net, session, most)
    assert sum(buffer.nbytes for buffer in taken) == net.memory(most)


def test_parameters_to_begin_with_are_seeded():
    net = network(widths=(50, 40, 30))
    one, same, other = net.initial(1), net.initial(1), net.initial(2)
    assert one.dtype == np.float32
    assert one.tobytes() == same.tobytes() != other.tobytes()
    for weights, biases, (inputs, units) in net.slots():
        limit = (6 / (inputs + units)) ** 0.5
        assert 0.95 * limit < abs(one[weights]).max() <= limit * (1 + EPS)
        assert abs(one[weights].mean()) < 4 * limit / (3 * inputs * units) ** 0.5
        assert not one[biases].any()


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


def test_a_target_does_not_depend_on_the_batch():
    """Many at once or each alone, whose products add in another order."""
    examples = line(300, 2).data(10, 1)
    x, y = examples.batch(np.arange(500))
    alone = np.concatenate([examples.batch(np.array([n]))[1] for n in range(500)])
    assert x.shape == (500, 300)
    assert alone.tobytes() == y.tobytes()


def test_a_side_is_the_exact_one():
    """Next to the plane too, where rounding would choose it: held against fractions."""
    examples = line(inputs=50, units=1).data(10, 1)
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
    """None shares a number with a neighbour, nor is shifted into it; epochs differ in order."""
    net = line(inputs=9)
    x, _ = net.data(10, 1).batch(np.arange(200))
    other, _ = net.data(10, 2).batch(np.arange(200))
    assert len(np.unique(x)) > 0.999 * x.size
    assert len(np.intersect1d(x, other)) < 0.001 * x.size
    seeds = (
        0,
        1,
        2**63 - 1,
        2**63,
        2**63 + 1,
        2**64 - 1,
        10**30,
        10**30 + 1,
    )  # no float tells these apart
    firsts = {net.data(10, seed).batch(np.arange(1))[0].tobytes() for seed in seeds}
    assert len(firsts) == len(seeds)
    net = line()
    first, same, other = net.data(100, 1), net.data(100, 1), net.data(100, 2)
    orders = [tuple(first.numbers(100 * e, 100 * (e + 1)).tolist()) for e in range(5)]
    assert len({*orders, tuple(range(100))}) == 6
    assert tuple(same.numbers(200, 300).tolist()) == orders[2]
    assert tuple(other.numbers(0, 100).tolist()) not in orders


def test_examples_are_of_32_bits_and_uniform():
    x, y = line().data(10, 1).batch(np.arange(5000))
    assert (x.dtype, y.dtype) == (np.float32, np.float32)
    assert (x.shape, y.shape) == ((5000, 11), (5000, 3))
    none, nothing = line().data(10, 1).batch(np.arange(0))
    assert (none.shape, nothing.shape) == ((0, 11), (0, 3))
    assert x.min() >= 0
    assert x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / x.size) ** 0.5)
    assert x.var() == pytest.approx(1 / 12, rel=0.02)


@given(SEEDS, st.integers(1, 50), st.integers(0, 4))
def test_each_epoch_holds_every_number_once(seed, count, epoch):
    examples = line().data(count, seed)
    found = examples.numbers(epoch * count, (epoch + 1) * count)
    assert sorted(found.tolist()) == list(range(count))


@given(st.integers(1, 20), st.integers(0, 60), st.lists(st.integers(0, 30), max_size=6))
def test_places_may_be_asked_for_in_parts(count, start, lengths):
    examples = line().data(count, 1)
    stop, found = start, []
    for length in lengths:
        found += examples.numbers(stop, stop + length).tolist()
        stop += length
    assert line().data(count, 1).numbers(start, stop).tolist() == found


NETWORKS = table(__file__)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_those_of_the_layers(name):
    network = NETWORKS[name]
    total = sum(n * out * side**2 + out * more for n, out, side, more in network["layers"])
    assert total == PARAMETERS[name] == network["parameters"]
    assert (nbytes(name), nbytes(name, "float16")) == (4 * total, 2 * total)
