"""A context: the devices of a map, opened; where its arrays are, and what runs where.

There is one session for each device, whatever number of names it has: two names of one device
share its queue and its memory, so nothing is copied between them. Operations are queued and not
waited for. One thread at a time queues; devices work side by side.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from gpumap.contexts.array import HOST, Array, elementwise, place, product
from gpumap.contexts.memory import HostQueue, Memory, Tracer, plain
from gpumap.errors import ContextError, DtypeError, ImplicitTransfer, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.contexts.memory import Queue
    from gpumap.model import Binding, TraceEvent

    Job = Callable[[Any, Sequence[Any], Any], None]  # with a queue, of memory, into memory

Policy = Literal["visible", "strict"]


class Context:
    """Opened devices by the names of a map; a context manager that closes them.

    Attributes:
        names: the names of the map, in order.
        bindings: each name with the device that it really is.
        policy: "visible" moves what is needed elsewhere, and the trace says so; "strict" raises.
    """

    def __init__(
        self,
        bindings: Sequence[Binding],
        sessions: dict[str, Session],
        clock: Clock,
        closing: ExitStack,
        policy: Policy = "visible",
    ) -> None:
        self.names = tuple(binding.name for binding in bindings)
        self.bindings = tuple(bindings)
        self.policy = policy
        self._sessions = sessions  # by name; names of one device share one
        self._host = HostQueue(clock)
        self._tracer = Tracer(clock)
        self._closing = closing
        self._closed = False
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._memory = Memory(self, sessions, self._tracer)

    # --- arrays

    def shared(self, array: Any, target: str | None = None) -> Array:
        """Return a copy of host data at `target`, a name of the map or "cpu".

        Any shape, strides and byte order; float32 or, where the device has it, float64.
        Where the map has one name, that is the default.

        Raises:
            TargetError: there is no such name, or none is given and the map has several.
            DtypeError: another type of elements, one that the device has not, or a masked array.
            OutOfMemory: the device has no room.
        """
        with self._ready():
            target = self._target(target)
            source = plain(array)
            self._supported(target, source.dtype)
            if target == HOST:
                return self._memory.on_host(np.array(source))
            return self._memory.uploaded(source, target)

    def transferred(self, array: Array, target: str) -> Array:
        """Return a copy of an array at `target`; the array itself if it is on that device."""
        with self._ready():
            self._known(target)
            self._mine(array)
            return self._moved(array, target, implicit=False)

    def fetched(self, array: Array, *, implicit: bool = False) -> Any:
        """Return the elements as a new NumPy array, when they are there.

        Raises:
            ImplicitTransfer: it is implicit (`implicit`), and the policy is strict.
        """
        with self._ready():
            self._mine(array)
            if array.target == HOST or not array.size:
                return np.array(array.held)
            if implicit:
                self._tolerated(array, "it is wanted in host memory", "fetch it: .numpy()")
            return self._memory.downloaded(array, implicit=implicit)

    def wait(self, array: Array) -> None:
        """Return when what makes this array is done; raises what went wrong in it."""
        with self._ready():
            self._mine(array)
            if array.target != HOST:
                self._sessions[array.target].synchronize()

    # --- operations

    def dot(self, a: Any, b: Any) -> Array:
        """Return the product of two matrices; see `gpumap.dot`."""
        with self._ready():
            arrays = self._operands((a, b))
            shape = product(*(array.shape for array in arrays))
            return self._made("dot", arrays, shape, lambda on, given, out: on.gemm(*given, out))

    def elementwise(self, kernel: str, operands: Sequence[Any]) -> Array:
        """Return what a kernel makes of each element; `contexts.array` says which shapes fit."""
        with self._ready():
            arrays = self._operands(operands)
            shape = elementwise(kernel, *(array.shape for array in arrays))
            sizes = [array.size for array in arrays]
            return self._made(kernel, arrays, shape, partial(_run, kernel, sizes, prod(shape)))

    def summed(self, array: Array) -> Array:
        """Return the sum of all elements, of shape ()."""
        with self._ready():
            self._mine(array)
            if not array.size and array.target != HOST:  # there is no memory of a device to sum
                return self._memory.filled(array.target, 0.0, array.dtype)
            return self._made("sum", [array], (), partial(_run, "sum", [array.size], array.size))

    # --- the whole

    @property
    def trace(self) -> list[TraceEvent]:
        """Return every operation and transfer so far; waits for those that run."""
        with nullcontext() if self._closed else self._ready():
            return self._tracer.events()

    @property
    def closed(self) -> bool:
        """Return whether it gave its devices back."""
        return self._closed

    def synchronize(self) -> None:
        """Wait for every device; raises what went wrong on one."""
        with self._ready():
            for session in self._sessions.values():
                session.synchronize()

    def close(self) -> None:
        """Wait for the devices and give them back; a second call does nothing.

        Raises:
            DeviceError: an operation that was not waited for failed; it is closed then.
        """
        with self._lock:
            if self._closed or self._process != os.getpid():
                return
            try:
                self._tracer.events()
                self.synchronize()
            finally:
                self._closed = True
                self._memory.forget()
                self._closing.close()

    def __getitem__(self, name: str) -> Binding:
        """Return the name's binding: `context["dev0"].device`.

        Raises:
            TargetError: the map has no such name.
        """
        for binding in self.bindings:
            if binding.name == name:
                return binding
        raise self._unknown(name, self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpumap.Context {', '.join(self.names)}{': closed' * self._closed}>"

    # --- how

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Hold the context for one operation.

        Raises:
            ContextError: it is closed, or this is a fork of the process that opened it.
        """
        if self._process != os.getpid():  # before the lock: another thread may hold it for ever
            fix = "open another context in the child process"
            raise ContextError("this context was opened before the process was forked", fix)
        with self._lock:
            if self._closed:
                raise ContextError("the context is closed", "use it inside the `with`")
            yield

    def _target(self, target: str | None) -> str:
        """Return a target, or the only name of the map where none is given."""
        if target is None:
            if len(self.names) > 1:
                named = ", ".join(self.names)
                raise TargetError(f"the map has {len(self.names)} names", f"give target=: {named}")
            return self.names[0]
        self._known(target)
        return target

    def _known(self, target: str) -> None:
        if not isinstance(target, str) or target not in (HOST, *self._sessions):
            raise self._unknown(target, (*self.names, HOST))

    def _unknown(self, target: object, known: Sequence[str]) -> TargetError:
        named = ", ".join(known)
        return TargetError(f'there is no target "{target}"', f"there are {named}")

    def _mine(self, array: Any) -> None:
        if not isinstance(array, Array):
            kind = type(array).__name__
            fix = "make one by context.shared(array, target=...)"
            raise ContextError(f"{kind} is not an array of a context", fix)
        if array.context is not self:
            fix = "move it by .numpy() and .shared()"
            raise ContextError("this array belongs to another context", fix)

    def _supported(self, target: str, dtype: Any) -> None:
        """Raise DtypeError for elements that a target cannot hold."""
        wide = target == HOST or "float64" in self._sessions[target].features
        there = ("float32", "float64") if wide else ("float32",)
        if dtype.name not in there:
            fix = f"give numbers, by .astype('float32') for example; there is {', '.join(there)}"
            raise DtypeError(f"{target} holds no {dtype.name}", fix)

    def _operands(self, operands: Sequence[Any]) -> list[Array]:
        """Return operands as arrays of one type; plain numbers take that of the others."""
        found = [x if isinstance(x, (int, float)) else self._operand(x) for x in operands]
        types = dict.fromkeys(x.dtype for x in found if isinstance(x, Array))
        if len(types) != 1:
            listed = " and ".join(dtype.name for dtype in types)
            raise DtypeError(
                f"one operation on {listed}", "convert one: .astype() before .shared()"
            )
        (dtype,) = types
        return [
            x if isinstance(x, Array) else self._memory.on_host(np.asarray(x, dtype)) for x in found
        ]

    def _operand(self, operand: Any) -> Array:
        if isinstance(operand, Array):
            self._mine(operand)
            return operand
        source = plain(operand)
        self._supported(HOST, source.dtype)
        return self._memory.on_host(source)

    def _moved(self, array: Array, target: str, *, implicit: bool) -> Array:
        """Return an array at a target: itself, the same memory by another name, or a copy."""
        if array.target == target:
            return array
        here, there = self._sessions.get(array.target), self._sessions.get(target)
        if here is there or not array.size:
            return self._memory.made(target, array.shape, array.dtype, array.held)
        if there is None:
            return self._memory.on_host(self._memory.downloaded(array, implicit=implicit))
        self._supported(target, array.dtype)
        if here is None:
            return self._memory.uploaded(array.held, target, implicit=implicit)
        return self._memory.copied(array, target, implicit=implicit)

    def _brought(self, array: Array, target: str) -> Array:
        """Return an operand where its operation runs; under the strict policy it is there.

        A plain number is an argument of a kernel, not data that would have to be moved.
        """
        if array.target == HOST and array.shape == () and target != HOST:
            return self._memory.filled(target, float(array.held), array.dtype)
        moved = self._sessions.get(array.target) is not self._sessions.get(target)
        if moved and array.size:
            fix = f'move it before: .transfer("{target}")'
            self._tolerated(array, f"its operation runs on {target}", fix)
        return self._moved(array, target, implicit=True)

    def _tolerated(self, array: Array, why: str, fix: str) -> None:
        """Raise ImplicitTransfer for an implicit copy under the strict policy."""
        if self.policy == "strict":
            what = f"{array.shape} {array.dtype} is on {array.target}"
            raise ImplicitTransfer(f"{what}, and {why}", fix)

    def _made(self, name: str, arrays: Sequence[Array], shape: tuple[int, ...], job: Job) -> Array:
        """Return what an operation makes of arrays, where they are or are brought to."""
        target = place([(a.target, id(self._sessions.get(a.target)), a.nbytes) for a in arrays])
        given = [self._brought(array, target).held for array in arrays]
        out = self._memory.empty(target, shape, arrays[0].dtype)
        queue = self._sessions.get(target, self._host)
        if out.size or target == HOST:
            with self._tracer.around(name, target, queue, out):
                job(queue, given, out.held)
        return out


def _run(
    kernel: str, sizes: Sequence[int], size: int, queue: Queue, given: Sequence[Any], out: Any
) -> None:
    """Queue a kernel; where an operand is smaller, the one that repeats it."""
    if any(each != size for each in sizes):
        kernel += "_cyclic"
        given = [x for pair in zip(given, sizes, strict=True) for x in pair]
    queue.run(kernel, *given, out, size=size)
