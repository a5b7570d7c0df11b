"""Ranks that are processes: every algorithm gives the exact sum over MPI, as Allreduce does."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mpi_jobs import tmpdir

from gpumap.distributed.mpi import load
from gpumap.errors import AbsentError

RANKS = Path(__file__).with_name("mpi_ranks.py")
LIMIT = 100  # seconds
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
HERE = shutil.which("mpirun") and importlib.util.find_spec("mpi4py")


def run(command, **env):
    env = os.environ | {"TMPDIR": tmpdir()} | env
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=LIMIT
    )


@pytest.mark.skipif(not HERE, reason="no mpirun or no mpi4py: apt-get install openmpi-bin, and "
                    "pip install mpi4py")  # fmt: skip
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_has_the_exact_sum(ranks):
    program = (sys.executable, "-m", "mpi4py", str(RANKS))
    done = run([*MPIRUN, "-n", str(ranks), *program])
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank} of {ranks}: 45 exchanges" for rank in range(ranks)
    ]


def test_without_mpi4py_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(AbsentError) as raised:
        load()
    (said,) = raised.value.diagnostics
    assert said.message.startswith("MPI cannot be used: ")
    assert "openmpi-bin" in said.hint


@pytest.mark.skipif(not HERE, reason="no mpi4py: pip install mpi4py")
def test_an_mpi_library_that_cannot_be_loaded_is_said():
    """One line, and no traceback of mpi4py's."""
    code = (
        "from gpumap.distributed.mpi import load\nfrom gpumap.errors import AbsentError\n"
        "try:\n    load()\nexcept AbsentError as error:\n    print(error.diagnostics[0].message)\n"
    )
    done = run([sys.executable, "-c", code], MPI4PY_LIBMPI="/nowhere/libmpi.so")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mpi4py has no MPI library: ")
    assert len(done.stdout.splitlines()) == 1
