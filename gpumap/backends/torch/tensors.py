"""Tensors over memory that NumPy sees as well: PyTorch has no array of ml_dtypes' bfloat16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gpumap.backends.base import NativeBuffer
from gpumap.backends.host_memory import Shared

if TYPE_CHECKING:
    from gpumap.dtypes import Array


class TorchBuffer(NativeBuffer):
    """Memory of one session: a tensor, and NumPy's type of its elements."""

    @property
    def bytes(self) -> Any:
        """Return the same memory as a flat tensor of bytes, which any type can be moved as."""
        return self.native.reshape(-1).view(torch.uint8)

    @property
    def memory(self) -> Array:
        """Return NumPy's array of it, where it is the host's."""
        array: Array = self.bytes.numpy().view(self.dtype).reshape(self.shape)
        return array


def host_bytes(array: Array) -> torch.Tensor:
    """Return the bytes of an array in C order as a tensor over the same memory.

    A read-only one too: PyTorch has no such tensors, and warns of it.
    """
    memory: Any = array.reshape(-1).view(np.uint8)
    if not memory.flags.writeable:
        memory = np.asarray(Shared(array, memory.ctypes.data, memory.nbytes))
    return torch.from_numpy(memory)
