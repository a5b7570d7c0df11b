"""A batch over several devices: every example once, in order, as even as the policy wants."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.errors import QuestionError
from gpumap.training.split import balanced, split

SPEEDS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)


@pytest.mark.parametrize(("arguments", "counts"), [
    ((256, 8, "balanced"), (32,) * 8), ((256, 8, "keras"), (32,) * 8),
    ((256, 8, "drop"), (32,) * 8), ((10, 4, "balanced"), (3, 3, 2, 2)),
    ((10, 4, "keras"), (2, 2, 2, 4)), ((10, 4, "drop"), (2, 2, 2, 2)),
    *(((3, 8, policy), (1, 1, 1, 0, 0, 0, 0, 0)) for policy in ("balanced", "keras", "drop")),
    ((0, 2, "balanced"), (0, 0)), ((0, 2, "keras"), (0, 0)), ((7, 1, "keras"), (7,)),
    ((7, 0, "drop"), (7,)), ((10, 2, "weighted", (1.0, 1.0)), (5, 5)),
    # 8/3 and 2 take as long as 2.67; 7/3 and 3 as long as 3
    ((10, 2, "weighted", (3.0, 1.0)), (8, 2)), ((10, 2, "weighted", (1.0, 4.0)), (2, 8)),
    ((10, 2, "weighted", (1.0, 1e-6)), (10, 0)),
])  # fmt: skip
def test_the_counts_of_each_policy(arguments, counts):
    """As balanced, Keras' multi_gpu_model and make_parallel split; one or no device takes all."""
    assert split(*arguments).counts == counts


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


@pytest.mark.parametrize(("arguments", "said"), [
    ((256, 8), []),
    ((3, 8), ["note: 3 of 8 devices are used for 3 examples"]),
    ((1, 2), ["note: 1 of 2 devices are used for 1 example"]),
    ((10, 4, "drop"), ["warning: 2 of 10 examples left out: they make no whole part more"]),
    ((10, 4, "keras"), []),
    ((5, 1), ["note: one device, nothing to split"]),
    ((5, 0), ["note: no device: the host alone, nothing to split"]),
    ((2, 2, "weighted", (1.0, 9.0)), ["note: 1 of 2 devices are used for 2 examples"]),
])  # fmt: skip
def test_what_is_unexpected_is_said(arguments, said):
    """Devices without work, and examples that nobody takes; each with what to do, but for one."""
    notes = split(*arguments).notes
    assert [f"{note.severity}: {note.message}" for note in notes] == said


@pytest.mark.parametrize(("arguments", "message"), [
    ((4, 2, "fair"), "no policy is called 'fair'"),
    ((-1, 2), "-1 examples over 2 devices cannot be"),
    ((4, -2), "4 examples over -2 devices cannot be"),
    ((4, 2, "weighted"), "0 speeds for 2 devices"),
    ((4, 2, "weighted", (1.0, 0.0)), "the speed of device 1 is 0"),
    ((4, 2, "weighted", (float("nan"), 1.0)), "the speed of device 0 is nan"),
    ((4, 2, "weighted", (1.0, float("inf"))), "the speed of device 1 is inf"),
])  # fmt: skip
def test_a_question_that_cannot_be_answered(arguments, message):
    with pytest.raises(QuestionError) as raised:
        split(*arguments)
    (said,) = raised.value.diagnostics
    assert said.message == message
    assert said.hint
