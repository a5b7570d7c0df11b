"""`gpumap exec` under launchers themselves: where a rank runs is read from the kernel."""

import os
import shutil
import sys

import pytest
import slurm
from commands.ranks import ROOT
from mpi_jobs import MPIRUN

ALLOWED = sorted(os.sched_getaffinity(0))
PYTHON = sys.executable
WHERE = "import os; print(os.environ['GPUMAP_NAME'], *os.sched_getaffinity(0))"
NODE = os.uname().nodename
CALLS = {
    "Open MPI": (*MPIRUN, "2"),
    "MPICH": ("mpiexec.mpich", "-n", "2"),
    "Slurm": ("srun", "--kill-on-bad-exit", "-n", "2"),
    "torchrun": ("torchrun", "--nproc-per-node", "2", "--no-python"),
}
INSTALL = {
    "Open MPI": "apt-get install openmpi-bin",
    "MPICH": "apt-get install mpich",
    "torchrun": "pip install torch",
}
pytestmark = pytest.mark.skipif(len(ALLOWED) < 2, reason="one core alone may be used")


@pytest.fixture(scope="module")
def slurm_node(tmp_path_factory):
    if why := slurm.missing():
        pytest.skip(why)
    with slurm.node(tmp_path_factory.mktemp("slurm")) as env:
        yield env


@pytest.fixture(params=CALLS)
def ranks(request, gpumap, tmp_path):
    """Start `gpumap exec` as two ranks of a launcher; return which, and the answer."""
    by, env = request.param, {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "", **ROOT}
    call = CALLS[by]
    if shutil.which(call[0], path=gpumap.env["PATH"]) is None and by in INSTALL:
        pytest.skip(f"no {call[0]}: {INSTALL[by]}")
    if by == "Slurm":
        env |= request.getfixturevalue("slurm_node")

    words = ("a->cpu1;b->cpu0", "--verify", "--", PYTHON, "-c", WHERE)
    return by, gpumap.run([*call, gpumap.command, "exec", *words], **env)


def test_each_rank_has_the_cores_of_its_entry(ranks):
    """Whatever its launcher itself has bound it to."""
    by, answer = ranks
    assert answer.code == 0, answer.err
    assert sorted(answer.out.split("\n"))[1:] == [f"a {ALLOWED[1]}", f"b {ALLOWED[0]}"]
    for name, number, core in (("a", 0, 1), ("b", 1, 0)):
        rank = f"verified: {name} is local rank {number} of 2 on {NODE} ({by})"
        assert f"{rank}, cpu{core}, cores {ALLOWED[core]}\n" in answer.err
