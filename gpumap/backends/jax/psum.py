"""The allreduce of JAX, `jax.lax.psum`, between the devices of one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpumap.backends.jax.buffers import lose
from gpumap.backends.jax.session import JaxSession
from gpumap.backends.third_party import third_party_errors
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Exchange
    from gpumap.backends.jax.buffers import JaxBuffer

_RANKS = "ranks"  # the axis over which is summed
_FIX = "add --backend jax, and map each name to a device of its own"


class Psum:
    """What sums over the devices of several sessions of JAX, compiled once for each size."""

    def __init__(self, sessions: Sequence[Any]) -> None:
        """Take the sessions, in their order.

        Raises:
            QuestionError: one is not JAX's, or a device is listed twice.
        """
        others = [s.device for s in sessions if not isinstance(s, JaxSession)]
        if others:
            raise QuestionError(f"psum is JAX's, and {others[0].backend} drives a device", _FIX)
        devices = [session.native for session in sessions]
        if len(set(devices)) < len(devices):
            raise QuestionError("psum sums over devices, and one is listed twice", _FIX)
        self._device = sessions[0].device
        mesh = Mesh(np.array(devices), (_RANKS,))
        spec = PartitionSpec(_RANKS)
        self._sharding = NamedSharding(mesh, spec)
        summed = jax.shard_map(
            partial(jax.lax.psum, axis_name=_RANKS),
            mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False,
        )  # fmt: skip
        self._sum = jax.jit(summed, donate_argnums=0)
        # Cores have few threads for all their devices: one sum that waits for another is a
        # deadlock, after which XLA ends the process.
        self._one_at_a_time = devices[0].platform == "cpu"

    def exchange(self, buffers: Sequence[JaxBuffer]) -> Exchange:
        """Return the exchange of one whole buffer of each session; the sums take their place."""
        return partial(self._queue, buffers)

    def _queue(self, buffers: Sequence[JaxBuffer], iterations: int) -> frozenset[Any]:
        """Queue it on every device."""
        try:
            found = self.summed([buffer.native for buffer in buffers], iterations)
            for buffer, array in zip(buffers, found, strict=True):
                buffer.put(array)
        except BaseException:  # Ctrl-C too
            lose(buffer.memory for buffer in buffers)
            raise
        for buffer in buffers:
            buffer.session.wrote(buffer.memory)
        return frozenset()

    def summed(self, arrays: list[Any], iterations: int) -> list[Any]:
        """Return each device's array of the sum over `arrays`, one of each device, which go.

        Several iterations sum up sums.
        """
        shape = (len(arrays) * arrays[0].shape[0],)
        with third_party_errors(self._device):
            whole = jax.make_array_from_single_device_arrays(shape, self._sharding, arrays)
            for _ in range(iterations):
                whole = self._sum(whole)
                if self._one_at_a_time:
                    whole.block_until_ready()
            return [shard.data for shard in whole.addressable_shards]
