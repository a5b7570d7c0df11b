"""Which engine carries between the ranks of a launcher: MPI or torch.distributed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpumap.errors import AbsentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.comm.base import ProcessComm
    from gpumap.comm.ranks import Launch

OURS = "gpumap run"  # as the launcher of its processes
_LIMIT = 1800.0  # seconds in which a rank must come: PyTorch's own


def engine_of(launch: Launch | None, env: Mapping[str, str]) -> str:
    """Return which engine the launcher of a rank is for: mpi or torch."""
    by = launch.by if launch else ""
    slurm = by == "Slurm" and "MASTER_ADDR" in env and find_spec("torch") is not None
    return "torch" if slurm or by in (OURS, "torchrun") else "mpi"


def joined(launch: Launch, env: Mapping[str, str]) -> ProcessComm:
    """Return all ranks of a launch, in a program of the user's.

    Raises:
        AbsentError: the engine is not there, or knows of other ranks.
    """
    if engine_of(launch, env) == "torch":
        from gpumap.comm.torch import Torch

        return Torch(launch.rank, launch.size, _LIMIT)
    from gpumap.comm.mpi import Mpi, load

    comm = Mpi(load().COMM_WORLD)
    if comm.size != launch.size:
        text = f"{launch.by} has started {launch.size} processes, and MPI knows {comm.size}"
        raise AbsentError(text, "start them with mpirun, torchrun or gpumap run")
    return comm
