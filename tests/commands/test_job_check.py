"""`gpumap check` as one of several processes: real ranks, one report, and what becomes of them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from mpi_jobs import MPIRUN, ended, started
from report_schema import validate
from scripts import script
from shell import BIN, on_a_terminal

mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="no mpirun: apt-get install openmpi-bin"
)
mpi4py = pytest.mark.skipif(
    not (shutil.which("mpirun") and importlib.util.find_spec("mpi4py")),
    reason="no mpirun or no mpi4py: apt-get install openmpi-bin, and pip install mpi4py",
)
CORES = "a->cpu0;b->cpu1"
LIMIT = 60  # seconds
TABLE = re.compile(r" +(\d+) +(\d+)  (\S+) +(\d+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)")


def gpumap_of(gpumap, *arguments, **env):
    """Start gpumap as this rank; its streams are pipes."""
    command = [sys.executable, "-m", "gpumap", *arguments]
    return started(gpumap, command, **env)


def by_mpirun(gpumap, count, *arguments, **env):
    """Run gpumap with so many ranks, and return how mpirun ended."""
    command = [*MPIRUN, str(count), sys.executable, "-m", "gpumap", *arguments]
    return ended(started(gpumap, command, **env), LIMIT)


def as_torchrun(rank, **others):
    """Return the variables that torchrun gives one of two ranks of this machine."""
    known = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    known |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": os.getpid()}
    return {key: str(value) for key, value in (known | others).items()}


def ranks(out):
    """Return the rows of the table of ranks."""
    return [match.groups() for match in map(TABLE.fullmatch, out.splitlines()) if match]


@mpirun
def test_rank_0_prints_who_sits_where(gpumap):
    """Each rank has checked its own entry; mpirun binds two ranks to a core each, for nothing."""
    code, out, err = by_mpirun(gpumap, 2, "check", CORES)

    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()[:2]] == [
        "Mapped name a to device cpu0", "Mapped name b to device cpu1"
    ]  # fmt: skip
    assert "\n2 ranks on 1 machine\n" in out
    found = ranks(out)
    assert [(row[0], row[1], row[4], row[5]) for row in found] == [
        ("0", "0", "a", "cpu0"), ("1", "1", "b", "cpu1")
    ]  # fmt: skip
    assert found[0][3] != found[1][3]
    assert found[0][8] != found[1][8]


@mpirun
def test_the_report_has_every_rank(gpumap):
    """As JSON it is whole, and one text however many ranks there were."""
    code, out, err = by_mpirun(gpumap, 2, "check", CORES, "--format", "json")
    found = json.loads(out)
    validate(found)

    assert (code, err, found["status"]) == (0, "", "ok")
    assert [(r["rank"], r["name"], r["device"]) for r in found["ranks"]] == [
        (0, "a", "cpu:0"), (1, "b", "cpu:1")
    ]  # fmt: skip
    assert [entry["device"] for entry in found["map"]["entries"]] == ["cpu:0", "cpu:1"]


@mpi4py
def test_mpi_brings_them_together_where_the_launcher_tells_too_little(gpumap):
    """Of ranks on several machines Open MPI tells no address of the first one."""
    gpumap_itself = [sys.executable, "-m", "gpumap", "check", CORES]
    command = [*MPIRUN, "2", "env", "-u", "OMPI_COMM_WORLD_LOCAL_SIZE", *gpumap_itself]
    code, out, _ = ended(started(gpumap, command))

    assert code == 0
    assert [row[4] for row in ranks(out)] == ["a", "b"]


@mpi4py
def test_a_launcher_that_mpi_does_not_know(gpumap):
    """The fix is a call that there is."""
    env = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}
    code, _, err = ended(gpumap_of(gpumap, "check", CORES, **env))

    assert code == 2
    assert "this MPI: mpirun -n 2 gpumap check ...; under Slurm" in err


@mpirun
def test_two_ranks_on_one_device_are_no_true_map(gpumap):
    """By what the device is, not by its name."""
    code, _, err = by_mpirun(gpumap, 2, "check", "a->cpu0;b->cpu0")

    assert code == 1
    words = (
        r"error: \S+/a \(rank 0, process \d+\) and \S+/b \(rank 1, process \d+\) have one device"
    )
    assert re.search(rf"^{words}, cpu:0$", err, re.MULTILINE)


@mpirun
def test_a_rank_without_an_entry_is_named(gpumap):
    """The others are checked all the same."""
    code, out, err = by_mpirun(gpumap, 3, "check", CORES)

    assert code == 2
    assert re.search(r"\(rank 2, process \d+\): it is rank number 3 of \S+, and the map has 2", err)
    assert [row[4] for row in ranks(out)] == ["a", "b", "-"]


def test_names_that_no_rank_was_started_for_are_said(gpumap):
    """They were not checked."""
    second = gpumap_of(gpumap, "check", f"{CORES};c->cpu0", **as_torchrun(1))
    code, out, err = ended(gpumap_of(gpumap, "check", f"{CORES};c->cpu0", **as_torchrun(0)))

    assert (code, ended(second)) == (0, (0, "", ""))
    assert "note: no rank was started for c: not measured" in err
    assert [row[4] for row in ranks(out)] == ["a", "b"]


def test_what_another_rank_lacks_is_said_once_by_the_first(gpumap):
    """With its name, and with its exit code; the other one is silent, and ends well."""
    text = "a->cpu0;b->cpu64000"
    second = gpumap_of(gpumap, "check", text, **as_torchrun(1))
    code, out, err = ended(gpumap_of(gpumap, "check", text, **as_torchrun(0)))

    assert (code, ended(second)) == (3, (0, "", ""))
    assert re.search(r"^error: \S+/b \(rank 1, process \d+\): .*cpu64000", err, re.MULTILINE)
    assert [row[4] for row in ranks(out)] == ["a", "-"]


def test_a_rank_0_that_finds_nothing_still_hears_the_others(gpumap):
    """What is wrong with its own entry is said as theirs."""
    text = "a->cpu64000;b->cpu1"
    second = gpumap_of(gpumap, "check", text, **as_torchrun(1))
    code, out, err = ended(gpumap_of(gpumap, "check", text, **as_torchrun(0)))

    assert (code, ended(second)) == (3, (0, "", ""))
    assert re.search(r"^error: \S+/a \(rank 0, process \d+\): .*cpu64000", err, re.MULTILINE)
    assert [row[4] for row in ranks(out)] == ["-", "b"]


def test_a_rank_that_is_killed_is_named(gpumap):
    """It had come, and was gone before it had found its device."""
    (gpumap.folder / "hang.toml").write_text(script({}, {"fault": "hang"}))
    hanging = {"GPUMAP_FAKE": str(gpumap.folder / "hang.toml")}
    text = "a->cuda0;b->cuda1"
    given = ("check", text, "--backend", "fake", "--timeout", "30s")
    first = gpumap_of(gpumap, *given, **as_torchrun(0), **hanging)
    second = gpumap_of(gpumap, *given, **as_torchrun(1), **hanging)
    time.sleep(2.0)
    second.send_signal(signal.SIGKILL)
    code, _, err = ended(first)
    second.communicate()

    assert code == 3
    assert re.search(rf"\(rank 1, process {second.pid}\): it died", err)


def test_a_rank_that_never_comes_is_named_when_the_time_is_over(gpumap):
    """And the report has what rank 0 itself has found."""
    first = gpumap_of(gpumap, "check", CORES, "--timeout", "3s", **as_torchrun(0))
    code, out, err = ended(first)

    assert code == 124
    assert "was reached while waiting for the other ranks; no answer from rank 1" in err
    assert "Mapped name a" not in out
    assert "unused" not in err  # what this rank alone leaves is rank 1's


def test_a_rank_without_a_first_one_says_so(gpumap):
    """When its time is over."""
    alone = gpumap_of(gpumap, "check", CORES, "--timeout", "2s", **as_torchrun(1))
    code, _, err = ended(alone)

    assert code in (3, 124)
    assert "rank 0" in err


def test_a_rank_0_that_is_stopped_is_given_up(gpumap):
    """Soon after the time limit: rank 1 has come to it, and would wait for its answer for ever."""
    (gpumap.folder / "hang.toml").write_text(script({}, {"fault": "hang"}))
    hanging = {"GPUMAP_FAKE": str(gpumap.folder / "hang.toml")}
    given = ("check", "a->cuda0;b->cuda1", "--backend", "fake", "--timeout", "3s")
    first = gpumap_of(gpumap, *given, **as_torchrun(0), **hanging)
    second = gpumap_of(gpumap, *given, **as_torchrun(1), **hanging)
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
    (gpumap.folder / "hang.toml").write_text(script({"fault": "hang"}))
    hanging = {"GPUMAP_FAKE": str(gpumap.folder / "hang.toml")}
    (gpumap.folder / "sitecustomize.py").write_text(STOPS)  # as it looks at its devices
    given = ("check", "--timeout", "30s", "--map", "a->cuda0;b->cpu0")
    first = gpumap_of(gpumap, *given, "--backend", "fake", **as_torchrun(0), **hanging)
    second = gpumap_of(gpumap, *given, **as_torchrun(1), PYTHONPATH=str(gpumap.folder))
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
    env = {key: value for key, value in as_torchrun(0).items() if key != left_out}
    code, out, err = ended(gpumap_of(gpumap, "check", CORES, **env))

    assert code == 0
    assert out.count("Mapped name") == 2
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
    tried = subprocess.run(
        ["unshare", "--uts", "true"], capture_output=True, check=False, text=True
    )
    if tried.returncode:
        pytest.skip(f"no machine with another name can be had: {tried.stderr.strip()}")
    env = as_torchrun(0, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1)
    command = f'hostname "$0"; exec {sys.executable} -m gpumap check a-\\>cpu0'

    def there(rank, name):
        line = ["unshare", "--uts", "sh", "-c", command, name]
        return started(gpumap, line, **{**env, "RANK": str(rank)})

    second = there(1, "second")
    code, out, err = ended(there(0, "first"))

    assert (code, ended(second)) == (0, (0, "", ""))
    assert "note: node0 is first, node1 is second" in err
    assert [(row[2], row[4]) for row in ranks(out)] == [
        ("first", "node0/a"), ("second", "node1/a")
    ]  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_on_several_machines_take_mpi(gpumap, rank):
    """Nobody listens at a port: who could reach it could say that it is a rank."""
    env = as_torchrun(rank, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1, MASTER_ADDR="10.0.0.1")
    code, out, err = ended(gpumap_of(gpumap, "check", "a->cpu0", "--timeout", "30s", **env))

    assert code == (2 if importlib.util.find_spec("mpi4py") else 3)
    assert "Mapped name" not in out
    assert err.startswith("error: ")


@mpirun
@pytest.mark.parametrize(
    "command",
    [("bench", "dot"), ("bench", "chain"), ("transfer-cost",), ("selftest",), ("doctor",)],
)
def test_what_measures_one_process_is_refused_in_several(gpumap, command):
    """They would disturb each other; it is said once."""
    code, out, err = by_mpirun(gpumap, 2, *command, "--map", CORES)

    said = f"error: {' '.join(command)} measures the devices of one process, and Open MPI has"
    assert (code, out) == (2, "")
    assert err.count(said) == 1


def test_a_launchers_terminal_is_none(gpumap):
    """Ranks of mpirun have one, whatever becomes of what they print; one process has its own."""
    _, alone = on_a_terminal(gpumap, "predict", "--from", "theano-mpi")
    _, ranked = on_a_terminal(gpumap, "predict", "--from", "theano-mpi", **as_torchrun(0))

    assert "\x1b[" in alone
    assert "\x1b[" not in ranked
