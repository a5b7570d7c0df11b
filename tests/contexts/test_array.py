"""What Python itself does with an array: nothing of it changes, and nothing is guessed."""

import operator

import numpy as np
import pytest

import gpumap


@pytest.fixture
def context():
    """Open two scripted devices."""
    with gpumap.open("a->cuda0;b->cuda1", backend="fake") as opened:
        yield opened


def put(context, data, target="a"):
    """Return data on a device."""
    return context.shared(np.float32(data), target=target)


def test_no_attribute_can_be_assigned(context):
    """An array is where it is: `transfer` makes another one."""
    array = put(context, [1, 2])
    for name in ("context", "target", "shape", "dtype", "size", "nbytes", "ndim"):
        with pytest.raises(AttributeError):
            setattr(array, name, "b")
    assert (array.target, array.shape, array.size, array.nbytes, array.ndim) == ("a", (2,), 2, 8, 1)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("other", [1.0, None, np.ones(2), "array", "itself"], ids=str)
def test_arrays_are_not_compared(context, name, other):
    """Neither by identity nor element by element, from either side; the error says how."""
    array = put(context, [1, 2])
    named = {"array": put(context, [1, 2]), "itself": array}
    other = named[other] if isinstance(other, str) else other
    for pair in ((array, other), (other, array)):
        with pytest.raises(TypeError, match=r"compare their \.numpy\(\)"):
            getattr(operator, name)(*pair)


def test_arrays_are_keys_by_identity(context):
    """Python asks `is` first; a list is searched by `==` up to the place, and that raises."""
    one, two = put(context, [1, 2]), put(context, [1, 2])
    assert {one: 1, two: 2}[two] == 2
    assert len({one, two, one}) == 2
    assert one in [one, two]
    assert any(each is two for each in [one, two])
    with pytest.raises(TypeError):
        assert two in [one, two]


@pytest.mark.parametrize(("number", "true"), [(0.0, False), (-0.0, False), (2.5, True)])
@pytest.mark.parametrize("target", ["a", "cpu"])
def test_one_number_is_true_or_false(context, number, true, target):
    """As it is in NumPy, and an integer as well as a float; fetched, which the trace has."""
    array = put(context, number, target)
    assert (bool(array), int(array), float(array)) == (true, int(number), number)
    assert [e.name for e in context.trace if e.implicit] == ["download"] * 3 * (target == "a")
    with gpumap.open("a->cuda0", backend="fake", policy="strict") as strict:
        for use in (bool, int, float) if target == "a" else ():
            with pytest.raises(gpumap.ImplicitTransfer):
                use(put(strict, number, target))


@pytest.mark.parametrize("data", [[], [0.0], [1.0, 2.0]], ids=str)
def test_several_numbers_are_neither_true_nor_false(context, data):
    """Nor is their count; the error says what to ask instead."""
    with pytest.raises(TypeError, match=r"\.numpy\(\)\.any\(\)"):
        bool(put(context, data))


@pytest.mark.parametrize("data", ["x", b"x", None, [{}]])
def test_what_is_no_number_is_refused(context, data):
    """As an operand, and as data; of what may be, each operation has one name in the trace."""
    for use in (lambda: put(context, 1.0) + data, lambda: context.shared(data, target="a")):
        with pytest.raises(gpumap.DtypeError):
            use()
    put(context, [[1, 2], [3, 4]]) + put(context, [1, 2])
    assert [event.name for event in context.trace if event.kind == "operation"] == ["add"]
