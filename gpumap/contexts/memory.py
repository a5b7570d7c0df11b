"""The memory of a context's devices: what is made there, and every way from one to another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from gpumap.contexts.array import Array
from gpumap.contexts.operations import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.backends.base import Session
    from gpumap.contexts.trace import Tracer


class Memory:
    """Makes the arrays of a context, and moves them; each transfer is traced.

    Arrays without elements hold no memory of a device: an empty ndarray stands for them.
    """

    def __init__(self, context: Any, sessions: Mapping[str, Session], tracer: Tracer) -> None:
        self._context = context
        self._sessions = sessions
        self._tracer = tracer
        self._arrays: WeakSet[Array] = WeakSet()

    @property
    def live(self) -> int:
        """Return the number of arrays that hold memory of a device."""
        return sum(a.held is not None and a.target != HOST and a.size > 0 for a in self._every())

    def forget(self) -> None:
        """Let every array go of what it holds."""
        for array in self._every():
            array.held = None

    def made(self, target: str, shape: tuple[int, ...], dtype: Any, held: Any) -> Array:
        """Return an array of what is there already."""
        array = Array(self._context, target, shape, dtype, held)
        self._arrays.add(array)
        return array

    def on_host(self, source: Any) -> Array:
        """Return an array of host memory, the very one."""
        return self.made(HOST, source.shape, source.dtype, source)

    def empty(self, target: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array on a device that is not written yet."""
        if not math.prod(shape):
            return self.made(target, shape, dtype, np.empty(shape, dtype))
        return self.made(target, shape, dtype, self._sessions[target].empty(shape, dtype.name))

    def filled(self, target: str, value: float, dtype: Any) -> Array:
        """Return an array of shape () with a number that travels as a kernel's argument."""
        out = self.empty(target, (), dtype)
        self._sessions[target].run("fill", out.held, value, size=1)
        return out

    def uploaded(self, source: Any, target: str, *, implicit: bool = False) -> Array:
        """Return a copy of host memory on a device; waits: the source may change at once."""
        out = self.empty(target, source.shape, source.dtype)
        session = self._sessions[target]
        if out.size:
            with self._tracer.around("upload", target, "transfer", session, out, implicit=implicit):
                session.upload(source, out.held)
            session.synchronize()
        return out

    def downloaded(self, array: Array, *, implicit: bool = False) -> Any:
        """Return a copy of a device's memory on the host, when it is there."""
        landing = np.empty(array.shape, array.dtype)
        place, session = array.target, self._sessions[array.target]
        if array.size:
            with self._tracer.around(
                "download", place, "transfer", session, array, implicit=implicit
            ):
                session.download(array.held, landing)
            session.synchronize()
        return landing

    def copied(self, array: Array, target: str, *, implicit: bool = False) -> Array:
        """Return a copy of one device's memory on another; queued."""
        out = self.empty(target, array.shape, array.dtype)
        way, session = f"{array.target}->{target}", self._sessions[array.target]
        session.wait(self._sessions[target].mark())  # a copy does, and that is no cost of it
        with self._tracer.around("copy", way, "transfer", session, out, implicit=implicit):
            session.copy(array.held, out.held)
        return out

    def _every(self) -> list[Array]:
        return list(self._arrays)
