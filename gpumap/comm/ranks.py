"""Which rank this process is, by the variables of its launcher.

    Open MPI    OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
    Flux        FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID
    MPICH       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (Hydra; Intel MPI too)
    PMI         PMI_RANK, PMI_SIZE, PMI_LOCAL_RANK, PMI_LOCAL_SIZE (PALS)
    Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID: of a step that srun started; the
                shell of a job has the first one too, and is no rank
    torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE

The first launcher in this order counts: srun may start mpirun, and both leave their variables. One
that does not say the local rank comes last: srun and Flux set PMI_RANK, too. PMIx has no variable
for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gpumap.errors import QuestionError
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Mapping


_DIGITS = 7  # of a number of ranks: more are none that a launcher has written


class Launch(NamedTuple):
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
    "Flux": ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "PMI": ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}  # fmt: skip

# a variable that a launcher sets, and how the names of all that it sets begin
_PREFIXES = {
    "OMPI_COMM_WORLD_RANK": (
        "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "PMIX_",
    ),
    "FLUX_TASK_RANK": ("FLUX_TASK_", "FLUX_JOB_SIZE", "PMI_", "PMIX_"),
    "PMI_RANK": ("PMI_", "PMIX_", "MPI_LOCAL"),
    "SLURM_PROCID": ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "PMI_", "PMIX_"),
}  # fmt: skip


def launched(env: Mapping[str, str]) -> Launch | None:
    """Return which rank this process is; None if no launcher has started it.

    Raises:
        QuestionError: a variable of the launcher is missing, is no number, or contradicts another.
    """
    found = [(by, names) for by, names in VARIABLES.items() if {*names[:2]} <= {*env}]
    found.sort(key=lambda each: each[1][2] not in env)  # stable: else the order is as above
    for by, names in found:
        most = _number(env, by, names[3]) if names[3] in env else None
        rank, size, local = (_number(env, by, name) for name in names[:3])
        if rank >= size:
            raise _wrong(by, f"{names[0]} is {rank}, and {names[1]} is {size}")
        if local >= (most or size):
            raise _wrong(by, f"{names[2]} is {local} of {most or size}")
        return Launch(by, rank, size, local, most)
    return None


def ranks_of_node(launch: Launch, env: Mapping[str, str]) -> int | None:
    """Return how many ranks of a launch are on this node; None where its variables do not tell.

    Slurm counts by the step, as in 4(x2), and tells where all nodes have as many;
    SLURM_NTASKS_PER_NODE is what a job has requested.
    """
    if launch.by == "Flux":
        return launch.size if env.get("FLUX_JOB_NNODES") == "1" else None
    if launch.by != "Slurm":
        return launch.local_size
    same = re.fullmatch(r"([0-9]{1,7})(\(x[0-9]+\))?", env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if same is not None and int(same[1]) <= launch.size:
        return int(same[1])
    return launch.size if env.get("SLURM_STEP_NUM_NODES") == "1" else None


def without_ranks(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for processes that a rank starts: its place is not theirs."""
    left = tuple(start for marker, starts in _PREFIXES.items() if marker in env for start in starts)
    return {name: value for name, value in env.items() if not name.startswith(left)}


def _number(env: Mapping[str, str], by: str, name: str) -> int:
    text = env.get(name)
    if text is None:
        raise _wrong(by, f"{name} is not set")
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise _wrong(by, f"{name} is {cut(text)!r}, which is no number of ranks")
    return int(text)


def _wrong(by: str, message: str) -> QuestionError:
    fix = "start it anew, or unset what an earlier launcher has left"
    return QuestionError(f"the variables of {by} make no rank: {message}", fix)
