"""The Python API: arrays on named devices, and what it refuses."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import threading

import numpy as np
import pytest

import gpumap

TWO = "dev0->cuda0;dev1->cuda1"
CONVERT = "convert them: .astype('float32'); there is float16, float32, float64"


@pytest.fixture
def context():
    """Open two scripted devices."""
    with gpumap.open(TWO, backend="fake") as opened:
        yield opened


@pytest.fixture
def strict():
    """Open them under the strict policy."""
    with gpumap.open(TWO, backend="fake", policy="strict") as opened:
        yield opened


def numbers(*shape, dtype=np.float32, seed=1):
    """Return random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def moved(context, *, implicit=None):
    """Return the transfers in the trace as (name, device, bytes)."""
    return [
        (event.name, event.device, event.nbytes)
        for event in context.trace
        if event.kind == "transfer" and implicit in (None, event.implicit)
    ]


# --- where arrays are


@pytest.mark.parametrize("target", ["dev0", "dev1", "cpu"])
def test_a_shared_array_is_where_it_was_asked_for(context, target):
    """And comes back as it was: a copy, so what becomes of the original does not matter."""
    source = numbers(3, 4)
    right = source.copy()
    array = context.shared(source, target=target)
    source[:] = 0

    assert (array.target, array.shape, array.dtype, array.nbytes) == (target, (3, 4), "f4", 48)
    assert np.array_equal(array.numpy(), right)
    assert np.array_equal(np.asarray(array), right)


@pytest.mark.parametrize(
    "source",
    [
        numbers(6, 4)[::2],
        numbers(4, 6).T,
        numbers(4, 6)[:, ::-1],
        numbers(4, 6).astype(">f4"),
        numbers(4, 6).astype(">f8")[1:, ::2],
        np.asfortranarray(numbers(4, 6)),
        numbers(3),
        np.float32(2.5),
        numbers(0, 5),
        numbers(2, 3, 4),
    ],
    ids=str,
)
def test_any_layout_may_be_shared(context, source):
    """Strides, byte order, no elements, no axes: what arrives is in C order, for this machine."""
    found = context.shared(source, target="dev0").numpy()

    assert np.array_equal(found, source)
    assert (found.dtype.isnative, found.shape) == (True, source.shape)


def test_a_transfer_is_a_copy_at_the_target(context):
    """Back and forth each way is in the trace; the array itself where it is there already."""
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


def test_two_names_of_one_device_copy_nothing():
    """They share its memory; upstream always copied."""
    with gpumap.open("a->cuda0;b->cuda0", backend="fake") as context:
        array = context.shared(numbers(4, 4), target="a")
        product = gpumap.dot(array, array.transfer("b"))

        assert product.target == "a"
        assert [name for name, *_ in moved(context)] == ["upload"]


# --- what runs where


def test_a_product_runs_where_most_bytes_are(context):
    """The other operand is moved, and the trace says so."""
    small, large = numbers(4, 2), numbers(2, 64)
    a, b = context.shared(small, target="dev0"), context.shared(large, target="dev1")

    product = gpumap.dot(a, b)
    assert product.target == "dev1"
    assert moved(context, implicit=True) == [("copy", "dev0->dev1", small.nbytes)]
    assert np.allclose(product.numpy(), small @ large, rtol=1e-6)


def test_the_first_operand_decides_a_tie(context):
    """Whatever upstream's graph would have found first."""
    a, b = (context.shared(numbers(4, 4), target=name) for name in ("dev0", "dev1"))

    assert [gpumap.dot(a, b).target, gpumap.dot(b, a).target] == ["dev0", "dev1"]


def test_host_data_count_nothing(context):
    """An ndarray beside a small array of a device is moved to the device."""
    a, b = context.shared(numbers(1, 2), target="dev1"), numbers(2, 1000)
    product = gpumap.dot(a, b)

    assert product.target == "dev1"
    assert moved(context, implicit=True) == [("upload", "dev1", b.nbytes)]


def test_the_host_computes_what_is_on_no_device(context):
    """Target cpu is host memory, never a cpu device."""
    a = context.shared(numbers(4, 4), target="cpu")
    product = gpumap.dot(a, a)

    assert product.target == "cpu"
    assert [(event.name, event.device) for event in context.trace] == [("dot", "cpu")]
    assert np.array_equal(product.numpy(), a.numpy() @ a.numpy())


def test_products_of_two_devices_overlap(context):
    """They are queued and not waited for."""
    big = numbers(512, 512)
    arrays = [context.shared(big, target=name) for name in ("dev0", "dev1")]
    for array in arrays:
        gpumap.dot(array, array)
    first, second = (event for event in context.trace if event.name == "dot")

    assert max(first.start, second.start) < min(first.stop, second.stop)


def test_strict_finds_every_implicit_transfer(strict):
    """From the host, from another device; explicit ones are what it wants, numbers are none."""
    a, b = (strict.shared(numbers(4, 4), target=name) for name in ("dev0", "dev1"))

    with pytest.raises(gpumap.ImplicitTransfer, match=r"is on dev1, and .* runs on dev0") as caught:
        gpumap.dot(a, b)
    assert caught.value.diagnostics[0].hint == 'move it before: .transfer("dev0")'
    with pytest.raises(gpumap.ImplicitTransfer, match="is on cpu"):
        gpumap.dot(a, numbers(4, 4))
    assert np.allclose(gpumap.dot(a, b.transfer("dev0")).numpy(), a.numpy() @ b.numpy(), rtol=1e-5)
    assert moved(strict, implicit=True) == []


@pytest.mark.parametrize(
    "use",
    [np.exp, np.asarray, lambda x: float(x.sum()), np.linalg.norm],
    ids=["exp", "asarray", "sum", "norm"],
)
def test_what_numpy_fetches_by_itself_is_implicit(context, strict, use):
    """Nobody wrote a transfer: the trace says so, strict raises; of host memory nothing moves."""
    use(context.shared(numbers(2, 2), target="dev0"))
    assert [name for name, *_ in moved(context, implicit=True)] == ["download"]

    with pytest.raises(gpumap.ImplicitTransfer, match="is on dev0, and it is wanted in") as caught:
        use(strict.shared(numbers(2, 2), target="dev0"))
    assert caught.value.diagnostics[0].hint == "fetch it: .numpy()"
    use(strict.shared(numbers(2, 2), target="cpu"))


def test_an_array_among_data_is_fetched_implicitly(context, strict):
    """`shared` of an array makes a way by the host that nobody asked for."""
    for data in (lambda x: x, lambda x: [x, x]):
        again = context.shared(data(context.shared(numbers(2, 2), target="dev0")), target="dev1")
        assert again.target == "dev1"
        with pytest.raises(gpumap.ImplicitTransfer):
            strict.shared(data(strict.shared(numbers(2, 2), target="dev0")), target="dev1")
    assert {name for name, *_ in moved(context, implicit=True)} == {"download"}


def test_what_is_fetched_by_name_is_asked_for(strict):
    """`.numpy()` and `.transfer("cpu")` pass the strict policy."""
    array = strict.shared(numbers(2, 2), target="dev0")

    assert np.array_equal(array.numpy(), np.asarray(array.transfer("cpu")))
    assert moved(strict, implicit=True) == []


@pytest.mark.parametrize("target", ["dev0", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_negative_is_exact(context, target, dtype):
    """Also of zeros and infinities: the sign of each bit for bit."""
    values = np.array([0.0, -0.0, 1.5, -1e-42, np.inf, -np.inf], dtype)

    found = (-context.shared(values, target=target)).numpy()

    assert found.tobytes() == (-values).tobytes()


# --- what is refused


@pytest.mark.parametrize(
    ("make", "error", "message", "fix"),
    [
        (lambda c: c.shared([1.0], target="dev7"), gpumap.TargetError,
         'there is no target "dev7"', "there are dev0, dev1, cpu"),
        (lambda c: c.shared([1.0], target="cuda0"), gpumap.TargetError,
         'there is no target "cuda0"', "there are dev0, dev1, cpu"),
        (lambda c: c.shared([1.0], target="\x1b[2J"), gpumap.TargetError,
         'there is no target "\\x1b[2J"', "there are dev0, dev1, cpu"),
        (lambda c: c.shared([1, 2], target="dev0"), gpumap.DtypeError,
         "dev0 holds no int64", CONVERT),
        (lambda c: c.shared(["a"], target="cpu"), gpumap.DtypeError,
         "an array holds numbers, not text", "give numbers; there is float16, float32, float64"),
        (lambda c: gpumap.dot(c.shared(numbers(2, 3), "dev0"), numbers(2, 3)), gpumap.ShapeError,
         "dot of shapes (2, 3) and (2, 3)", "the inner lengths differ: 3 and 2"),
        (lambda c: gpumap.dot(c.shared(numbers(3), "dev0"), numbers(3)), gpumap.ShapeError,
         "dot of shapes (3,) and (3,)", "dot takes two matrices: reshape first"),
        (lambda c: c.shared(numbers(2, 3), "dev0") + numbers(3, 2), gpumap.ShapeError,
         "add of shapes (2, 3) and (3, 2)",
         "make them equal, or one the end of the other: (5,) fits to (10, 5)"),
        (lambda c: c.shared(numbers(2), "dev0") + numbers(2, dtype="f8"), gpumap.DtypeError,
         "one operation on float32 and float64", "convert one: .astype() before .shared()"),
        (lambda c: c.shared([1.0], target=[]), gpumap.TargetError,
         'there is no target "[]"', "there are dev0, dev1, cpu"),
        (lambda c: c.shared([1.0], "dev0").transfer(None), gpumap.TargetError,
         'there is no target "None"', "there are dev0, dev1, cpu"),
        (lambda c: c.wait(None), gpumap.ContextError,
         "NoneType is not an array of a context", "make one by context.shared(array, target=...)"),
        (lambda c: c.fetched(numbers(2)), gpumap.ContextError,
         "ndarray is not an array of a context", "make one by context.shared(array, target=...)"),
        (lambda c: c.shared(numbers(2), "dev0") + 10**400, gpumap.DtypeError,
         "an integer of 1329 bits does not fit into float32", "use a smaller number"),
        (lambda c: c.shared(np.ma.array([1.0, 2.0], mask=[0, 1]), "dev0"), gpumap.DtypeError,
         "a masked array would lose its mask", "fill it before: .filled(0)"),
        (lambda c: c.shared(numbers(2), "dev0") + np.ma.array(numbers(2)), gpumap.DtypeError,
         "a masked array would lose its mask", "fill it before: .filled(0)"),
        (lambda c: pickle.dumps(c.shared(numbers(2), "dev0")), gpumap.Unsupported,
         "an array of a context cannot be pickled, nor copied deeply: its .numpy() can",
         "use .numpy(), and context.shared() where it is needed"),
        (lambda c: copy.deepcopy(c.shared(numbers(2), "dev0")), gpumap.Unsupported,
         "an array of a context cannot be pickled, nor copied deeply: its .numpy() can",
         "use .numpy(), and context.shared() where it is needed"),
        (copy.copy, gpumap.Unsupported,
         "a context cannot be pickled, nor copied: its devices are this process's",
         "open another one: gpumap.open()"),
        (lambda _: gpumap.dot(numbers(2, 2), numbers(2, 2)), gpumap.ContextError,
         "dot needs an array of a context", "make one by context.shared(array, target=...)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_what_is_there(context, make, error, message, fix):
    """Own errors, that are Python's own kinds too."""
    with pytest.raises(error) as caught:
        make(context)

    assert (str(caught.value), caught.value.diagnostics[0].hint) == (message, fix)


@pytest.mark.parametrize("data", [[[1.0, 2.0], [3.0]], [[1.0], 2.0]], ids=str)
def test_ragged_lists_are_of_no_shape(context, data):
    """In gpumap's words, with NumPy's reason."""
    with pytest.raises(gpumap.ShapeError, match="inhomogeneous") as caught:
        context.shared(data, target="dev0")
    assert caught.value.diagnostics[0].hint == "give each list in a list the same length"


@pytest.mark.parametrize("target", ["dev0", "cpu"])
def test_more_than_the_host_holds_is_said(context, target):
    """A broadcast array takes four bytes, and its copy 3.6 TiB; the context goes on."""
    vast = np.broadcast_to(np.float32(1), (1_000_000, 1_000_000))

    with pytest.raises(gpumap.DeviceError, match=r"the host has no room: .* 3\.64 TiB") as caught:
        context.shared(vast, target=target)
    assert caught.value.code == "out-of-memory"
    assert context.shared(numbers(2), target=target).numpy().shape == (2,)


def test_a_shallow_copy_is_the_array_itself(context):
    """It is immutable; a second owner of its memory would not be told when the context closes."""
    array = context.shared(numbers(2), target="dev0")

    assert copy.copy(array) is array


def test_errors_are_also_pythons_own():
    """Who catches ValueError for shapes is right."""
    assert issubclass(gpumap.ShapeError, ValueError)
    assert issubclass(gpumap.DtypeError, TypeError)
    assert issubclass(gpumap.TargetError, LookupError)


@pytest.mark.parametrize(
    "use",
    [
        lambda c, _: c.shared([1.0], target="dev0"),
        lambda _, a: a.numpy(),
        lambda _, a: a.transfer("dev1"),
        lambda _, a: gpumap.dot(a, a),
        lambda _, a: a + 1.0,
        lambda _, a: a.sum(),
        lambda c, _: c.synchronize(),
    ],
)
def test_a_closed_context_is_said(use):
    """Whatever is asked of it; what is left can still be looked at."""
    with gpumap.open(TWO, backend="fake") as context:
        array = context.shared(numbers(2, 2), target="dev0")

    with pytest.raises(gpumap.ContextError, match="closed"):
        use(context, array)
    assert repr(array) == "<gpumap.Array (2, 2) float32 on a closed context>"
    assert [event.name for event in context.trace] == ["upload"]
    context.close()


def test_arrays_of_two_contexts_do_not_mix(context):
    """Their devices may be driven by different libraries."""
    with gpumap.open(TWO, backend="fake") as other:
        mine, theirs = (c.shared(numbers(2, 2), target="dev0") for c in (context, other))
        with pytest.raises(gpumap.ContextError, match="another context"):
            gpumap.dot(mine, theirs)


def test_a_map_that_is_not_there_opens_nothing():
    """The command line's own errors."""
    with pytest.raises(gpumap.AbsentError):
        gpumap.open("a->cuda0;b->cuda77", backend="fake")
    with pytest.raises(gpumap.MapError):
        gpumap.open("a=>cuda0", backend="fake")
    for wrong in (5, b"a->cuda0", ["a->cuda0"]):
        with pytest.raises(gpumap.MapError, match=r"^the map is (int|bytes|list), not text\n"):
            gpumap.open(wrong, backend="fake")
    for wrong in (5, ["fake"]):
        with pytest.raises(gpumap.GpumapError, match=r"^the backend is (int|list), not a name\n"):
            gpumap.open(TWO, backend=wrong)
    with pytest.raises(gpumap.GpumapError, match=r"no policy \['strict'\]"):
        gpumap.open(TWO, backend="fake", policy=["strict"])
    with pytest.raises(gpumap.GpumapError, match="no policy 'loose'"):
        gpumap.open(TWO, backend="fake", policy="loose")


def test_the_environment_may_name_the_backend(monkeypatch):
    """As for the commands; the argument comes before it, and an empty variable is none."""
    monkeypatch.setenv("GPUMAP_BACKEND", "fake")
    with gpumap.open("a->cpu0") as context:
        assert context.bindings[0].device.backend == "fake"
    with gpumap.open("a->cpu0", backend="numpy") as context:
        assert context.bindings[0].device.backend == "numpy"
    monkeypatch.setenv("GPUMAP_BACKEND", "")
    with gpumap.open("a->cpu0") as context:
        assert context.bindings[0].device.backend == "numpy"
    monkeypatch.setenv("GPUMAP_BACKEND", "\x1b")
    with pytest.raises(gpumap.GpumapError, match=r'no backend is called "\\x1b"'):
        gpumap.open("a->cpu0")


# --- which line did it


def line_here():
    """Return the caller's next line, as a trace has it."""
    frame = inspect.currentframe().f_back
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno + 1}"


def test_an_event_tells_the_line_that_caused_it(context):
    """Not one of gpumap's own: of an operator, of a transfer that nobody asked for, of the host."""
    lines = [line_here()]
    a, b = context.shared(numbers(4, 4), target="dev0"), context.shared(numbers(4, 4), "dev1")
    lines += [line_here()]
    _ = a + b
    lines += [line_here()]
    a.numpy()
    host = context.shared(numbers(2, 2), target="cpu")
    lines += [line_here()]
    gpumap.dot(host, host)

    made = [(event.name, event.line) for event in context.trace]
    assert made == [
        ("upload", lines[0]), ("upload", lines[0]), ("copy", lines[1]), ("add", lines[1]),
        ("download", lines[2]), ("dot", lines[3]),
    ]  # fmt: skip


def test_a_line_of_a_file_elsewhere_keeps_its_path(context, tmp_path):
    """Only what is in the current folder is shortened; what has no file says so."""
    program = compile("context.shared([1.0], target='cpu').sum()", str(tmp_path / "p.py"), "exec")
    for text in (program, "context.shared([1.0], target='cpu').sum()"):
        exec(text, {"context": context})  # noqa: S102 - a program

    assert [event.line for event in context.trace] == [f"{tmp_path / 'p.py'}:1", "<string>:1"]


# --- lives


def test_memory_is_given_back(context):
    """When an array is no longer used, and of all when the context closes."""
    array = context.shared(numbers(4, 4), target="dev0")
    kept = gpumap.dot(array, array)
    assert context.live == 2
    del array
    gc.collect()
    assert context.live == 1

    context.close()
    assert (context.live, kept.held) == (0, None)


def test_an_exception_closes_the_context():
    """And goes on as it is."""
    opened = []

    def program():
        with gpumap.open(TWO, backend="fake") as context:
            opened.append(context)
            context.shared(numbers(4), target="dev0")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()
    assert opened[0].live == 0


def test_what_went_wrong_unseen_is_raised_at_the_end(monkeypatch):
    """Nobody waited for it; the context is closed all the same, and its trace is there."""
    context = gpumap.open("a->cpu0")
    array = context.shared(numbers(4, 4), target="a")

    def broken(*_):
        raise ZeroDivisionError("of the driver")

    monkeypatch.setattr("gpumap.backends.numpy._product", broken)
    gpumap.dot(array, array)

    with pytest.raises(ZeroDivisionError, match="of the driver"):
        context.close()
    assert (context.closed, context.live) == (True, 0)
    assert [event.name for event in context.trace] == ["upload", "dot"]


def test_overflow_is_a_number_and_no_warning():
    """As on any device; NumPy would warn in the thread of the core."""
    with gpumap.open("a->cpu0") as context:
        huge = context.shared(np.full((2, 2), 3e38, np.float32), target="a")

        assert np.isinf((huge * 10.0).numpy()).all()
        assert np.isinf(gpumap.dot(huge, huge).numpy()).all()


def test_ten_thousand_small_arrays(context):
    """All of them live at once, and each has its own numbers."""
    arrays = [context.shared(np.float32([n]), target=f"dev{n % 2}") for n in range(10_000)]

    assert context.live == 10_000
    assert [array.numpy()[0] for array in arrays[::999]] == list(range(0, 10_000, 999))


def test_two_threads_may_use_one_context(context):
    """One at a time queues; nothing is lost or mixed."""
    found, problems = {}, []

    def work(name):
        try:
            array = context.shared(numbers(32, 32, seed=int(name[-1])), target=name)
            for _ in range(50):
                array = gpumap.dot(array, np.eye(32, dtype=np.float32))
            found[name] = array.numpy()
        except Exception as error:  # noqa: BLE001 - told by the test
            problems.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("dev0", "dev1")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert problems == []
    for name in ("dev0", "dev1"):
        assert np.array_equal(found[name], numbers(32, 32, seed=int(name[-1])))


def test_a_fork_may_not_use_it(context):
    """A child has no devices; the parent goes on."""
    array = context.shared(numbers(2, 2), target="dev0")
    child = os.fork()
    if not child:
        try:
            array.numpy()
        except gpumap.ContextError as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)

    assert os.waitpid(child, 0)[1] == 0
    assert array.numpy().shape == (2, 2)


# --- without elements


@pytest.mark.parametrize(("a", "b"), [((0, 5), (5, 3)), ((3, 0), (0, 4)), ((3, 5), (5, 0))])
def test_products_without_elements(context, a, b):
    """As NumPy: no elements, or zeros."""
    left = context.shared(np.ones(a, np.float32), target="dev0")
    found = gpumap.dot(left, np.ones(b, np.float32)).numpy()

    assert np.array_equal(found, np.ones(a, np.float32) @ np.ones(b, np.float32))


def test_the_names_of_the_package():
    """What `from gpumap import *` gives is there, and sorted."""
    assert gpumap.__all__ == sorted(gpumap.__all__)
    assert all(getattr(gpumap, name) is not None for name in gpumap.__all__)
    assert set(gpumap.__all__) <= set(dir(gpumap))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gpumap.nothing
