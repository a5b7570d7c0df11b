"""A network's gradient is right, wherever it is computed and however the batch is cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import got, opened, places

from gpumap.backends.fake.clock import Engine, FakeClock
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.backends.fake.session import FakeSession
from gpumap.errors import Unsupported
from gpumap.training.network import Layer, Network, Replica, cross_entropy, outputs, reference
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
