"""Kernels of the stand-in: the real text, compiled by g++ with `device.h` before it."""

import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
import weakref
from itertools import count
from pathlib import Path

import numpy as np

from cupy import _gpu

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("GPUMAP_STANDIN_CACHE", tempfile.gettempdir()))
FUNCTIONS = weakref.WeakValueDictionary()  # handle -> function, as long as someone has that
_handles = count(0x7000_0000, 64)
_TRAMPOLINE = """
static void call_{0}(void **a) {{ standin::call(&{0}, a); }}
extern "C" VISIBLE int launch_{0}(unsigned grid, unsigned block, void **a) {{
    return standin::launch(call_{0}, grid, block, a);
}}
extern "C" VISIBLE int kind_{0}(int n) {{ return standin::kind(&{0}, n); }}
"""


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
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class RawModule:
    def __init__(self, code=None, *, path=None, options=()):
        if not isinstance(options, tuple) or not isinstance(code, str):
            raise TypeError("code is a str and options are a tuple")
        if path:
            raise _gpu.Misuse("only code and options are here")
        self._code, self._options = code, options

    def get_function(self, name):
        return RawKernel(built(self._code, self._options), name)


class Function:
    """A kernel in the memory of one device."""

    def __init__(self, library, name):
        try:
            self.launch = getattr(library, f"launch_{name}")
        except AttributeError:
            raise _gpu.CUDADriverError(500) from None
        kind, self.kinds = getattr(library, f"kind_{name}"), []
        while (code := kind(len(self.kinds))) >= 0:
            self.kinds.append(code)
        self.device, self.ptr = _gpu.CURRENT.device, next(_handles)
        FUNCTIONS[self.ptr] = self


class RawKernel:
    """A kernel; CuPy's own is bound to no device until it is launched."""

    def __init__(self, library, name):
        self._given, self._functions = (library, name), {}
        self.kernel  # noqa: B018 - looked for at once, as by CuPy

    @property
    def kernel(self):
        device = _gpu.CURRENT.device
        if device not in self._functions:
            self._functions[device] = Function(*self._given)
        return self._functions[device]

    def __call__(self, grid, block, args, *, shared_mem=0):
        (x,), (threads,), function = grid, block, self.kernel
        pairs = zip(function.kinds, args, strict=True)
        values = [np.uint64(a.data.ptr) if kind == 0 else a for kind, a in pairs]  # 0: a pointer
        held = [np.frombuffer(value.tobytes().ljust(8, b"\0"), np.uint64) for value in values]
        given = np.array([value.ctypes.data for value in held], np.uint64)
        _gpu.CURRENT.use(function.device)  # CuPy gives its thread a context
        launchKernel(function.ptr, x, 1, 1, threads, 1, 1, shared_mem, _gpu.CURRENT.stream.ptr,
                     given.ctypes.data, 0)  # fmt: skip


def launchKernel(f, grid_dim_x, grid_dim_y, grid_dim_z, block_dim_x, block_dim_y, block_dim_z,  # noqa: N802
                 shared_mem_bytes, stream, kernel_params, extra):  # fmt: skip
    """Queue a kernel; what is at the addresses of its parameters is read at the call."""
    function = _function(f)
    others = (grid_dim_y, grid_dim_z, block_dim_y, block_dim_z, shared_mem_bytes, extra)
    if others != (1, 1, 1, 1, 0, 0):
        raise _gpu.Misuse(f"a launch in one dimension, by addresses: {others}")
    if not 0 < grid_dim_x < 1 << 31 or not 0 < block_dim_x <= 1024:
        raise _gpu.CUDADriverError(1)
    queue = _gpu.queue_at(stream)
    values, blocks = _parameters(function.kinds, kernel_params)
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))

    def run(_alive=values):
        _gpu.alive(*blocks)
        if function.launch(grid_dim_x, block_dim_x, pointers):
            raise _gpu.Misuse("threads of one block wait at different barriers")
        for one in blocks:
            one.check()

    try:
        queue.put(run)
    except _gpu.CUDARuntimeError as error:
        raise _gpu.CUDADriverError(error.status) from None


def _function(handle):
    function = FUNCTIONS.get(handle)
    if function is None:
        raise _gpu.Misuse(f"the function {handle:#x} was unloaded, or never there")
    if not _gpu.CURRENT.context:
        raise _gpu.CUDADriverError(201)
    if function.device != _gpu.CURRENT.device:
        raise _gpu.CUDADriverError(400)
    return function


def _parameters(kinds, addresses):
    """Return the word at each address, and the blocks that pointers are into.

    Of a value that is longer than its parameter CUDA would read a part.
    """
    values, blocks = [_words(int(at), 1) for at in _words(addresses, len(kinds))], []
    for kind, value in zip(kinds, values, strict=True):
        if kind and value.view(np.uint8)[kind % 64 :].any():
            raise _gpu.Misuse(f"{value[0]:#x} for a parameter of {kind % 64} bytes")
        if kind == 0 and (address := int(value[0])):
            block = _gpu.region(address, 0)[0]
            value[0] = address - block.address + block.bytes.ctypes.data
            blocks.append(block)
    return values, blocks


def _words(address, number):
    return _gpu.read_host(address, 8 * number).view(np.uint64)
