"""What says nothing: each of these tests waits out a limit, and computes nothing.

So several run at once (`make alone`).
"""

import json
import os
import re
import signal
import sys

import pytest
from flat_report import loads
from mpi_jobs import MPIRUN, ended, started
from ranks import by_mpirun, measuring, needs_mpi
from scripts import script
from tables import table

CORES = "a->cpu0;b->cpu1"
TEXTS = table(__file__)


def test_names_of_a_device_that_hangs_are_not_used(gpumap):
    hanging = script({"fault": "hang"}, {}, latency=5e-6, launch=5e-6, rate=1e12)
    answer = gpumap.fake(hanging)("doctor", "h->cuda0;j->cuda0", "--format", "json")
    found = json.loads(answer.out)["result"]["diagnoses"]
    assert [one["findings"][0]["code"] for one in found] == ["GM202", "GM202"]
    assert answer.code == 3


def test_a_network_that_does_not_load_ends_with_the_time_limit(gpumap):
    (gpumap.folder / "slow.py").write_text(TEXTS["slow"])
    given = ("--map", "a->cpu0", "--comm", "local", "--timeout", "2s")
    answer = gpumap("bench", "train", "--network", "slow:Net", *given)
    assert answer.code == 124
    assert "the time limit of 2 s was reached" in answer.err


@needs_mpi
def test_a_rank_that_stands_still_is_named(gpumap):
    """MPI would never say so; what was measured before is in the report."""
    given = ("--budget", "60s", "--output", "json=report.json", "--timeout", "20s")
    process = by_mpirun(gpumap, 2, "bench", "allreduce", "--map", CORES, *given)
    found = measuring(process)
    os.kill(found[1], signal.SIGSTOP)
    code, _, err = ended(process)
    left = loads((gpumap.folder / "report.json").read_text())
    said = rf"time limit of 20 s was reached; no answer from \S+/b \(rank 1, process {found[1]}\)"
    assert (code, left["status"]) == (124, "timeout")
    assert re.search(said, err)
    assert all(row["status"] in ("ok", "skipped") for row in left["measurements"])


@needs_mpi
@pytest.mark.parametrize(("second", "status", "said"), TEXTS["stopped"], ids=["ever", "later"])
def test_a_rank_that_stands_still_before_anything_is_opened_is_named(gpumap, second, status, said):
    """By its process: it has not said yet which name is its.

    MPI waits for it with Python's lock held: no thread could say so, and a child does.
    """
    one = ("-m", "gpumap", "bench", "allreduce", "--map", CORES, "--timeout", "20s")
    command = [*MPIRUN, "1", sys.executable, *one, ":", "-n", "1", *second]
    code, _, err = ended(started(gpumap, command))
    assert code == status
    assert re.search(said, err, re.MULTILINE), err
