"""Rank of this process by the variables of the launcher that started it.

    Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
    MPICH       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Hydra; Intel MPI too)
    Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID: of a step that srun started; the
                shell of a job has the first one too, and is no rank
    torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE

The first launcher in this order counts: srun may start mpirun, and both leave their variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 10_000_000  # ranks: more is no number that a launcher has written
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Launch:
    """A rank: its number among all, and among those of its node; `local_size` may not be known."""

    by: str
    rank: int
    size: int
    local_rank: int
    local_size: int | None


# launcher: what its rank, size, local rank and local size are called
VARIABLES: dict[str, tuple[str, str, str, str]] = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}  # fmt: skip

# what tells that a launcher has started this process: how all that it leaves to its ranks begins
_LEFT = {
    "OMPI_COMM_WORLD_RANK": (
        "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "PMIX_",
    ),
    "PMI_RANK": ("PMI_", "PMIX_", "MPI_LOCAL"),
    "SLURM_PROCID": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "PMI_", "PMIX_"),
}  # fmt: skip


def launched(env: Mapping[str, str]) -> Launch | None:
    """Return which rank this process is; None if no launcher has started it.

    Raises:
        QuestionError: a variable of the launcher is missing, is no number, or contradicts another.
    """
    for by, names in VARIABLES.items():
        rank, size, local_rank, local_size = names
        if rank in env and size in env:
            most = _number(env, local_size) if local_size in env else None
            place, ranks, local = (_number(env, name) for name in (rank, size, local_rank))
            return _checked(Launch(by, place, ranks, local, most), names)
    return None


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for processes that a rank starts: its place is not theirs."""
    left = tuple(start for told, starts in _LEFT.items() if told in env for start in starts)
    return {name: value for name, value in env.items() if not name.startswith(left)}


def _checked(found: Launch, names: tuple[str, str, str, str]) -> Launch:
    rank, size, local_rank, local_size = names
    most = found.size if found.local_size is None else min(found.size, found.local_size)
    for name, value, limit, of in (
        (rank, found.rank, found.size, size),
        (local_rank, found.local_rank, most, local_size if found.local_size else size),
    ):
        if value >= limit:
            raise _wrong(found.by, f"{name} is {value}, and {of} is {limit}")
    return found


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name)
    by = next(by for by, names in VARIABLES.items() if name in names)
    if text is None:
        raise _wrong(by, f"{name} is not set")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) < _MOST):  # noqa: PLR2004 - digits
        raise _wrong(by, f"{name} is {text[:_SHOWN]!r}, which is no number of ranks")
    return int(text)


def _wrong(by: str, said: str) -> QuestionError:
    fix = "start it anew, or unset what an earlier launcher has left"
    return QuestionError(f"the variables of {by} make no rank: {said}", fix)
