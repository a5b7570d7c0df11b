"""Cores of the host, driven by PyTorch in the threads that NumPy's have: pinned, one for each.

A product on `cpu` is in blocks of rows, one for each core: PyTorch's own threads are not pinned.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from gpumap.backends.base import pageable
from gpumap.backends.numpy import NumpySession
from gpumap.backends.torch.arithmetic import multiply, settle
from gpumap.backends.torch.kernels import FUNCTIONS
from gpumap.backends.torch.tensors import TorchBuffer, host_bytes
from gpumap.dtypes import numpy_dtype

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Feature
    from gpumap.dtypes import Dtype
    from gpumap.model import Device


class TorchCores(NumpySession):
    """One core, or all of them, with a queue that is worked off in order."""

    _functions = FUNCTIONS

    def __init__(self, device: Device, clock: Clock, features: frozenset[Feature]) -> None:
        self.features = features
        settle("ieee")
        super().__init__(device, clock)
        for worker in self._workers:
            worker.put(partial(torch.set_num_threads, 1))  # of the thread that says so

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> TorchBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the host has no room.
        """
        held = pageable(shape, numpy_dtype(dtype))
        native = host_bytes(held).view(getattr(torch, held.dtype.name)).reshape(held.shape)
        return TorchBuffer(self, native, held.dtype)

    @staticmethod
    def _product(
        a: Any, b: Any, out: Any, alpha: float, beta: float, rows: slice, repeat: int = 1
    ) -> None:
        multiply(a[rows], b, out[rows], alpha, beta, repeat)
