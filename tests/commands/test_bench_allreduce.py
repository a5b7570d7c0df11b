"""`gpumap bench allreduce`: between devices of a process and between processes, and its faults."""

import os
import re
import signal
import sys
import time

import pytest
from flat_report import loads
from mpi_jobs import MPIRUN, ended, started
from ranks import by_mpirun, measuring, needs_mpi
from tables import table

CORES = "a->cpu0;b->cpu1"
TABLE = table(__file__)
pytestmark = needs_mpi


def test_one_rank_is_refused(gpumap):
    answer = gpumap("bench", "allreduce", "--comm", "mpi")
    assert (answer.code, "one rank has nothing to exchange" in answer.err) == (2, True)


def begun(gpumap):
    given = ("--map", CORES, "--budget", "60s", "--output", "json=report.json")
    process = by_mpirun(gpumap, 2, "bench", "allreduce", *given)
    return process, measuring(process)


@pytest.mark.parametrize(("count", "map_", "env", "code", "said"), TABLE["cannot_start"])
def test_ranks_that_cannot_start_are_named(gpumap, count, map_, env, code, said):
    """Once, by rank 0; no rank waits for another."""
    process = by_mpirun(gpumap, count, "bench", "allreduce", "--map", map_, **(env or {}))
    found, _, err = ended(process)
    assert found == code
    assert len(re.findall(said, err)) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(("rank", "size", "more", "who"), TABLE["launchers"])
def test_another_launcher_than_mpis(gpumap, rank, size, more, who):
    """It starts processes that MPI knows nothing of; each fails, be it the only one."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    found = gpumap("bench", "allreduce", "--comm", "mpi", **place, **(more or {}))
    said = f"has started {size} processes, and MPI knows of one of them"
    assert found.code == 2
    assert re.search(rf"^error: {who} {said}$", found.err, re.MULTILINE), found.err


def test_a_rank_that_alone_has_no_mpi_ends_the_run_and_says_so(gpumap):
    """Or the others would wait for it for ever: MPI starts when every rank has come."""
    stub = gpumap.folder / "stub" / "mpi4py"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('not here')")
    one = (sys.executable, "-m", "gpumap", "bench", "allreduce", "--map", CORES, "--timeout", "60s")
    command = [*MPIRUN, "1", *one, ":", "-n", "1", "env", f"PYTHONPATH={stub.parent}", *one]
    code, _, err = ended(started(gpumap, command))
    assert code == 3
    assert re.search(r"^error: rank 1 on \S+: MPI cannot be used: not here$", err, re.MULTILINE)


@pytest.mark.parametrize(("who", "number", "status", "said"), [
    (1, signal.SIGKILL, "absent", r"error: \S+/b \(rank 1, process {}\) died"),
    (None, signal.SIGINT, "interrupted", ""),  # mpirun ends its ranks a second later
], ids=["killed", "interrupt"])  # fmt: skip
def test_who_ends_a_run_is_named(gpumap, who, number, status, said):
    """Its node, name, number and process; what was measured before it is in the report."""
    process, found = begun(gpumap)
    os.kill(process.pid if who is None else found[who], number)
    actual, _, err = ended(process)
    left = loads((gpumap.folder / "report.json").read_text())
    assert actual not in (0, None)
    assert re.search(said.format(found[1]), err)
    assert (left["status"], left["errors"][0]["code"] == "rank-lost") == (status, number == 9)
    assert all(row["status"] in ("ok", "skipped") for row in left["measurements"])


def test_an_interrupt_of_a_rank_but_the_first_is_no_end(gpumap):
    """Who sends Ctrl-C to all ranks means the run, and rank 0 ends that: no rank dies before it."""
    process, found = begun(gpumap)
    os.kill(found[1], signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None
    os.kill(found[0], signal.SIGINT)
    code, _, err = ended(process)
    assert code == 130
    assert "Traceback" not in err
    assert loads((gpumap.folder / "report.json").read_text())["status"] == "interrupted"
