"""Which engine carries between the ranks of a launcher: MPI or torch.distributed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError

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


def joined(engine: str, launch: Launch | None, limit: float = _LIMIT) -> ProcessComm:
    """Return all ranks of a launch, which must come within `limit` seconds.

    Raises:
        AbsentError: the engine is not there, or a rank is not.
        QuestionError: there is one rank, or the launcher is another engine's.
    """
    if engine == "mpi":
        from gpumap.comm.mpi import Mpi, load

        comm = Mpi(load().COMM_WORLD)
        if comm.size > 1:
            return comm
    if launch is None:
        fix = "start several: mpirun -n 2 gpumap ..., or torchrun --nproc-per-node 2 -m gpumap ..."
        raise QuestionError("one rank has nothing to exchange", fix)
    if engine == "mpi":
        message = f"{launch.by} has started {launch.size} processes, and MPI knows of one of them"
        fix = "start them by the launcher of this MPI: mpirun -n 2 ...; under Slurm srun --mpi=pmix"
        raise QuestionError(message, fix)
    from gpumap.comm.torch import Torch

    return Torch(launch.rank, launch.size, limit)
