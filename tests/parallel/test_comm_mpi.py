"""Ranks that are processes: every algorithm gives the exact sum over MPI, as Allreduce does."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi_jobs import tmpdir
from refusals import refusal

from gpumap.errors import AbsentError, DtypeError, ShapeError
from gpumap.parallel.algorithms import schedule
from gpumap.parallel.comm.mpi import MpiExchange, load

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
    said = refusal(AbsentError, load)
    assert said.message.startswith("MPI cannot be used: ")
    assert "openmpi-bin" in said.hint


@pytest.mark.skipif(not HERE, reason="no mpi4py: pip install mpi4py")
def test_an_mpi_library_that_cannot_be_loaded_is_said():
    code = (
        "from gpumap.parallel.comm.mpi import load\nfrom gpumap.errors import AbsentError\n"
        "try:\n    load()\nexcept AbsentError as error:\n    print(error.diagnostics[0].message)\n"
    )
    done = run([sys.executable, "-c", code], MPI4PY_LIBMPI="/nowhere/libmpi.so")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mpi4py has no MPI library: ")
    assert len(done.stdout.splitlines()) == 1


class Alone:
    def Get_size(self):  # noqa: N802 - mpi4py's name
        return 1

    def Get_rank(self):  # noqa: N802
        return 0


@pytest.mark.parametrize(("ranks", "array", "error", "said"), [
    (2, np.zeros(8, "f4"), ShapeError, "1 ranks for a schedule of 2"),
    (1, np.zeros(7, "f4"), ShapeError, "shape (7,) for a schedule of 8"),
    (1, np.zeros((8, 1), "f4"), ShapeError, "shape (8, 1) for a schedule of 8"),
    (1, np.zeros(16, "f4")[::2], ShapeError, "shape (8,) for a schedule of 8"),
    (1, np.zeros(8, "f2"), DtypeError, "float16 is not exchanged"),
])  # fmt: skip
def test_an_array_that_does_not_fit(ranks, array, error, said):
    """Before a byte is sent: the other ranks would wait for ever."""
    plan = schedule("ring", ranks, 8)
    assert said in refusal(error, MpiExchange, plan, Alone(), array).message
