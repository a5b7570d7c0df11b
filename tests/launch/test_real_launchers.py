"""`gpumap exec` under launchers themselves: where a rank runs is read from the kernel."""

import os
import shutil
import sys

import pytest
import slurm
from mpi_jobs import MPIRUN

ALLOWED = sorted(os.sched_getaffinity(0))
PYTHON = sys.executable
WHERE = "import os; print(os.environ['GPUMAP_NAME'], *os.sched_getaffinity(0))"
NODE = os.uname().nodename
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
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
    """Return a function that starts `gpumap exec` as two ranks of a launcher."""
    by, env = request.param, {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "", **ROOT}
    call = CALLS[by]
    if shutil.which(call[0], path=gpumap.env["PATH"]) is None and by in INSTALL:
        pytest.skip(f"no {call[0]}: {INSTALL[by]}")
    if by == "Slurm":
        env |= request.getfixturevalue("slurm_node")

    def start(*words):
        return by, gpumap.run([*call, gpumap.command, "exec", *words], **env)

    return start


def test_each_rank_has_the_cores_of_its_entry(ranks):
    """Whatever its launcher itself has bound it to."""
    by, answer = ranks("a->cpu1;b->cpu0", "--verify", "--", PYTHON, "-c", WHERE)
    assert answer.code == 0, answer.err
    assert sorted(answer.out.split("\n"))[1:] == [f"a {ALLOWED[1]}", f"b {ALLOWED[0]}"]
    for name, number, core in (("a", 0, 1), ("b", 1, 0)):
        rank = f"verified: {name} is local rank {number} of 2 on {NODE} ({by})"
        assert f"{rank}, cpu{core}, cores {ALLOWED[core]}\n" in answer.err


def test_a_command_that_ends_at_once_has_been_seen_by_all_ranks(ranks):
    _, answer = ranks("a->cpu0;b->cpu1", "--verify", "--", "true")
    assert (answer.code, answer.err.count("verified: ")) == (0, 2), answer.err
    assert "warning: " not in answer.err


def test_two_ranks_on_one_device_end_the_job_and_are_named(ranks, tmp_path):
    """Neither command has started."""
    started = tmp_path / "started"
    _, answer = ranks("a->cpu0;b->cpu1", "--verify", "--name", "a", "--", "touch", str(started))
    assert answer.code != 0
    assert not started.exists()
    for number in (0, 1):
        assert f"local rank {number} (a->cpu0, process " in answer.err
    assert " have one device: cpu:0" in answer.err


def test_more_ranks_than_entries_start_nothing(ranks, tmp_path):
    started = tmp_path / "started"
    by, answer = ranks("a->cpu0", "--", "touch", str(started))
    assert answer.code != 0
    assert not started.exists()
    assert f"{by} has started 2 ranks on {NODE}, and the map has one name" in answer.err
