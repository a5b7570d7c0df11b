"""A batch over several devices: every example once, in order, as even as the policy wants."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal
from tables import tables

from gpumap.errors import QuestionError
from gpumap.parallel.network import Layer, Network
from gpumap.parallel.split import Examples, balanced, split

TABLES = tables(__file__)

SPEEDS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)


@pytest.mark.parametrize(("arguments", "counts"), TABLES["counts"])
def test_the_counts_of_each_policy(arguments, counts):
    """As balanced, Keras' multi_gpu_model and make_parallel split; one or no device takes all."""
    assert list(split(*arguments).counts) == counts


@given(st.integers(0, 12), st.lists(st.sampled_from([0.1, 1.0, 1.5, 2.0, 7.0]), min_size=2,
                                    max_size=3))  # fmt: skip
def test_no_split_by_speed_ends_sooner(examples, speeds):
    found = split(examples, len(speeds), "weighted", speeds).counts
    others = (c for c in product(range(examples + 1), repeat=len(speeds)) if sum(c) == examples)
    best = min(max(n / speed for n, speed in zip(c, speeds, strict=True)) for c in others)
    assert max(n / speed for n, speed in zip(found, speeds, strict=True)) == best


@given(st.integers(0, 300), st.integers(0, 20), st.sampled_from(["balanced", "keras", "drop"]))
def test_every_example_is_taken_once_and_in_order(examples, devices, policy):
    batch = list(range(examples))
    found = split(examples, devices, policy)
    parts = [batch[part] for _, part in found.parts()]
    assert [example for part in parts for example in part] == batch[: examples - found.dropped]
    assert all(parts)  # nobody is given an empty batch
    assert len(found.counts) == max(devices, 1)
    assert found.dropped == 0 or policy == "drop"
    assert len(parts) == min(max(devices, 1), examples)


@given(st.integers(0, 300), SPEEDS)
def test_a_split_by_speed_takes_every_example(examples, speeds):
    found = split(examples, len(speeds), "weighted", speeds)
    assert (sum(found.counts), found.dropped) == (examples, 0)
    if len(speeds) > 1:
        shares = [examples * speed / sum(speeds) for speed in speeds]
        assert all(n > share - 1 for n, share in zip(found.counts, shares, strict=True))


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_balanced_parts_differ_by_one_at_most(total, parts):
    counts = balanced(total, parts)
    assert (sum(counts), len(counts)) == (total, parts)
    assert max(counts) - min(counts) <= 1
    assert list(counts) == sorted(counts, reverse=True)


@pytest.mark.parametrize(("arguments", "said"), TABLES["notes"])
def test_what_is_unexpected_is_said(arguments, said):
    """Devices without work, and examples that nobody takes; each with what to do, but for one."""
    notes = split(*arguments).notes
    assert [f"{note.severity}: {note.message}" for note in notes] == said


@pytest.mark.parametrize(("arguments", "message"), TABLES["questions"])
def test_a_question_that_cannot_be_answered(arguments, message):
    assert refusal(QuestionError, split, *arguments).message == message


SEEDS = st.integers(0, 2**64 - 1)


def network(last="sigmoid", inputs=11, units=3):
    return Network("small", inputs, (Layer(units, last),))


@settings(deadline=None)
@given(SEEDS, st.integers(1, 40), st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_an_example_is_a_function_of_seed_and_number(seed, inputs, numbers):
    net = network(inputs=inputs)
    x, y = Examples(net, 10, seed).batch(np.array(numbers))
    for row, number in enumerate(numbers):
        alone_x, alone_y = Examples(net, 99, seed).batch(np.array([number]))
        assert alone_x.tobytes() == x[row].tobytes()
        assert alone_y.tobytes() == y[row].tobytes()


@pytest.mark.parametrize("last", ["sigmoid", "softmax"])
def test_a_target_does_not_depend_on_the_batch(last):
    """Many at once or each alone, whose products add in another order."""
    examples = Examples(network(last, 300, 2), 10, 1)
    x, y = examples.batch(np.arange(500))
    alone = np.concatenate([examples.batch(np.array([n]))[1] for n in range(500)])
    assert x.shape == (500, 300)
    assert alone.tobytes() == y.tobytes()


def test_a_side_is_the_exact_one():
    """Next to the plane too, where rounding would choose it: held against fractions."""
    examples = Examples(network(inputs=50, units=1), 10, 1)
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
    net = network(inputs=9)
    x, _ = Examples(net, 10, 1).batch(np.arange(200))
    other, _ = Examples(net, 10, 2).batch(np.arange(200))
    assert len(np.unique(x)) > 0.999 * x.size
    assert len(np.intersect1d(x, other)) < 0.001 * x.size
    seeds = (0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1)  # no float tells these apart
    firsts = {Examples(net, 10, seed).batch(np.arange(1))[0].tobytes() for seed in seeds}
    assert len(firsts) == len(seeds)


def test_examples_are_of_32_bits_and_uniform():
    x, y = Examples(network(), 10, 1).batch(np.arange(5000))
    assert (x.dtype, y.dtype) == (np.float32, np.float32)
    assert (x.shape, y.shape) == ((5000, 11), (5000, 3))
    none, nothing = Examples(network(), 10, 1).batch(np.arange(0))
    assert (none.shape, nothing.shape) == ((0, 11), (0, 3))
    assert x.min() >= 0
    assert x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / x.size) ** 0.5)
    assert x.var() == pytest.approx(1 / 12, rel=0.02)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 50), st.integers(0, 4))
def test_each_epoch_holds_every_number_once(seed, count, epoch):
    examples = Examples(network(), count, seed)
    found = examples.numbers(epoch * count, (epoch + 1) * count)
    assert sorted(found.tolist()) == list(range(count))


def test_each_epoch_has_another_order():
    net = network()
    first, same, other = Examples(net, 100, 1), Examples(net, 100, 1), Examples(net, 100, 2)
    orders = [tuple(first.numbers(100 * e, 100 * (e + 1)).tolist()) for e in range(5)]
    assert len({*orders, tuple(range(100))}) == 6
    assert tuple(same.numbers(200, 300).tolist()) == orders[2]
    assert tuple(other.numbers(0, 100).tolist()) not in orders


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 60), st.lists(st.integers(0, 30), max_size=6))
def test_places_may_be_asked_for_in_parts(count, start, lengths):
    examples = Examples(network(), count, 1)
    stop, found = start, []
    for length in lengths:
        found += examples.numbers(stop, stop + length).tolist()
        stop += length
    assert Examples(network(), count, 1).numbers(start, stop).tolist() == found


@pytest.mark.parametrize(("inputs", "units"), [(1, 1), (2, 2), (100, 5)])
def test_all_targets_occur(inputs, units):
    """Both of a sigmoid, about as often; one for each example of a softmax."""
    _, y = Examples(network("sigmoid", inputs, 4), 10, 1).batch(np.arange(2000))
    assert set(np.unique(y).tolist()) == {0.0, 1.0}
    assert (abs(y.mean(axis=0) - 0.5) < 4 * 0.5 / 2000**0.5).all()
    softmax = Examples(network("softmax", 20, units), 10, 1)
    _, y = softmax.batch(np.arange(1000))
    assert set(np.unique(y).tolist()) <= {0.0, 1.0}
    assert (y.sum(axis=1) == 1).all()
    assert (y.sum(axis=0) > 0).all()
    middle = np.full((2, 20), 0.5, np.float32)  # where all directions lie alike
    assert softmax._targets(middle).tolist() == [[1.0] + [0.0] * (units - 1)] * 2
