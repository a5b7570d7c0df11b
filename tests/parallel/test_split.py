"""A batch over several devices: every example once, in order, as even as the policy wants."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from tables import tables

from gpumap.errors import QuestionError
from gpumap.parallel.split import balanced, split

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
