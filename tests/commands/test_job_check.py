"""`gpumap check` as one of several processes: real ranks, one report, and what becomes of them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sys
import time

import psutil
import pytest
from mpi_jobs import MPIRUN, ended, started
from ranks import by_mpirun, needs_mpi, needs_mpirun
from report_schema import validate
from scripts import script
from shell import BIN, on_a_terminal

CORES = "a->cpu0;b->cpu1"
LIMIT = 60  # seconds
TABLE = re.compile(r" +(\d+) +(\d+)  (\S+) +(\d+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)")


def as_torchrun(gpumap, rank, *arguments, **others):
    """Start `check` as torchrun starts one of two ranks of this machine."""
    known = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    known |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": os.getpid()}
    env = {key: str(value) for key, value in (known | others).items() if value is not None}
    return started(gpumap, [sys.executable, "-m", "gpumap", "check", *arguments], **env)


def hanging(gpumap, *devices):
    """Return the options and variables of scripted devices."""
    (gpumap.folder / "hang.toml").write_text(script(*devices))
    return {"GPUMAP_FAKE": str(gpumap.folder / "hang.toml"), "GPUMAP_BACKEND": "fake"}


def ranks(out):
    """Return the rows of the table of ranks."""
    return [match.groups() for match in map(TABLE.fullmatch, out.splitlines()) if match]


@needs_mpirun
def test_rank_0_prints_who_sits_where(gpumap):
    """Each rank has checked its own entry; mpirun binds two ranks to a core each, for nothing."""
    code, out, err = ended(by_mpirun(gpumap, 2, "check", CORES, "--output", "r.json"), LIMIT)

    report = json.loads((gpumap.folder / "r.json").read_text())
    validate(report)
    found = ranks(out)
    assert (code, err, report["status"]) == (0, "", "ok")
    assert [(row[0], row[1], row[4], row[5]) for row in found] == [
        ("0", "0", "a", "cpu0"), ("1", "1", "b", "cpu1")
    ]  # fmt: skip
    assert found[0][3] != found[1][3]
    assert found[0][8] != found[1][8]
    assert [(r["rank"], r["name"], r["device"]) for r in report["ranks"]] == [
        (0, "a", "cpu:0"), (1, "b", "cpu:1")
    ]  # fmt: skip
    assert [entry["device"] for entry in report["map"]["entries"]] == ["cpu:0", "cpu:1"]


@needs_mpirun
@pytest.mark.parametrize("map_", ["a->cpu0;b->cuda9", "a->cuda9;b->cpu1", "a->cuda9;b->cuda8"])
def test_what_is_absent_at_one_rank_skips_the_job(gpumap, map_):
    """The first rank judges for all: nothing has passed."""
    more = ("--if-absent", "skip", "--output", "r.json")
    code, out, _ = ended(by_mpirun(gpumap, 2, "check", map_, *more), LIMIT)

    report = json.loads((gpumap.folder / "r.json").read_text())
    assert (code, report["status"]) == (0, "skipped")
    assert "skipped: " in out


@needs_mpi
def test_mpi_brings_them_together_where_the_launcher_tells_too_little(gpumap):
    """Of ranks on several machines Open MPI tells no address of the first one."""
    gpumap_itself = [sys.executable, "-m", "gpumap", "check", CORES]
    command = [*MPIRUN, "2", "env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE", *gpumap_itself]
    code, out, _ = ended(started(gpumap, command))

    assert code == 0
    assert [row[4] for row in ranks(out)] == ["a", "b"]


@needs_mpi
def test_a_launcher_that_mpi_does_not_know(gpumap):
    """The fix is a call that there is."""
    answer = gpumap("check", CORES, PMI_RANK="0", PMI_SIZE="2", MPI_LOCALRANKID="0")

    assert answer.code == 2
    assert "this MPI: mpirun -n 2 gpumap check ...; under Slurm" in answer.err


@pytest.mark.parametrize(
    ("text", "code", "said", "names"),
    [
        (f"{CORES};c->cpu0", 0, "note: no rank was started for c: not measured", ["a", "b"]),
        ("a->cpu0;b->cpu64000", 3, r"error: \S+/b \(rank 1, process \d+\): .*cpu64000", ["a", "-"]),
        ("a->cpu64000;b->cpu1", 3, r"error: \S+/a \(rank 0, process \d+\): .*cpu64000", ["-", "b"]),
    ],
)
def test_what_a_rank_lacks_is_said_once_by_the_first(gpumap, text, code, said, names):
    """With its name, and with its exit code; the other one is silent, and ends well."""
    second = as_torchrun(gpumap, 1, text)
    found, out, err = ended(as_torchrun(gpumap, 0, text))

    assert (found, ended(second)) == (code, (0, "", ""))
    assert re.search(f"^{said}", err, re.MULTILINE)
    assert [row[4] for row in ranks(out)] == names


def test_a_rank_that_is_killed_is_named(gpumap):
    """It had come, and was gone before it had found its device."""
    env = hanging(gpumap, {}, {"fault": "hang"})
    given = ("a->cuda0;b->cuda1", "--timeout", "30s")
    first, second = (as_torchrun(gpumap, rank, *given, **env) for rank in (0, 1))
    time.sleep(2.0)
    second.send_signal(signal.SIGKILL)
    code, _, err = ended(first)
    second.communicate()

    assert code == 3
    assert re.search(rf"\(rank 1, process {second.pid}\): it died", err)


def test_a_rank_that_never_comes_is_named_when_the_time_is_over(gpumap):
    """And the report has what rank 0 itself has found."""
    code, out, err = ended(as_torchrun(gpumap, 0, CORES, "--timeout", "3s"))

    assert code == 124
    assert "was reached while waiting for the other ranks; no answer from rank 1" in err
    assert "Mapped name a" not in out
    assert "unused" not in err  # what this rank alone leaves is rank 1's


def test_a_rank_0_that_is_stopped_is_given_up(gpumap):
    """Soon after the time limit: rank 1 has come to it, and would wait for its answer for ever."""
    env = hanging(gpumap, {}, {"fault": "hang"})
    given = ("a->cuda0;b->cuda1", "--timeout", "3s")
    first, second = (as_torchrun(gpumap, rank, *given, **env) for rank in (0, 1))
    time.sleep(2.0)
    first.send_signal(signal.SIGSTOP)
    try:
        code, _, err = ended(second)
    finally:
        for each in (first, second):
            each.kill()
            each.communicate()

    assert code == 3
    assert err.startswith("error: rank 0 does not answer any more\n  fix: look at that process")


STOPS = """
import os, signal, sys
met = False
def stop(event, args):
    global met
    met = met or event == "socket.connect"
    if met and event == "import" and args[0] == "gpumap.resolve":
        met = False
        os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(stop)
"""


def test_a_rank_0_that_is_killed_is_told_by_rank_1(gpumap):
    """It had greeted it: nobody else is left to say why there is no report."""
    (gpumap.folder / "sitecustomize.py").write_text(STOPS)  # as it looks at its devices
    given = ("--timeout", "30s", "--map", "a->cuda0;b->cpu0")
    first = as_torchrun(gpumap, 0, *given, **hanging(gpumap, {"fault": "hang"}))
    second = as_torchrun(gpumap, 1, *given, PYTHONPATH=str(gpumap.folder))
    end = time.monotonic() + LIMIT
    while psutil.Process(second.pid).status() != psutil.STATUS_STOPPED and time.monotonic() < end:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second.send_signal(signal.SIGCONT)
    code, out, err = ended(second)

    assert (code, out) == (3, "")
    assert "rank 0" in err


@pytest.mark.parametrize("left_out", ["LOCAL_RANK", "RANK"])
def test_the_variables_of_a_container_make_no_rank(gpumap, left_out):
    """RANK and WORLD_SIZE are there without a launcher: it is checked as ever, in no time."""
    code, out, err = ended(as_torchrun(gpumap, 0, CORES, **{left_out: None}))

    assert (code, out.count("Mapped name")) == (0, 2)
    assert ("make no rank" in err) == (left_out == "LOCAL_RANK")


def test_what_gpumap_run_has_started_is_checked_as_one(gpumap):
    """Each has its own entry, and calls its core cpu0: they are two cores all the same."""
    command = [str(BIN / "gpumap"), "run", "--quiet", CORES, "--", str(BIN / "gpumap"), "check"]
    code, out, _ = ended(started(gpumap, command))

    found = ranks("\n".join(line[4:] for line in out.splitlines()))
    assert code == 0
    assert [(row[4], row[5]) for row in found] == [("a", "cpu0"), ("b", "cpu0")]
    assert found[0][8] != found[1][8]


def test_machines_are_told_apart(gpumap):
    """Two of them, each with a name of its own: the same core is another one there."""
    tried = gpumap.run(["unshare", "--uts", "true"])
    if tried.code:
        pytest.skip(f"no machine with another name can be had: {tried.err.strip()}")
    env = {"LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "1"}
    command = f'hostname "$0"; exec {sys.executable} -m gpumap check a-\\>cpu0'
    ready, first = (
        started(gpumap, ["unshare", "--uts", "sh", "-c", command, name], **env, RANK=str(rank))
        for rank, name in ((1, "second"), (0, "first"))
    )
    code, out, err = ended(first)

    assert (code, ended(ready)) == (0, (0, "", ""))
    assert "note: node0 is first, node1 is second" in err
    assert [(row[2], row[4]) for row in ranks(out)] == [
        ("first", "node0/a"), ("second", "node1/a")
    ]  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_on_several_machines_take_mpi(gpumap, rank):
    """Nobody listens at a port: who could reach it could say that it is a rank."""
    env = {"LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "10.0.0.1"}
    code, out, err = ended(as_torchrun(gpumap, rank, "a->cpu0", "--timeout", "30s", **env))

    assert code == (2 if importlib.util.find_spec("mpi4py") else 3)
    assert "Mapped name" not in out
    assert err.startswith("error: ")


@needs_mpirun
@pytest.mark.parametrize("command", ["bench dot", "bench chain", "transfer-cost", "selftest",
                                     "doctor"])  # fmt: skip
def test_what_measures_one_process_is_refused_in_several(gpumap, command):
    """They would disturb each other; it is said once."""
    code, out, err = ended(by_mpirun(gpumap, 2, *command.split(), "--map", CORES), LIMIT)

    assert (code, out) == (2, "")
    assert err.count(f"error: {command} measures the devices of one process, ") == 1


def test_a_launchers_terminal_is_none(gpumap):
    """Ranks of mpirun have one, whatever becomes of what they print; one process has its own."""
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    _, alone = on_a_terminal(gpumap, "predict", "--from", "theano-mpi")
    _, ranked = on_a_terminal(gpumap, "predict", "--from", "theano-mpi", **rank)

    assert ("\x1b[" in alone, "\x1b[" in ranked) == (True, False)
