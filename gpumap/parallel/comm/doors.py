"""Where the processes of a job can meet: each finds it alone, by what its launcher tells it."""

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

_PORTS = 8  # that are tried: another program may have one
_FIRST, _SPAN = 20_000, 40_000  # ports of jobs that were given none
_LAST = 65_535
_ALONE = "1"
# The launcher's own words for one job and no other, joined.
_JOB = {
    "Open MPI": ("PMIX_NAMESPACE",),
    "Slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    "torchrun": ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                 "TORCHELASTIC_RESTART_COUNT"),
}  # fmt: skip
_NODE = re.compile(r"([A-Za-z0-9._-]+)(?:\[([0-9]+)[0-9,-]*\]([A-Za-z0-9._-]*))?(?:,.*)?")


@dataclass(frozen=True, slots=True)
class Door:
    """An address of rank 0: on its own machine without a host, else with the ports it may have."""

    job: str  # by which the processes of one job know each other
    host: str | None = None
    ports: tuple[int, ...] = ()

    @property
    def local(self) -> str:
        """Return the name of the socket on one machine: in no folder, and gone with its process."""
        return f"\0gpumap-{os.getuid()}-{self.job}"


def door(launch: Launch, env: Mapping[str, str]) -> Door | None:
    """Return where the ranks meet; None where the launcher tells too little for that."""
    # each process of `gpumap run` may be an mpirun: one run, and several jobs
    words = [env.get(name, "") for name in (TOKEN, *_JOB.get(launch.by, ()))]
    if not any(words):
        return None
    job = hashlib.sha256("\n".join((launch.by, *words)).encode(errors="replace")).hexdigest()[:32]
    if _on_one_node(launch, env):
        return Door(job)
    host = _first_host(launch, env)
    return None if host is None else Door(job, host, _ports(job, env))


def _on_one_node(launch: Launch, env: Mapping[str, str]) -> bool:
    if launch.by == "Slurm":
        return env.get("SLURM_STEP_NUM_NODES", env.get("SLURM_NNODES")) == _ALONE
    return launch.local_size == launch.size


def _first_host(launch: Launch, env: Mapping[str, str]) -> str | None:
    """Return the host of rank 0."""
    if given := env.get("MASTER_ADDR"):
        return given
    if launch.by != "Slurm":
        return None
    found = _NODE.fullmatch(env.get("SLURM_STEP_NODELIST", env.get("SLURM_NODELIST", "")))
    return None if found is None else "".join(part or "" for part in found.groups())


def _ports(job: str, env: Mapping[str, str]) -> tuple[int, ...]:
    """Return those beside the port that is the program's own, or some of the job's."""
    given = env.get("MASTER_PORT", "")
    if given.isascii() and given.isdigit() and 0 < int(given[:6]) <= _LAST - _PORTS:
        first = int(given) + 1
    else:
        first = _FIRST + int(job[:8], 16) % _SPAN
    return tuple(range(first, first + _PORTS))
