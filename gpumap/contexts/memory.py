"""The memory of a context's devices: what is made there, and every way from one to another."""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import numpy as np

from gpumap.contexts.array import HOST, Array
from gpumap.errors import DeviceError, DtypeError
from gpumap.kernels import KERNELS
from gpumap.model import TraceEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType
    from typing import TypeAlias

    from gpumap.backends.base import Clock, Session

    Queue: TypeAlias = "Session | HostQueue"


class Memory:
    """Makes the arrays of a context, and moves them; each transfer is traced.

    Arrays without elements hold no memory of a device: an empty ndarray stands for them.
    """

    def __init__(self, context: Any, sessions: Mapping[str, Session], tracer: Tracer) -> None:
        self._context = context
        self._sessions = sessions
        self._tracer = tracer
        self._arrays: WeakSet[Array] = WeakSet()

    def forget(self) -> None:
        """Let every array go of what it holds."""
        for array in list(self._arrays):
            object.__setattr__(array, "held", None)  # to everyone else it never changes

    def made(self, target: str, shape: tuple[int, ...], dtype: Any, held: Any) -> Array:
        """Return an array of what is there already."""
        array = Array(self._context, target, shape, dtype, held)
        self._arrays.add(array)
        return array

    def on_host(self, source: Any) -> Array:
        """Return an array of host memory, the very one."""
        return self.made(HOST, source.shape, source.dtype, source)

    def empty(self, target: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array that is not written yet."""
        if target == HOST or not math.prod(shape):
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
            with self._tracer.around("upload", target, session, out, implicit=implicit):
                session.upload(source, out.held)
            session.synchronize()
        return out

    def downloaded(self, array: Array, *, implicit: bool = False) -> Any:
        """Return a copy of a device's memory on the host, when it is there."""
        destination = np.empty(array.shape, array.dtype)
        place, session = array.target, self._sessions[array.target]
        with self._tracer.around("download", place, session, array, implicit=implicit):
            session.download(array.held, destination)
        session.synchronize()
        return destination

    def copied(self, array: Array, target: str, *, implicit: bool = False) -> Array:
        """Return a copy of one device's memory on another; queued."""
        out = self.empty(target, array.shape, array.dtype)
        way, session = f"{array.target}->{target}", self._sessions[array.target]
        session.wait(self._sessions[target].mark())  # a copy does, and that is no cost of it
        with self._tracer.around("copy", way, session, out, implicit=implicit):
            session.copy(array.held, out.held)
        return out


def plain(data: Any) -> Any:
    """Return anything that NumPy makes an array of, in C order and the machine's byte order.

    Raises:
        DtypeError: it is masked: the mask would be lost.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise DtypeError("a masked array would lose its mask", "fill it before: .filled(0)")
    if isinstance(data, (list, tuple)):  # NumPy 1.24 warns of an array that is no sequence
        data = [np.asarray(one) if hasattr(one, "__array__") else one for one in data]
    source = np.asarray(data)
    return np.asarray(source, source.dtype.newbyteorder("="), order="C")


Line = tuple[str, int]  # a file, and the number of a line in it
_OURS = ("gpumap", "contextlib", "numpy")  # packages whose lines are no line of a program


class HostQueue:
    """The host as what computes, as sessions do: all that is queued is done at once."""

    def __init__(self, clock: Clock) -> None:
        self.mark = clock.now

    def at(self, mark: float) -> float:
        """Return the time at which a mark was reached."""
        return mark

    def gemm(self, a: Any, b: Any, out: Any) -> None:
        """Multiply two matrices."""
        np.matmul(a, b, out=out)

    def run(self, kernel: str, *arguments: Any, size: int) -> None:
        """Compute a kernel by its reference."""
        known = KERNELS[kernel]
        known.reference(*known.reference_views(arguments, size))


class Tracer:
    """Marks around everything that is queued; when they were reached is read only later.

    Attributes:
        origin: the clock's time at which it began; every event counts from there.
    """

    def __init__(self, clock: Clock) -> None:
        self.origin = clock.now()
        # what makes an event; its queue, with the marks around it there; the line that caused it
        self._queued: list[tuple[Callable[..., TraceEvent], Queue, Any, Any, Line | None]] = []
        self._resolved: list[TraceEvent] = []  # the first of them

    @contextmanager
    def around(
        self, name: str, device: str, queue: Queue, made: Any, *, implicit: bool | None = None
    ) -> Iterator[None]:
        """Note what is queued inside the `with`, and the array that it makes.

        `implicit`: False of a transfer that the program requests, True of one that an operation
        needs; None of an operation.
        """
        start = queue.mark()
        yield
        stop = queue.mark()
        kind: Literal["operation", "transfer"] = "operation" if implicit is None else "transfer"
        event = partial(TraceEvent, name, device, kind, made.nbytes, made.shape, bool(implicit))
        self._queued.append((event, queue, start, stop, _line()))

    def events(self) -> list[TraceEvent]:
        """Return every event so far, in the order of queueing; waits for those that run."""
        for event, queue, begun, ended, line in self._queued[len(self._resolved) :]:
            start, stop = self._moment(queue, begun), self._moment(queue, ended)
            if start is not None and stop is not None:
                stop = max(start, stop)
            self._resolved.append(event(start, stop, _shown(line)))
        return list(self._resolved)

    def _moment(self, queue: Queue, mark: Any) -> float | None:
        """Return when a mark was reached; None where the device cannot tell, or is lost."""
        try:
            found = queue.at(mark)
        except DeviceError:
            return None
        return None if found is None else found - self.origin


def _line() -> Line | None:
    """Return the line of the program that called; None where only gpumap's own are left."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` takes a millisecond for
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if str(module).partition(".")[0] not in _OURS:
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _shown(line: Line | None) -> str | None:
    """Return a line as ``script.py:12``, its path from the current folder if it is in there."""
    if line is None:
        return None
    path, number = line
    try:
        inside = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone; another drive
        inside = os.pardir
    return f"{path if inside.startswith(os.pardir) else inside}:{number}"
