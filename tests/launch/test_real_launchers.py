"""`gpumap exec` under launchers themselves, and `gpumap preflight` as the prolog of a Slurm."""

import os
import shutil
import sys

import pytest
import slurm
from commands.ranks import ALLOWED, ROOT, two_cores
from mpi_jobs import MPIRUN, ended, run, started

PYTHON = sys.executable
WHERE = "import os; print(os.environ['GPUMAP_NAME'], *os.sched_getaffinity(0))"
NODE = os.uname().nodename
CALLS = {
    "Open MPI": (*MPIRUN, "2"),
    "MPICH": ("mpiexec.mpich", "-n", "2"),
    "Slurm": ("srun", "--kill-on-bad-exit", "-n", "2"),
    "torchrun": ("torchrun", "--nproc-per-node", "2", "--no-python"),
}
pytestmark = two_cores


@pytest.fixture(scope="module")
def slurm_node(tmp_path_factory):
    with slurm.node(tmp_path_factory.mktemp("slurm")) as env:
        yield env


@pytest.mark.parametrize("by", CALLS)
def test_each_rank_has_the_cores_of_its_entry(request, gpumap, tmp_path, by):
    """Whatever its launcher itself has bound it to: where it runs is read from the kernel."""
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "", **ROOT}
    call = CALLS[by]
    if by == "Slurm":
        env |= request.getfixturevalue("slurm_node")
    if shutil.which(call[0], path=gpumap.env["PATH"]) is None:
        pytest.skip(f"no {call[0]} (make system installs it, and pip that of torch)")
    words = ("a->cpu1;b->cpu0", "--verify", "--", PYTHON, "-c", WHERE)
    answer = gpumap.run([*call, gpumap.command, "exec", *words], **env)
    assert answer.code == 0, answer.err
    assert sorted(answer.out.split("\n"))[1:] == [f"a {ALLOWED[1]}", f"b {ALLOWED[0]}"]
    for name, number, core in (("a", 0, 1), ("b", 1, 0)):
        rank = f"verified: {name} is local rank {number} of 2 on {NODE} ({by})"
        assert f"{rank}, cpu{core}, cores {ALLOWED[core]}\n" in answer.err


PROLOG = """#!/bin/sh
export HOME={folder} PATH={path}
exec {command} preflight 'a->cuda0' --backend fake --within 40s --expect "$(cat {wanted})xFake" \
    >>{folder}/prolog.log 2>&1
"""


def test_a_job_runs_where_the_prolog_passes_and_a_node_that_fails_it_is_drained(gpumap):
    """The same prolog, the same node: first one device is expected, then two."""
    folder, path = gpumap.folder, os.environ["PATH"]
    wanted, prolog = folder / "wanted", folder / "prolog.sh"
    wanted.write_text("1")
    text = PROLOG.format(folder=folder, command=gpumap.command, wanted=wanted, path=path)
    prolog.write_text(text)
    prolog.chmod(0o755)
    more = f"Prolog={prolog}\nPrologFlags=Alloc\n"
    with slurm.node(folder, more) as env:
        srun = [slurm.program("srun"), "-n", "1", "echo", "it ran"]
        done = run(srun, **env)
        assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr
        wanted.write_text("2")
        job = started(gpumap, srun, **env)
        try:
            slurm.until(lambda: slurm.state(env).startswith("drain"), folder / "prolog.log")
        finally:
            job.terminate()
            _, out, _ = ended(job)
    assert out == ""
    assert "1 of 2 Fake found" in (folder / "prolog.log").read_text()
