"""The table of third-party exceptions: what it makes of them, and that the libraries have them."""

from importlib import import_module
from importlib.util import find_spec

import pytest
import tables

from gpumap.backends import third_party as table
from gpumap.backends.third_party import TABLE, third_party_errors
from gpumap.errors import AbsentError, DeviceError, DeviceLost, OutOfMemory, Unsupported
from gpumap.files import shipped
from gpumap.machine.nvml import NvmlUnavailable, _pynvml
from gpumap.model import Device, DeviceRef, Kind

TABLES = tables.table(__file__)
DEVICE = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "\x1b[1mBoard", "cupy")
NUMBERS = shipped("gpumap.backends", "third_party.toml")["numbers"]


def made(name, *arguments, base=Exception, **attributes):
    module, _, last = name.rpartition(".")
    return type(last, (base,), {"__module__": module, **attributes})(*arguments)


def turned(error):
    with pytest.raises((DeviceError, Unsupported, AbsentError)) as ours, third_party_errors(DEVICE):
        raise error
    assert ours.value.__cause__ is error
    return ours.value


def test_a_hostile_message_is_escaped():
    """A diagnostic has the words as they are; Python, which writes an error, gets them escaped."""
    error = turned(RuntimeError("\x1b]0;owned\x07\nline two \u202e"))
    (said,) = error.diagnostics
    assert said.message == "cuda0 (\x1b[1mBoard): \x1b]0;owned\x07\nline two \u202e"
    assert str(error) == r"cuda0 (\x1b[1mBoard): \x1b]0;owned\x07\nline two \u202e"
    assert said.hint == "`gpumap devices` shows the driver and its memory"


@pytest.mark.parametrize(("error", "said"), [
    (RuntimeError("text"), "text"), (RuntimeError(b"bytes\xff", 5), "bytes\ufffd"),
    (MemoryError(), "MemoryError"),
    (OSError(13, "Permission denied", "/x\n"), r"[Errno 13] Permission denied: '/x\n'"),
])  # fmt: skip
def test_words_are_never_empty_and_never_bytes(error, said):
    assert said == table.message_of(error)


@pytest.mark.parametrize(("error", "expected"), [
    # Python's own: a library that raises them means its driver by them
    (MemoryError(), "OutOfMemory"),
    (ImportError("libcublas.so.13: cannot open shared object file"), "Unsupported"),
    (ModuleNotFoundError("No module named 'x'"), "Unsupported"),
    (NotImplementedError("fancy indexing not supported"), "Unsupported"),
    (PermissionError(13, "Permission denied"), "DeviceError"),
    (RuntimeError("CuPy failed to load libcuda.so.1"), "DeviceError"),
    (ValueError(b"Platform ID out of range"), "AbsentError"),
    # an unknown exception is a failure; libgpuarray's are bytes
    (made("cupy_backends.cuda.api.runtime.CUDARuntimeError"), "DeviceError"),
    *((made(name, **{key: number}), kind) for name, key, number, kind in TABLES["numbered"]),
    *((made(name, text.encode() if name.startswith("pygpu") else text), kind)
      for name, text, kind in TABLES["worded"]),
], ids=repr)  # fmt: skip
def test_a_number_or_a_word_decides(error, expected):
    assert type(turned(error)).__name__ == expected


@pytest.mark.parametrize("error", [
    ValueError("mine"), TypeError("mine"), KeyError("mine"), RecursionError("mine"),
    AssertionError("mine"), KeyboardInterrupt(), Unsupported("ours"),
    made("somelibrary.Error", "of another library"),
])  # fmt: skip
def test_what_is_no_devices_doing_passes(error):
    with pytest.raises(type(error)) as same, third_party_errors(DEVICE):
        raise error
    assert same.value is error


def named(library):
    """Return the name of each number of the table: it is in one group, and success in none."""
    groups = NUMBERS[library]["names"].values()
    pairs = [(int(number), name) for names in groups for number, name in names.items()]
    assert len(pairs) == len(dict(pairs))
    assert 0 not in dict(pairs)
    return dict(pairs)


def test_numbers_of_opencl_have_its_names():
    cl = pytest.importorskip("pyopencl", reason="pyopencl: not installed")
    known = {getattr(cl.status_code, name): name for name in dir(cl.status_code)}
    assert named("OPENCL").items() <= known.items()


def test_numbers_of_nvml_have_its_names():
    try:
        pynvml = _pynvml()
    except NvmlUnavailable as error:
        pytest.skip(f"{error.reason} ({error.fix})")
    for number, name in named("NVML").items():
        assert getattr(pynvml, f"NVML_ERROR_{name}") == number
    assert type(turned(pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))) is DeviceLost


def test_numbers_of_cuda_have_its_names():
    """Of those that this version has."""
    pytest.importorskip("cupy", reason="cupy: not installed")
    from cupy_backends.cuda.api.runtime import CUDARuntimeError

    assert type(turned(CUDARuntimeError(719))) is DeviceLost
    for number, name in named("CUDA").items():
        said, _, text = str(CUDARuntimeError(number)).partition(":")
        assert text.strip() == "unrecognized error code" or said == f"cudaError{name}"


@pytest.mark.parametrize("name", TABLE)
def test_a_class_of_the_table_is_there(name):
    """In each library that is installed, and that finds what it loads."""
    module, _, kind = name.rpartition(".")
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip("not installed")
    try:
        found = import_module(module)
    except ImportError as error:
        pytest.skip(str(error))
    assert issubclass(getattr(found, kind), Exception)


@pytest.mark.parametrize("kind", ["Error", "LogicError", "RuntimeError", "MemoryError"])
def test_real_exceptions_of_pyopencl(kind):
    """Whatever class PyOpenCL chooses for a status, the status decides."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl: not installed")
    error = turned(getattr(cl, kind)(cl._cl._ErrorRecord("clDo\x1b", -4, "log")))
    assert type(error) is OutOfMemory
    failed = r"clDo\x1b failed: MEM_OBJECT_ALLOCATION_FAILURE"
    assert str(error).startswith(rf"cuda0 (\x1b[1mBoard): {failed}")
    assert str(error).isprintable()


def test_real_exceptions_of_pygpu():
    gpuarray = pytest.importorskip("pygpu.gpuarray", reason="pygpu: not installed")
    error = turned(gpuarray.GpuArrayException(b"Out of \x1b memory, Out of memory", 1))
    assert type(error) is OutOfMemory
    assert str(error) == r"cuda0 (\x1b[1mBoard): Out of \x1b memory, Out of memory"
    assert type(turned(gpuarray.UnsupportedException(b"no", 8))) is Unsupported
