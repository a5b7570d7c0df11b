"""`gpumap preflight` as the prolog of a real Slurm: a node that fails it is drained."""

import os

import pytest
import slurm
from mpi_jobs import ended, run, started

PROLOG = """#!/bin/sh
export HOME={folder} PATH={path}
exec {command} preflight 'a->cuda0' --backend fake --within 40s --expect "$(cat {wanted})xFake" \
    >>{folder}/prolog.log 2>&1
"""


def test_a_job_runs_where_the_prolog_passes_and_a_node_that_fails_it_is_drained(gpumap):
    """The same prolog, the same node: first one device is expected, then two."""
    if why := slurm.missing():
        pytest.skip(why)
    folder, wanted = gpumap.folder, gpumap.folder / "wanted"
    wanted.write_text("1")
    prolog = folder / "prolog.sh"
    path = os.environ["PATH"]
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
