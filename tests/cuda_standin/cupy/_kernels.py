"""Kernels of the stand-in: the real text, compiled by g++ with `device.h` before it."""

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from cupy import _gpu

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("GPUMAP_STANDIN_CACHE", tempfile.gettempdir()))
_TRAMPOLINE = """
static void call_{0}(void **a) {{ standin::call(&{0}, a); }}
extern "C" VISIBLE int launch_{0}(unsigned grid, unsigned block, void **a) {{
    return standin::launch(call_{0}, grid, block, a);
}}
extern "C" VISIBLE int kind_{0}(int n) {{ return standin::kind(&{0}, n); }}
"""


class CompileException(Exception):
    """CuPy's own error of a kernel's text."""


CompileException.__module__ = "cupy.cuda.compiler"


def built(code, options):
    if bad := [o for o in options if not o.startswith(("-D", "-std=", "-I"))]:
        raise _gpu.Misuse(f"NVRTC's options {bad}")
    header = (_HERE / "device.h").read_text()
    key = hashlib.sha256(repr((code, options, header, _TRAMPOLINE)).encode()).hexdigest()[:24]
    library = _CACHE / f"gpumap-standin-{key}.so"
    if not library.exists():
        # a text that does not name this include is one that NVRTC would be given as it is
        flags = ["-x", "c++", "-std=c++17", "-w", f"-I{_HERE}", *options]
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            source, made = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
            source.write_text(f'#include "device.h"\n{code}')
            plain = _run(["g++", *flags, "-E", "-P", str(source)])
            names = re.findall(
                r'extern "C"\s+void (\w+)\(', plain.partition("standin_ends_here")[2]
            )
            source.write_text(f'#include "device.h"\n{code}' + "".join(
                _TRAMPOLINE.format(name) for name in names))  # fmt: skip
            hidden = ["-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-Bsymbolic"]
            _run(["g++", *flags, *hidden, "-o", str(made), str(source)])
            made.replace(library)
    return ctypes.CDLL(str(library))


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileException(done.stderr)
    return done.stdout


class RawModule:
    def __init__(self, code=None, *, path=None, options=(), backend="nvrtc",
                 translate_cucomplex=False, enable_cooperative_groups=False,
                 name_expressions=None, jitify=None):  # fmt: skip
        others = (path, translate_cucomplex, enable_cooperative_groups, name_expressions, jitify)
        if not isinstance(options, tuple) or not isinstance(code, str):
            raise TypeError("code is a str and options are a tuple")
        if any(others) or backend != "nvrtc":
            raise _gpu.Misuse("only code and options are here")
        self._code, self._options = code, options

    def get_function(self, name):
        return RawKernel(built(self._code, self._options), name)


class RawKernel:
    """A kernel; CuPy's own is bound to no device until it is launched."""

    def __init__(self, library, name):
        try:
            self._launch = getattr(library, f"launch_{name}")
        except AttributeError:
            raise _gpu.CUDARuntimeError(500) from None
        kind, self._kinds = getattr(library, f"kind_{name}"), []
        while (code := kind(len(self._kinds))) >= 0:
            self._kinds.append(code)

    def __call__(self, grid, block, args, *, shared_mem=0):
        (x,), (threads,) = grid, block
        if not 0 < x < 1 << 31 or not 0 < threads <= 1024 or shared_mem:
            raise _gpu.CUDARuntimeError(1)
        if len(args) != len(self._kinds):
            raise _gpu.Misuse(f"{len(args)} arguments of {len(self._kinds)}")
        blocks, values = [], []
        for kind, argument in zip(self._kinds, args, strict=True):
            if kind == 0:  # a pointer
                data = getattr(argument, "data", None)
                address = data.ptr if hasattr(data, "ptr") else int(argument)
                if address:
                    blocks.append(_gpu.region(address, 0)[0])
                    address += blocks[-1].bytes.ctypes.data - _gpu.start(address)
                values.append(np.uint64(address))
            else:
                values.append(_by_value(kind, argument))
        held = [np.array([value]) for value in values]
        pointers = (ctypes.c_void_p * len(held))(*(value.ctypes.data for value in held))

        def run(_alive=held):
            for one in blocks:
                _gpu.alive(one)
            if self._launch(x, threads, pointers):
                raise _gpu.Misuse("threads of one block wait at different barriers")
            for one in blocks:
                one.check()

        _gpu.CURRENT.stream.put(run)


def _by_value(kind, argument):
    """Return a scalar whose bytes are a parameter's; CUDA would read others without a word."""
    value = np.asarray(argument)[()]
    if not isinstance(value, np.generic):
        raise TypeError(f"{type(argument)} is no argument of a kernel")
    size, fraction = kind % 64, kind >= 64
    if value.itemsize != size or fraction != (value.dtype.kind == "f"):
        raise _gpu.Misuse(f"{value.dtype} for a parameter of {size} bytes, fraction: {fraction}")
    return value
