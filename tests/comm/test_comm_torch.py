"""Ranks of torch.distributed over gloo, started by torchrun and `gpumap run`: as those of MPI."""

import os
import re
import signal
import sys
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


def torchrun(gpumap, *arguments, **env):
    command = [*TORCHRUN, "2", "-m", "gpumap", *arguments]
    return started(gpumap, command, **{**MEET, **env})


def members(parent):
    """Return the process of each rank, when its device is open: it is pinned to its core."""

    def pinned():
        children = psutil.Process(parent).children(recursive=True)
        found = {int(c.environ().get("RANK", -1)): c for c in children}
        there = all(n in found and found[n].cpu_affinity() == [n] for n in (0, 1))
        return there and {n: found[n].pid for n in (0, 1)}

    return until(pinned)


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_has_what_all_reduce_gives(ranks):
    """By every algorithm, of 0 to 1,000,000 elements; and all do what ranks must do.

    Two have the bits of two threads, by every rule whose order is known: as those of MPI. A group
    is made by all of three ranks: else the third one's next group has another name, and hangs.
    """
    command = [*TORCHRUN, str(ranks), str(RANKS), "torch"]
    assert_said_by_threads(said(command, **MEET), ranks)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_two_ranks_measure(gpumap, backend):
    """All algorithms, each verified on each rank; rank 0 alone speaks."""
    file = gpumap.folder / "report.json"
    given = ("--budget", "4s", "--output", str(file), "--sizes", "72,large", "--backend", backend)
    code, out, err = ended(torchrun(gpumap, "bench", "allreduce", "--map", CORES, *given))
    report = loads(file.read_text())
    rows = [row for row in report["measurements"] if row["params"]["pattern"] == "alone"]
    assert code == 0, err
    assert len(re.findall(r"^allreduce 64 MiB, float32, torch, ", out, re.MULTILINE)) == 1
    assert [row["case"] for row in rows] == ["native", "host", "ring"] * 2
    assert all(row["check"]["passed"] for row in timely(rows))
    assert {row["params"]["comm"] for row in rows} == {"torch"}


def test_what_gpumap_run_has_started_has_one_report(gpumap):
    """Each has its own entry, and calls its core cpu0: two devices, and two ranks that exchange."""
    itself = str(BIN / "gpumap")
    given = ("--sizes", "4KiB", "--budget", "2s", "--output", "report.json")
    command = [itself, "run", "--quiet", CORES, "--", itself, "bench", "allreduce", *given]
    code, out, err = ended(started(gpumap, command, **MEET))
    assert code == 0, err
    assert out.count("2 ranks on 1 machine") == 1
    rows = timely(loads((gpumap.folder / "report.json").read_text())["measurements"])
    assert all(row["check"]["passed"] and row["params"]["comm"] == "torch" for row in rows)


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
    process = torchrun(gpumap, "bench", "allreduce", "--map", CORES, *given)
    found = members(process.pid)
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


def alone(gpumap, *arguments, **env):
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", **MEET}
    command = [sys.executable, "-m", "gpumap", *arguments]
    return ended(started(gpumap, command, **{**place, **env}))


def test_a_rank_that_does_not_come_is_named(gpumap):
    """Where torchrun's agent has the store, and where rank 0 has."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": str(store.port)}
    for env, message in (
        (agent, "torch.distributed waits for rank 1: not there within 7 s"),
        ({"MASTER_PORT": "0"}, "torch.distributed does not start: .*1/2 clients joined"),
        ({}, "torch.distributed does not start: .*MASTER_PORT expected, but not set"),
    ):
        given = ("bench", "allreduce", "--map", CORES, "--timeout", "10s")
        code, _, err = alone(gpumap, *given, **env)
        assert code == 3
        assert re.search(f"^error: {message}", err, re.MULTILINE), err
