"""What tests need of mpirun and of other processes."""

import importlib.util
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from mpi_jobs import MPIRUN, started
from shell import until

ALLOWED = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(ALLOWED) < 2, reason="one core alone may be used")
# What a process is given: its variables, its number and its cores.
SHOW = "import os, json; print(json.dumps(dict(os.environ) | {'process': os.getpid(), 'cores': "
SHOW += "sorted(os.sched_getaffinity(0))}))"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
needs_mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="no mpirun: apt-get install openmpi-bin"
)
needs_mpi = pytest.mark.skipif(
    not (shutil.which("mpirun") and importlib.util.find_spec("mpi4py")),
    reason="no mpirun or no mpi4py: apt-get install openmpi-bin, and pip install mpi4py",
)


def by_mpirun(gpumap, count, *arguments, **env):
    command = [*MPIRUN, str(count), sys.executable, "-m", "gpumap", *arguments]
    return started(gpumap, command, **env)


def members(parent):
    found = {}
    for child in psutil.Process(parent).children():
        with suppress(psutil.Error, KeyError):  # it has ended, or is not yet the rank
            found[int(child.environ()["OMPI_COMM_WORLD_RANK"])] = child.pid
    return found


def measures(pid):
    """Return whether a rank has taken more time than it takes to start: it spins as it waits."""
    return psutil.Process(pid).cpu_times().user > 2.0


def measuring(process):
    """Return the processes of two ranks, once both measure, each on its own core."""

    def both():
        found = members(process.pid)
        opened = all(psutil.Process(found[n]).cpu_affinity() == [n] for n in found)
        return opened and len(found) == 2 and all(map(measures, found.values())) and found

    return until(both, process)


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
