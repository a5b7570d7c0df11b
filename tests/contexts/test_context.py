"""The Python API: arrays on named devices, and what it refuses."""

import builtins
import copy
import gc
import operator
import os
import unittest.mock
import weakref
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal
from tables import table

import gpumap
from gpumap.contexts.array import place

TABLE = table(__file__)
PAIR = np.float32([1, 2])
TWO = "dev0->cuda0;dev1->cuda1"


@pytest.fixture
def context():
    with gpumap.open(TWO, backend="fake") as opened:
        yield opened


@pytest.fixture
def strict():
    with gpumap.open(TWO, backend="fake", policy="strict") as opened:
        yield opened


def numbers(*shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def moved(context, *, implicit=None):
    return [
        (event.name, event.device, event.nbytes)
        for event in context.trace
        if event.kind == "transfer" and implicit in (None, event.implicit)
    ]


def one(context, *shape):
    return context.shared(numbers(*shape or (2,)), target="dev0")


@pytest.mark.parametrize("target", ["dev0", "dev1", "cpu"])
def test_a_shared_array_is_where_it_was_asked_for(context, target):
    """And comes back as it was, a copy; a negative is exact, the sign of each bit for bit."""
    source = numbers(3, 4)
    right = source.copy()
    array = context.shared(source, target=target)
    source[:] = array.numpy()[:] = 0
    assert (array.target, array.shape, array.dtype, array.nbytes) == (target, (3, 4), "f4", 48)
    assert np.array_equal(array.numpy(), right)
    assert np.array_equal(np.asarray(array), right)
    for dtype in (np.float32, np.float64):
        values = np.array([0.0, -0.0, 1.5, -1e-42, np.inf, -np.inf], dtype)
        assert (-context.shared(values, target=target)).numpy().tobytes() == (-values).tobytes()


@pytest.mark.parametrize("source", TABLE["layouts"])
def test_any_layout_may_be_shared(context, source):
    """Strides, byte order, no elements, no axes: what arrives is in C order, for this machine."""
    source = eval(source, {"np": np, "numbers": numbers})  # noqa: S307 - a program
    found = context.shared(source, target="dev0").numpy()
    assert np.array_equal(found, source)
    assert (found.dtype.isnative, found.shape) == (True, source.shape)


def test_a_transfer_is_a_copy_at_the_target(context):
    """Each way is in the trace; nothing moves to where the array is, by any name of its device."""
    array = context.shared(numbers(4, 4), target="dev0")
    there = array.transfer("dev1")
    back = there.transfer("dev0")
    assert array.transfer("dev0") is array
    assert [each.target for each in (there, back)] == ["dev1", "dev0"]
    assert np.array_equal(back.numpy(), array.numpy())
    assert moved(context)[:3] == [
        ("upload", "dev0", 64), ("copy", "dev0->dev1", 64), ("copy", "dev1->dev0", 64),
    ]  # fmt: skip
    assert moved(context, implicit=True) == []
    with gpumap.open("a->cuda0;b->cuda0", backend="fake") as shared:
        array = shared.shared(numbers(4, 4), target="a")
        assert gpumap.dot(array, array.transfer("b")).target == "a"
        assert [name for name, *_ in moved(shared)] == ["upload"]


def test_strict_finds_every_implicit_transfer(strict):
    """From the host, from another device; explicit ones are what it wants, numbers are none."""
    a, b = (strict.shared(numbers(4, 4), target=name) for name in ("dev0", "dev1"))
    for other in (b, numbers(4, 4)):
        with pytest.raises(gpumap.ImplicitTransfer):
            gpumap.dot(a, other)
    right = np.asarray(a.transfer("cpu")) @ b.numpy()
    assert np.allclose(gpumap.dot(a, b.transfer("dev0")).numpy(), right, rtol=1e-5)
    assert moved(strict, implicit=True) == []


@pytest.mark.parametrize("use", [
    np.exp, np.asarray, lambda x: float(x.sum()), np.linalg.norm,
    lambda x: x.context.shared(x, target="dev1"),
    lambda x: x.context.shared([x, x], target="dev1"),
], ids=["exp", "asarray", "sum", "norm", "shared", "list"])  # fmt: skip
def test_what_numpy_fetches_by_itself_is_implicit(context, strict, use):
    """No one wrote a transfer: the trace says so, strict raises; of host memory nothing moves."""
    use(context.shared(numbers(2, 2), target="dev0"))
    assert {name for name, *_ in moved(context, implicit=True)} == {"download"}
    there = strict.shared(numbers(2, 2), target="dev0")
    assert refusal(gpumap.ImplicitTransfer, use, there).hint == "fetch it: .numpy()"
    use(strict.shared(numbers(2, 2), target="cpu"))


@pytest.mark.parametrize("wrong", TABLE["wrong"], ids=lambda wrong: wrong["error"])
def test_what_is_wrong_is_named_with_a_fix(context, wrong):
    """Own errors, that are Python's own kinds too; nothing in them acts on a terminal."""
    error, kind = getattr(gpumap, wrong["error"]), getattr(builtins, wrong["kind"])
    given = {"context": context, "gpumap": gpumap, "np": np, "numbers": numbers, "one": one}
    for line in wrong["lines"]:
        with pytest.raises(error) as caught:
            eval(line, given)  # noqa: S307 - a program
        assert isinstance(caught.value, kind)
        assert str(caught.value).isprintable()
        assert caught.value.diagnostics[0].hint
    array = one(context)
    assert copy.copy(array) is array  # it is immutable
    with pytest.raises(AttributeError):
        array.shape = (1, 2)


@pytest.mark.parametrize("use", TABLE["closed"])
def test_a_closed_context_is_said(context, use):
    array = one(context, 2, 2)
    context.close()
    with pytest.raises(gpumap.ContextError, match="closed"):
        eval(use, {"gpumap": gpumap, "array": array})  # noqa: S307 - a program
    assert repr(array) == "<gpumap.Array (2, 2) float32 on a closed context>"
    assert [event.name for event in context.trace] == ["upload"]
    context.close()


@pytest.mark.parametrize(("file", "shown"), [
    (str(Path("here.py").resolve()), "here.py"), ("/elsewhere/p.py", "/elsewhere/p.py"),
    ("<string>", "<string>"),
])  # fmt: skip
def test_an_event_tells_the_line_that_caused_it(context, file, shown):
    """Of an operator, of an implicit transfer, of the host; paths below this folder are short."""
    given = {"context": context, "gpumap": gpumap, "ones": numbers(2, 2)}
    exec(compile(TABLE["program"], file, "exec"), given)  # noqa: S102 - a program
    events = [("upload", 1), ("upload", 1), ("copy", 2), ("add", 2), ("download", 3), ("dot", 5)]
    made = [(event.name, event.line) for event in context.trace]
    assert made == [(name, f"{shown}:{line}") for name, line in events]


def test_memory_is_given_back(context):
    """When an array is no longer used, and of all when the context closes, by an exception too."""
    array = one(context, 4, 4)
    kept, memory = gpumap.dot(array, array), weakref.ref(array.held)
    del array
    gc.collect()
    assert memory() is None
    with pytest.raises(ZeroDivisionError), context:
        raise ZeroDivisionError
    assert (context.closed, kept.held) == (True, None)


def test_what_went_wrong_unseen_is_raised_at_the_end(monkeypatch):
    """The context is closed, with its trace; overflow is a number, and no warning of a thread."""
    with gpumap.open("a->cpu0") as context:
        huge = context.shared(np.full((2, 2), 3e38, np.float32), target="a")
        assert all(np.isinf(each.numpy()).all() for each in (huge * 10.0, gpumap.dot(huge, huge)))
    context = gpumap.open("a->cpu0")
    array = context.shared(numbers(4, 4), target="a")
    broken = unittest.mock.Mock(side_effect=ZeroDivisionError("of the driver"))
    monkeypatch.setattr("gpumap.backends.numpy.NumpySession._product", broken)
    gpumap.dot(array, array)
    with pytest.raises(ZeroDivisionError, match="of the driver"):
        context.close()
    assert context.closed
    assert [event.name for event in context.trace] == ["upload", "dot"]


def test_a_fork_may_not_use_it(context):
    """A child has no devices; the parent goes on."""
    array, code = one(context), 1
    child = os.fork()
    if not child:
        try:
            array.numpy()
        except gpumap.ContextError as error:
            code = 0 if "forked" in str(error) else 2
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert array.numpy().shape == (2,)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_arrays_are_not_compared(context, name):
    """From either side; the error says how. By `is` they are keys; `==` in a list raises."""
    array, other = (context.shared(PAIR, target="dev0") for _ in range(2))
    for one in (1.0, None, np.ones(2), other, array):
        for pair in ((array, one), (one, array)):
            with pytest.raises(TypeError, match=r"compare their \.numpy\(\)"):
                getattr(operator, name)(*pair)
    assert {array: 1, other: 2}[other] == 2
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
    with pytest.raises(TypeError, match=r"\.numpy\(\)\.any\(\)"):
        bool(context.shared(np.float32(data), target="dev0"))


def test_a_context_has_its_names_and_their_devices(context):
    """By the names of the map; an array has its device; the only name is the default target."""
    array = one(context)
    assert list(context) == ["dev0", "dev1"]
    assert context["dev1"] == gpumap.Binding("dev1", context.bindings[1].device)
    assert array.device is context["dev0"].device
    assert array.to("dev1").target == "dev1"
    assert array.transfer("cpu").device is None
    for name in ("cpu", "dev2", 0):
        with pytest.raises(gpumap.TargetError, match="there is no target"):
            context[name]
    with pytest.raises(gpumap.TargetError, match="the map has 2 names"):
        context.shared(PAIR)
    with gpumap.open("only->cuda0", backend="fake") as opened:
        assert opened.shared(PAIR).target == "only"


@pytest.mark.parametrize(("operands", "target"), TABLE["places"])
def test_an_operation_runs_where_the_most_bytes_are(operands, target):
    """On a device, whatever its names; host data count nothing."""
    assert target == place([tuple(each) for each in operands])


def test_a_method_of_array_libraries_points_to_them(context):
    """Protocols only learn that it is not there."""
    array = one(context)
    with pytest.raises(AttributeError, match=r"no 'reshape': they are no array library.*dlpack"):
        array.reshape(1, 2)
    assert not hasattr(array, "__cuda_array_interface__")
