"""The table of third-party exceptions, compared with the real libraries in both directions."""

import ctypes
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import here
import pytest
import tables

from gpumap.backends import load
from gpumap.backends import third_party as table
from gpumap.backends.third_party import MEANINGS, TABLE, third_party_errors
from gpumap.errors import AbsentError, DeviceError, DeviceLost, OutOfMemory, Unsupported
from gpumap.machine.nvml import NvmlUnavailable, _pynvml
from gpumap.model import Device, DeviceRef, Kind

TABLES = tables.table(__file__)
DEVICE = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "\x1b[1mBoard", "cupy")
FAILING_TEXTS = set(TABLES["failing_texts"])
OPENCL, CUDA, NVML, LIBGPUARRAY = map(MEANINGS.get, ("OPENCL", "CUDA", "NVML", "LIBGPUARRAY"))
CUDA_STATUSES = range(1, 10_000)  # from there on they are a driver's own
CUDA_OF_THE_TABLE = 13_000


def installed(name):
    if find_spec(name) is None:
        probe = load(name, here.HOST).probe()
        pytest.skip(f"{name}: {probe.reason} ({probe.fix})")


def walked(*roots):
    """Return each exception class of the packages with its bases, and the unreadable files."""
    done = subprocess.run(
        [sys.executable, "-c", TABLES["walk"], *roots], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def without_a_line(classes):
    """Return the classes for which neither they nor a base of theirs are in the table."""
    return {
        name
        for name, bases in classes.items()
        if not any(base in TABLE for base in bases if not base.startswith("builtins."))
    }


def lines_of(*roots):
    return {name for name in TABLE if name.partition(".")[0] in roots}


def made(name, *arguments, base=Exception, **attributes):
    module, _, last = name.rpartition(".")
    return type(last, (base,), {"__module__": module, **attributes})(*arguments)


def turned(error):
    with pytest.raises((DeviceError, Unsupported, AbsentError)) as ours, third_party_errors(DEVICE):
        raise error
    assert ours.value.__cause__ is error
    return ours.value


def numbers(library, statuses):
    """Return the name of each number: those of the table, and those of a failing device."""
    named = {n: name for names in statuses.names.values() for n, name in names.items()}
    return named | {n: name for name, n in TABLES["failing"][library].items()}


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
    (MemoryError(), OutOfMemory),
    (ImportError("libcublas.so.13: cannot open shared object file"), Unsupported),
    (ModuleNotFoundError("No module named 'x'"), Unsupported),
    (NotImplementedError("fancy indexing not supported"), Unsupported),
    (PermissionError(13, "Permission denied"), DeviceError),
    (RuntimeError("CuPy failed to load libcuda.so.1"), DeviceError),
    (ValueError(b"Platform ID out of range"), AbsentError),
])  # fmt: skip
def test_pythons_own_as_libraries_use_them(error, expected):
    """A library that raises Python's exceptions means its driver by them."""
    assert type(turned(error)) is expected


@pytest.mark.parametrize("error", [
    ValueError("mine"), TypeError("mine"), KeyError("mine"), RecursionError("mine"),
    AssertionError("mine"), KeyboardInterrupt(), Unsupported("ours"),
    made("somelibrary.Error", "of another library"),
])  # fmt: skip
def test_what_is_no_devices_doing_passes(error):
    with pytest.raises(type(error)) as same, third_party_errors(DEVICE):
        raise error
    assert same.value is error


@pytest.mark.parametrize(("name", "key", "number", "expected"), TABLES["numbered"])
def test_a_number_decides(name, key, number, expected):
    assert type(turned(made(name, **{key: number}))).__name__ == expected


@pytest.mark.parametrize(("name", "text", "expected"), TABLES["worded"])
def test_a_word_decides(name, text, expected):
    """An unknown exception is a failure; libgpuarray's are bytes."""
    said = text.encode() if name.startswith("pygpu") else text
    assert type(turned(made(name, said))).__name__ == expected
    assert type(turned(made("cupy_backends.cuda.api.runtime.CUDARuntimeError"))) is DeviceError


@pytest.mark.parametrize(
    ("library", "statuses"), [("opencl", OPENCL), ("cuda", CUDA), ("nvml", NVML)]
)
def test_a_number_has_one_meaning(library, statuses):
    """It stands in one group, and success in none."""
    listed = [number for names in statuses.names.values() for number in names]
    listed += TABLES["failing"][library].values()
    assert len(listed) == len(set(listed))
    assert 0 not in listed


@pytest.mark.parametrize("library", ["pyopencl", "pygpu"])
def test_every_exception_of_a_library_has_a_line(library):
    installed(library)
    classes, _ = walked(library)
    assert without_a_line(classes) == set()
    assert lines_of(library) <= set(classes)


def test_every_status_of_opencl_has_a_line():
    installed("pyopencl")
    import pyopencl as cl

    known = {name: getattr(cl.status_code, name) for name in dir(cl.status_code) if name.isupper()}
    assert numbers("opencl", OPENCL) == {
        code: name for name, code in known.items() if code != cl.status_code.SUCCESS
    }


@pytest.mark.parametrize("kind", ["Error", "LogicError", "RuntimeError", "MemoryError"])
def test_real_exceptions_of_pyopencl(kind):
    """Whatever class PyOpenCL chooses for a status, the status decides."""
    installed("pyopencl")
    import pyopencl as cl

    error = turned(getattr(cl, kind)(cl._cl._ErrorRecord("clDo\x1b", -4, "log")))
    assert type(error) is OutOfMemory
    failed = r"clDo\x1b failed: MEM_OBJECT_ALLOCATION_FAILURE"
    assert str(error).startswith(rf"cuda0 (\x1b[1mBoard): {failed}")
    assert str(error).isprintable()


@pytest.fixture(scope="module")
def cupy():
    """Every exception class of CuPy, and the text of its modules that need a part of CUDA.

    A module whose library is missing cannot be imported, but names its exceptions all the same.
    """
    installed("cupy")
    import re

    roots = ("cupy", "cupy_backends", "cupyx")
    classes, files = walked(*roots)
    texts = [Path(file).read_bytes() for file in files if file.endswith(".so")]
    named = rb"(?:%s)(?:\.\w+)+\.\w*(?:Error|Exception)\b" % "|".join(roots).encode()
    for name in {n.decode() for text in texts for n in re.findall(named, text)}:
        classes.setdefault(name, [name])
    return classes, b"".join(texts)


def test_every_exception_of_cupy_has_a_line(cupy):
    classes, _ = cupy
    assert without_a_line(classes) == set()
    assert lines_of("cupy", "cupy_backends", "cupyx") <= set(classes)
    # each word is in a name that CuPy has for a status, or in one of NVRTC's
    _, text = cupy
    signs = {sign for sign, _ in MEANINGS["TOOLKIT"].signs}
    assert {sign for sign in signs if sign.encode() not in text} <= {"OUT_OF_MEMORY"}


def test_every_status_of_cuda_has_a_line(cupy):  # noqa: ARG001 - it skips
    from cupy_backends.cuda.api import runtime

    said = {n: str(runtime.CUDARuntimeError(n)).partition(":") for n in CUDA_STATUSES}
    known = {
        n: name.removeprefix("cudaError")
        for n, (name, _, text) in said.items()
        if text.strip() != "unrecognized error code"
    }
    table = numbers("cuda", CUDA)
    assert known.items() <= table.items()
    assert runtime.runtimeGetVersion() < CUDA_OF_THE_TABLE or known == table


def test_real_exceptions_of_cupy(cupy):  # noqa: ARG001 - it skips
    from cupy.cuda.compiler import CompileException
    from cupy.cuda.memory import OutOfMemoryError
    from cupy_backends.cuda.api.runtime import CUDARuntimeError

    for error, kind in (
        (OutOfMemoryError(1 << 40, 0), OutOfMemory), (CUDARuntimeError(2), OutOfMemory),
        (CUDARuntimeError(719), DeviceLost), (CompileException("a\x1bb", "", "x", ()), DeviceError),
    ):  # fmt: skip
        assert type(turned(error)) is kind


def test_a_missing_part_of_the_toolkit_by_its_name(cupy):  # noqa: ARG001 - it skips
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="this CuPy has no cuda.pathfinder")
    kind = pathfinder.DynamicLibNotFoundError
    assert f"{kind.__module__}.{kind.__qualname__}" in lines_of("cuda")
    assert type(turned(kind("no nvrtc"))) is Unsupported


def test_every_status_of_nvml_has_a_line():
    try:
        pynvml = _pynvml()
    except NvmlUnavailable as error:
        pytest.skip(f"{error.reason} ({error.fix})")
    prefix = "NVML_ERROR_"
    known = {n: name.removeprefix(prefix) for name, n in vars(pynvml).items()
             if name.startswith(prefix)}  # fmt: skip
    assert numbers("nvml", NVML) == known
    assert type(turned(pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))) is DeviceLost
    assert lines_of("pynvml") == {f"pynvml.{pynvml.NVMLError.__name__}"}


@pytest.fixture(scope="module")
def libgpuarray():
    installed("pygpu")
    return ctypes.CDLL("libgpuarray.so.3")


def test_every_text_of_libgpuarray_has_a_line(libgpuarray):
    """Its codes from 1 on, but 6: that is the system's errno, in the system's words."""
    libgpuarray.gpuarray_error_str.restype = ctypes.c_char_p
    texts = [libgpuarray.gpuarray_error_str(code).decode() for code in range(1, 100) if code != 6]
    known = [text for text in texts if text != "Unknown GA error"]
    assert len(known) > 10
    signs = FAILING_TEXTS.union(sign for sign, _ in LIBGPUARRAY.signs)
    assert {t for t in known if not any(sign in t for sign in signs)} == set()
    # each sign is in it, but those of the CUDA driver, which it quotes
    maps = Path("/proc/self/maps").read_text().splitlines()
    text = Path(next(m.split()[-1] for m in maps if "libgpuarray.so" in m)).read_bytes()
    signs = {sign for sign in signs if not sign.startswith("CUDA_ERROR_")}
    signs |= {"Platform ID out of range", "Device ID out of range"}
    assert {sign for sign in signs if sign.encode() not in text} == set()


def test_real_exceptions_of_pygpu(libgpuarray):  # noqa: ARG001 - it is loaded
    from pygpu import gpuarray

    error = turned(gpuarray.GpuArrayException(b"Out of \x1b memory, Out of memory", 1))
    assert type(error) is OutOfMemory
    assert str(error) == r"cuda0 (\x1b[1mBoard): Out of \x1b memory, Out of memory"
    assert type(turned(gpuarray.UnsupportedException(b"no", 8))) is Unsupported
