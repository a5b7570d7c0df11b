"""Where the ranks of a job on one machine meet: each finds it by what its launcher tells it.

Between machines MPI brings them together: who can reach a port is not who belongs to a job.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.launch.environment import TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.parallel.launch import Launch

_ALONE = "1"
# The launcher's own words for one job and no other, joined.
_JOB = {
    "Open MPI": ("PMIX_NAMESPACE",),
    "Slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    "torchrun": ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                 "TORCHELASTIC_RESTART_COUNT"),
}  # fmt: skip
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]+){3}|::1")


@dataclass(frozen=True, slots=True)
class Door:
    """A socket of rank 0, on its own machine."""

    job: str  # by which the processes of one job know each other

    @property
    def local(self) -> str:
        """Return the name of the socket: in no folder, and gone with its process."""
        return f"\0gpumap-{os.getuid()}-{self.job}"


def door(launch: Launch, env: Mapping[str, str]) -> Door | None:
    """Return where the ranks meet; None between machines, and where too little is known."""
    # each process of `gpumap run` may be an mpirun: one run, and several jobs
    words = [env.get(name, "") for name in (TOKEN, *_JOB.get(launch.by, ()))]
    if not any(words):
        return None
    job = hashlib.sha256("\n".join((launch.by, *words)).encode(errors="replace")).hexdigest()[:32]
    return Door(job) if _on_one_node(launch, env) else None


def _on_one_node(launch: Launch, env: Mapping[str, str]) -> bool:
    if launch.by == "Slurm":
        return env.get("SLURM_STEP_NUM_NODES", env.get("SLURM_NNODES")) == _ALONE
    if launch.local_size == launch.size:
        return True
    here = _LOOPBACK.fullmatch(env.get("MASTER_ADDR", ""))
    return launch.by == "torchrun" and here is not None
