"""A device of JAX: products and kernels that XLA compiles, in a queue that JAX keeps itself.

JAX has no events: a mark has no time of its own. Its arrays never change, so that what is queued
waits for the arrays that it takes, on whatever device, and for nothing else. A program is compiled
at the first product, or kernel, of its shapes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gpumap.backends.base import PlainMarks, bytes_of, check_whole
from gpumap.backends.jax.buffers import JaxBuffer, Place
from gpumap.backends.jax.kernels import FUNCTIONS
from gpumap.backends.jax.programs import product as product_of
from gpumap.backends.jax.programs import queuing
from gpumap.backends.peers import PeerSession
from gpumap.backends.third_party import third_party_errors
from gpumap.dtypes import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.backends.base import Feature, Mark, Product, Route
    from gpumap.dtypes import Array, Dtype
    from gpumap.model import Device


class JaxSession(PlainMarks, PeerSession):
    """One device, with all that was put on it and may not be there yet."""

    def __init__(self, device: Device, features: frozenset[Feature], native: Any) -> None:
        self.device, self.features = device, features
        self.native = native
        self._queued: set[Place] = set()  # until it was waited for

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> JaxBuffer:
        """Return memory; JAX has none that no one has written, so it is of zeros.

        Raises:
            OutOfMemory: the device has no room.
        """
        held, sizes = numpy_dtype(dtype), tuple(map(int, shape))
        bytes_of(sizes, held)  # what 64 bits do not count has an error of another class
        with third_party_errors(self.device):
            place = Place(jnp.zeros(sizes, held, device=self.native))
        self._queued.add(place)
        return JaxBuffer(self, place, held, sizes)

    def _upload(self, source: Array, target: JaxBuffer, repeat: int) -> None:
        """Queue a copy of host memory, copied first: else JAX may keep that as a device's own."""
        with third_party_errors(self.device):
            for _ in range(repeat):
                held = np.array(source, order="C", subok=False)
                target.put(jax.device_put(held, self.native, may_alias=False))
        self._queued.add(target.memory)

    def _download(self, source: JaxBuffer, target: Array, repeat: int) -> None:
        """Copy to host memory, and wait for it."""
        check_whole(target)
        with third_party_errors(self.device):
            for _ in range(repeat):
                target[...] = jax.device_get(source.native)

    def wrote(self, place: Place) -> None:
        """Take note of what another queued here."""
        self._queued.add(place)

    def _route(self, there: Any) -> Route:
        same = isinstance(there, JaxSession) and there.native == self.native  # `cpu` is the first
        return "same" if same else super()._route(there)

    def _copy(self, source: JaxBuffer, target: JaxBuffer, repeat: int) -> None:
        there = target.session
        with third_party_errors(self.device):
            for _ in range(repeat):
                target.put(jax.device_put(source.native, there.native, may_alias=False))
        for session in (self, there):  # it is queued here, and what follows there waits for it
            session.wrote(target.memory)

    def _multiply(self, product: Product, repeat: int) -> None:
        a, b, out, _, transpose, alpha, beta, _ = product
        function = product_of(transpose, alpha, beta)
        self._queue(queuing(function, ("matrix",) * 3, (a, b, out)), repeat)

    def prepare(self, kernel: str, *arguments: JaxBuffer | float, size: int) -> Callable[[], None]:
        """Return what queues a kernel as `run` would: a program of the operations it is made of."""
        known, _ = self._fitting(kernel, arguments, size)
        return partial(self._queue, queuing(FUNCTIONS[kernel], known.arguments, arguments, size))

    def _queue(self, program: Callable[[], list[Place]], repeat: int = 1) -> None:
        with third_party_errors(self.device):
            for _ in range(repeat):
                self._queued.update(program())

    def _queued_wait(self, mark: Mark) -> bool:
        return isinstance(mark.session, JaxSession)  # its arrays wait for one another

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with third_party_errors(self.device):
            while self._queued:
                self._queued.pop().wait()

    def _close(self) -> None:
        """Wait, and let go."""
        self.synchronize()
