"""Ranks that are processes: every algorithm gives the exact sum over MPI, as Allreduce does."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
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


def together(*arguments):
    program = Path(__file__).with_name("asynchronous_ranks.py")
    command = [*MPIRUN, "-n", "4", sys.executable, "-m", "mpi4py", str(program), *arguments]
    env = os.environ | {"TMPDIR": tmpdir()}
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


BETWEEN = pytest.mark.skipif(not HERE, reason="no mpirun or no mpi4py")
RULES = pytest.mark.parametrize("rule", ["easgd", "gosgd"])


@BETWEEN
@RULES
def test_ranks_of_uneven_pace_conserve_what_the_rule_conserves(rule):
    """A rank that is delayed takes fewer steps; all examples are taken once, and all ends."""
    code, out, err = ended(together("conserve", rule))
    assert code == 0, err
    steps = [int(each) for each in out.partition("]")[0].strip("[").split(", ")]
    assert sum(steps) == 200 * 4
    assert steps[0] > 2 * steps[-1] > 0
    assert int(re.search(r"(\d+) exchanges", out)[1]) > 10


@BETWEEN
@RULES
def test_ranks_learn_what_one_learns(rule):
    """The median of ten seeds: the loss after equal epochs is within 1 % of one worker's."""
    code, out, err = ended(together("learn", rule))
    assert code == 0, err
    assert float(out.split()[-1]) == pytest.approx(1.0, abs=0.01)


@BETWEEN
@RULES
@pytest.mark.parametrize("what", ["delayed", "stopped", "killed"])
def test_it_ends_on_time_with_a_rank_that_is(rule, what):
    """The others take its steps: it ends with the one that a delayed or stopped rank is in."""
    process = together("wait", rule)
    rank = int(process.stdout.readline().split()[-1])
    if what == "killed":
        os.kill(rank, signal.SIGKILL)
    elif what == "stopped":
        os.kill(rank, signal.SIGSTOP)
        time.sleep(2.0)
        os.kill(rank, signal.SIGCONT)
    code, out, err = ended(process)
    assert (code == 0) == (what != "killed"), err
    if what != "killed":
        assert float(out.split()[-2]) >= 1.0
