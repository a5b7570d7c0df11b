"""Ranks of torch.distributed over gloo, started by torchrun and `gpumap run`: as those of MPI."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from backends.frameworks import needs
from flat_report import loads
from mpi_jobs import TORCHRUN, ended, said, started
from shell import BIN, timely, until
from test_comm_threads import assert_said_by_threads

RANKS = Path(__file__).with_name("engine_ranks.py")
CORES = "a->cpu0;b->cpu1"
MEET = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
pytestmark = needs("torch")


def measuring(parent, count):
    """Return the process of each rank below one, once it stays on its core: it measures then.

    For a moment a thread of it is so earlier: MKL counts cores while PyTorch is loaded.
    """

    def pinned():
        children = psutil.Process(parent).children(recursive=True)
        found = {int(c.environ().get("RANK", -1)): c for c in children}
        there = all(n in found and found[n].cpu_affinity() == [n] for n in range(count))
        return there and {n: found[n].pid for n in range(count)}

    def stays():
        before = pinned()
        time.sleep(0.3)
        return before and pinned()

    return until(stays)


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_has_what_all_reduce_gives(ranks):
    """A group is made by all of three: else the third one's next has another name, and hangs."""
    command = [*TORCHRUN, str(ranks), str(RANKS), "torch"]
    assert_said_by_threads(said(command, **MEET), ranks)


GPUMAP = str(BIN / "gpumap")
CALLS = {"torchrun": (*TORCHRUN, "2", "-m", "gpumap"), "run": (GPUMAP, "run", CORES, "--", GPUMAP)}


@pytest.mark.parametrize(("by", "more"), [
    ("torchrun", ("--map", CORES, "--backend", "numpy")),
    ("torchrun", ("--map", CORES, "--backend", "torch")),
    ("run", ()),  # each has its own entry, and calls its core cpu0: two devices all the same
])  # fmt: skip
def test_two_ranks_measure(gpumap, by, more):
    """All algorithms, each verified on each rank; rank 0 alone speaks."""
    given = ("--budget", "4s", "--output", "report.json", "--sizes", "72,large", *more)
    code, out, err = ended(started(gpumap, [*CALLS[by], "bench", "allreduce", *given], **MEET))
    assert code == 0, err
    report = loads((gpumap.folder / "report.json").read_text())
    rows = [row for row in report["measurements"] if row["params"]["pattern"] == "alone"]
    assert len(re.findall(r"\ballreduce 64 MiB, float32, torch, ", out)) == 1
    assert out.count("2 ranks on 1 machine") == 1
    assert [row["case"] for row in rows] == ["native", "host", "ring"] * 2
    assert all(row["check"]["passed"] for row in timely(rows))
    assert {row["params"]["comm"] for row in rows} == {"torch"}


def test_a_loop_of_ones_own_has_the_parameters_of_one_worker(tmp_path):
    """As under mpirun, without mpi4py; over tensors, which come back as tensors."""
    program = str(RANKS.with_name("loop_ranks.py"))
    command = [*TORCHRUN, "2", program, str(tmp_path / "parameters.npz")]
    every = said(command, LOOP_OF="torch", **MEET)
    lines = [line for line in every if line.startswith("rank")]
    assert [line.partition(":")[0] for line in lines] == ["rank 0 of 2", "rank 1 of 2"]
    assert all(float(line.split()[-1]) < 1e-5 for line in lines)


def test_a_rank_that_stands_still_is_named_at_once_and_one_that_is_killed(gpumap):
    """By node, name, number and process; what was measured before is in the report."""
    given = ("--budget", "60s", "--output", "json=report.json", "--timeout", "90s")
    command = [*CALLS["torchrun"], "bench", "allreduce", "--map", CORES, *given]
    process = started(gpumap, command, **MEET)
    found = measuring(process.pid, 2)
    who = rf"\S+/b \(rank 1, process {found[1]}\)"
    os.kill(found[1], signal.SIGSTOP)
    line = "the streams end with the run's time limit"
    while line and "no answer" not in line:
        line = process.stderr.readline()
    assert re.match(f"warning: no answer from {who}", line), line
    os.kill(found[1], signal.SIGKILL)
    code, _, err = ended(process)
    left = loads((gpumap.folder / "report.json").read_text())
    assert code != 0
    assert re.search(f"error: {who} died", err), err
    assert (left["status"], left["errors"][0]["code"]) == ("absent", "rank-lost")
    assert all(row["status"] in ("ok", "skipped") for row in left["measurements"])


def test_a_rank_that_does_not_come_is_named(gpumap):
    """Where torchrun's agent has the store, and where rank 0 has."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": str(store.port)}
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", **MEET}
    given = ("bench", "allreduce", "--map", CORES, "--timeout", "10s")
    command = [sys.executable, "-m", "gpumap", *given]
    for env, message in (
        (agent, "torch.distributed waits for rank 1: not there within 7 s"),
        ({"MASTER_PORT": "0"}, "torch.distributed does not start: .*1/2 clients joined"),
        ({}, "torch.distributed does not start: .*MASTER_PORT expected, but not set"),
    ):
        code, _, err = ended(started(gpumap, command, **{**place, **env}))
        assert code == 3
        assert re.search(f"^error: {message}", err, re.MULTILINE), err
