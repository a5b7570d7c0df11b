"""What measuring `jax.lax.psum` costs: gpumap's exchange beside a jitted loop of the same sum.

    JAX_NUM_CPU_DEVICES=4 python -m benchmarks.psum [ROUNDS]

Both sum over all devices of JAX, in place, 4 KB, 1 MB and 64 MB on each; each sum of cores is
waited for. gpumap's are verified. The target is MOST.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks import around
from benchmarks.contest import ROUNDS, Contest, Result, looped, number, sampled, table
from gpumap.backends.base import Clock, Host
from gpumap.backends.jax import JaxBackend, psum
from gpumap.bench.exchanges import ITEM, Exchanging, Job, LocalRanks
from gpumap.machine.state import Watch
from gpumap.machine.topology import read

if TYPE_CHECKING:
    from gpumap.engine.base import Iteration

SIZES = (4_096, 1_000_000, 64_000_000)  # bytes on each device
MOST = 1.03
_SECONDS = 0.1  # of a sample


class Bare:
    """The sum as a program of JAX writes it: one array over all devices, given away each time."""

    def __init__(self, length: int) -> None:
        """Put ones on every device."""
        devices = jax.devices()
        mesh, spec = Mesh(devices, ("all",)), PartitionSpec("all")
        sharding = NamedSharding(mesh, spec)
        self._array: Any = jnp.ones(length * len(devices), jnp.float32, device=sharding)
        summed = jax.shard_map(
            partial(jax.lax.psum, axis_name="all"),
            mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False,
        )  # fmt: skip
        self._sum = jax.jit(summed, donate_argnums=0)
        self._waits = devices[0].platform == "cpu"

    def queue(self) -> None:
        """Queue one sum; on cores, wait for it."""
        self._array = self._sum(self._array)
        if self._waits:
            self.finish()

    def finish(self) -> None:
        """Wait for the last one."""
        self._array.block_until_ready()


def main() -> int:
    """Print the contests; return 1 if a target is missed or a sum is wrong."""
    rounds = number(__doc__, "rounds", ROUNDS)
    backend, clock = JaxBackend(Host(dict(os.environ), read())), Clock()
    devices = [each for each in backend.probe().devices if each.ref.index is not None]
    sessions = [backend.open(device, clock) for device in devices]
    ranks = LocalRanks(sessions, psum(sessions), comm="psum")
    watch = Watch()
    found = []
    for nbytes in SIZES:
        work = Exchanging(ranks, Job("native", nbytes // ITEM))
        if not work.check().passed:
            sys.exit(f"{nbytes} bytes: a sum is wrong")
        found.append(_contest(work, nbytes).held(rounds))
    print(f"JAX {jax.__version__}, {len(sessions)} devices")
    print(*table(Result.HEAD, (result.row() for result in found)), sep="\n")
    print(around.meanwhile(watch.read()))
    for session in sessions:
        session.close()
    return int(any(result.missed for result in found))


def _contest(work: Iteration, nbytes: int) -> Contest:
    bare = Bare(nbytes // ITEM)
    ours = sampled(lambda count: work.queue(iterations=count), work.finish, _SECONDS)
    theirs = sampled(looped(bare.queue), bare.finish, _SECONDS)
    return Contest(f"psum of {nbytes} B", "jax.jit", ours, theirs, most=MOST)


if __name__ == "__main__":
    sys.exit(main())
