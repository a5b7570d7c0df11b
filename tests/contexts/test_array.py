"""What Python itself does with an array: nothing of it changes, and nothing is guessed."""

import operator

import numpy as np
import pytest

import gpumap

PAIR = np.float32([1, 2])


def test_no_attribute_can_be_assigned(context):
    """An array is where it is: `transfer` makes another one."""
    array = context.shared(PAIR, target="dev0")
    for name in ("context", "target", "shape", "dtype", "size", "nbytes", "ndim"):
        with pytest.raises(AttributeError):
            setattr(array, name, "dev1")
    assert (array.target, array.shape, array.size, array.nbytes, array.ndim) == (
        "dev0", (2,), 2, 8, 1,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_arrays_are_not_compared(context, name):
    """From either side; the error says how. By `is` they are keys; `==` in a list raises."""
    array, other = (context.shared(PAIR, target="dev0") for _ in range(2))
    for one in (1.0, None, np.ones(2), other, array):
        for pair in ((array, one), (one, array)):
            with pytest.raises(TypeError, match=r"compare their \.numpy\(\)"):
                getattr(operator, name)(*pair)
    assert {array: 1, other: 2}[other] == 2
    assert len({array, other, array}) == 2
    assert array in [array, other]
    with pytest.raises(TypeError):
        assert other in [array, other]


@pytest.mark.parametrize(("number", "true"), [(0.0, False), (-0.0, False), (2.5, True)])
@pytest.mark.parametrize("target", ["dev0", "cpu"])
def test_one_number_is_true_or_false(context, strict, number, true, target):
    """As it is in NumPy, and an integer as well as a float; fetched, which the trace has."""
    array = context.shared(np.float32(number), target=target)
    assert (bool(array), int(array), float(array)) == (true, int(number), number)
    fetches = 3 * (target == "dev0")
    assert [e.name for e in context.trace if e.implicit] == ["download"] * fetches
    for use in (bool, int, float)[:fetches]:
        with pytest.raises(gpumap.ImplicitTransfer):
            use(strict.shared(np.float32(number), target=target))


@pytest.mark.parametrize("data", [[], [0.0], [1.0, 2.0]], ids=str)
def test_several_numbers_are_neither_true_nor_false(context, data):
    """Nor is their count; the error says what to ask instead."""
    with pytest.raises(TypeError, match=r"\.numpy\(\)\.any\(\)"):
        bool(context.shared(np.float32(data), target="dev0"))


@pytest.mark.parametrize("data", ["x", b"x", None, [{}]])
def test_what_is_no_number_is_refused(context, data):
    """As an operand, and as data; of what may be, each operation has one name in the trace."""
    array = context.shared(PAIR, target="dev0")
    for use in (lambda: array + data, lambda: context.shared(data, target="dev0")):
        with pytest.raises(gpumap.DtypeError):
            use()
    context.shared(np.float32([[1, 2], [3, 4]]), target="dev0") + array
    assert [event.name for event in context.trace if event.kind == "operation"] == ["add"]
