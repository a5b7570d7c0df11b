"""An accelerator, driven by PyTorch: a stream of its own, with events, on whatever hardware.

The surface is the one that PyTorch has for all accelerators: `torch.accelerator`, `torch.Stream`
and `torch.Event`. A copy to or from pageable memory blocks: only where the host's side is pinned
may PyTorch leave it to the stream.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gpumap.backends import base
from gpumap.backends.base import EventMark, StreamSession, check_whole
from gpumap.backends.device_clock import DeviceClock
from gpumap.backends.host_memory import Shared, behind
from gpumap.backends.peers import PeerSession
from gpumap.backends.third_party import Current, third_party_errors
from gpumap.backends.torch.arithmetic import IEEE, TF32, multiply, settle
from gpumap.backends.torch.kernels import FUNCTIONS
from gpumap.backends.torch.tensors import TorchBuffer, host_bytes
from gpumap.dtypes import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumap.backends.base import Clock, Feature, Product
    from gpumap.dtypes import Array, Dtype
    from gpumap.model import Device


class TorchPinned(Shared):
    """Pinned memory of the host, of PyTorch's allocator; NumPy arrays made of it keep it alive."""

    def __init__(self, session: Any, nbytes: int) -> None:
        self._memory = torch.empty(max(nbytes, 1), dtype=torch.uint8, pin_memory=True)
        super().__init__(session, self._memory.data_ptr(), max(nbytes, 1))

    def bytes(self, array: Array) -> torch.Tensor:
        """Return the bytes of a view of it, which PyTorch knows to be pinned."""
        start = array.ctypes.data - self.address
        return self._memory[start : start + array.nbytes]


class TorchSession(StreamSession, PeerSession):
    """One stream on one accelerator."""

    def __init__(self, device: Device, clock: Clock, features: frozenset[Feature]) -> None:
        self.device, self.features = device, features
        self._on = torch.device(str(device.facts["torch_device"]))
        self._timed = "events" in features
        with third_party_errors(device):
            settle("ieee")
            stream = self._stream = torch.Stream(device=self._on)
        self.current = Current(device, nullcontext(), stream)
        self._products = {False: Current(device, IEEE, stream), True: Current(device, TF32, stream)}
        self._host_times = DeviceClock(self, clock) if self._timed else None

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> TorchBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        held = numpy_dtype(dtype)
        base.bytes_of(shape, held)  # what 64 bits do not count has an error of another class
        with self.current:
            native = torch.empty(shape, dtype=getattr(torch, held.name), device=self._on)
        return TorchBuffer(self, native, held)

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        with self.current:
            return TorchPinned(self, base.bytes_of(shape, dtype)).array(shape, dtype)

    def _upload(self, source: Array, target: TorchBuffer, repeat: int) -> None:
        """Queue a copy from pinned memory; copy from any other."""
        self._move(np.ascontiguousarray(source), lambda host: (target.bytes, host), repeat)

    def _download(self, source: TorchBuffer, target: Array, repeat: int) -> None:
        """Queue a copy to pinned memory; copy to any other."""
        check_whole(target)
        self._move(target, lambda host: (host, source.bytes), repeat)

    def _move(self, host: Array, ends: Callable[[Any], tuple[Any, Any]], repeat: int) -> None:
        """Queue copies between the device and the host: target and source are `ends` of a tensor.

        PyTorch waits for those of pageable memory, and keeps pinned memory as long as it is used.
        """
        pinned = behind(host, self)
        target, source = ends(pinned.bytes(host) if pinned else host_bytes(host))
        with self.current:
            for _ in range(repeat):
                target.copy_(source, non_blocking=pinned is not None)

    def _able(self, there: Any) -> bool:
        library: Any = torch.get_device_module(self._on)
        pair = (self._on.index, there._on.index)  # noqa: SLF001 - of this class
        with third_party_errors(self.device):
            return bool(library.can_device_access_peer(*pair))

    def _copy(self, source: TorchBuffer, target: TorchBuffer, repeat: int) -> None:
        with self.current:
            for _ in range(repeat):
                target.bytes.copy_(source.bytes, non_blocking=True)

    def _multiply(self, product: Product, repeat: int) -> None:
        a, b, out, _, transpose, alpha, beta, tf32 = product
        left = a.native.t() if transpose[0] else a.native
        right = b.native.t() if transpose[1] else b.native
        with self._products[tf32]:
            multiply(left, right, out.native, alpha, beta, repeat)

    def prepare(
        self, kernel: str, *arguments: TorchBuffer | float, size: int
    ) -> Callable[[], None]:
        """Return what queues a kernel as `run` would: the operations that it is made of."""
        known, _ = self._fitting(kernel, arguments, size)
        job = partial(FUNCTIONS[kernel], *known.reference_views(arguments, size))

        def queued() -> None:
            with self._products[False]:
                job()

        return queued

    def mark(self) -> EventMark:
        """Queue an event and return it."""
        with self.current:
            event = torch.Event(device=self._on, enable_timing=self._timed)
            event.record(self._stream)
        return EventMark(self, event)

    def seconds(self, start: EventMark, stop: EventMark) -> float | None:
        """Return the time between two events by the device's clock."""
        if not self._timed:
            return None
        with self.current:
            stop.event.synchronize()
            return float(start.event.elapsed_time(stop.event)) * 1e-3

    def _close(self) -> None:
        """Give back what the allocators keep."""
        self.synchronize()
        with self.current:
            torch.accelerator.empty_cache()
            torch.accelerator.empty_host_cache()
