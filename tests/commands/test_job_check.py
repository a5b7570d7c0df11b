"""`gpumap check` as one of several processes: real ranks, one report, and what becomes of them."""

import os
import re
import sys

import pytest
from flat_report import loads
from mpi_jobs import ended, started
from ranks import by_mpirun, needs_mpi, needs_mpirun
from scripts import script
from shell import BIN, on_a_terminal

from gpumap.app.rank_table import Answer, node_names, unique_bindings
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.comm.base import RankInfo
from gpumap.model import Binding

CORES = "a->cpu0;b->cpu1"
TABLE = re.compile(r" +(\d+) +(\d+)  (\S+) +(\d+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)")


def as_torchrun(gpumap, rank, *arguments, **others):
    known = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    known |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": os.getpid()}
    env = {key: str(value) for key, value in (known | others).items() if value is not None}
    return started(gpumap, [sys.executable, "-m", "gpumap", "check", *arguments], **env)


def without_torch(gpumap):
    """Return an environment in which PyTorch cannot be imported."""
    (gpumap.folder / "torch.py").write_text("raise ImportError('not here')")
    return {"PYTHONPATH": str(gpumap.folder)}


def ranks(out):
    return [match.groups() for match in map(TABLE.fullmatch, out.splitlines()) if match]


@needs_mpi
@pytest.mark.parametrize("map_", ["a->cpu0;b->cuda9", "a->cuda9;b->cpu1", "a->cuda9;b->cuda8"])
def test_what_is_absent_at_one_rank_skips_the_job(gpumap, map_):
    """The first rank judges for all: nothing has passed."""
    more = ("--if-absent", "skip", "--output", "r.json")
    code, out, _ = ended(by_mpirun(gpumap, 2, "check", map_, *more))
    report = loads((gpumap.folder / "r.json").read_text())
    assert (code, report["status"]) == (0, "skipped")
    assert "skipped: " in out


@needs_mpi
def test_a_launcher_that_mpi_does_not_know(gpumap):
    """It reports for itself; the fix is the launcher of MPI."""
    answer = gpumap("check", CORES, PMI_RANK="0", PMI_SIZE="2", MPI_LOCALRANKID="0")
    assert (answer.code, answer.out.count("Mapped name")) == (0, 1)
    assert "this MPI: mpirun -n 2 ...; under Slurm" in answer.err


@needs_mpi
@pytest.mark.parametrize(("text", "code", "said", "names"), [
    (f"{CORES};c->cpu0", 0, "note: no rank was started for c: not measured", ["a", "b"]),
    ("a->cpu0;b->cpu64000", 3, r"error: \S+/b \(rank 1, process \d+\): .*cpu64000", ["a", "-"]),
    ("a->cpu64000;b->cpu1", 3, r"error: \S+/a \(rank 0, process \d+\): .*cpu64000", ["-", "b"]),
])  # fmt: skip
def test_what_a_rank_lacks_is_said_once_by_the_first(gpumap, text, code, said, names):
    """With its name, and with its exit code; the other one is silent."""
    found, out, err = ended(by_mpirun(gpumap, 2, "check", text))
    assert found == code
    assert len(re.findall(f"^{said}", err, re.MULTILINE)) == 1
    assert [row[4] for row in ranks(out)] == names


@needs_mpi
def test_a_rank_whose_device_hangs_is_named_when_the_time_is_over(gpumap):
    """Alone or by rank 0, whose time limit is the same; no rank waits for it in MPI."""
    gpumap.fake(script({}, {"fault": "hang"}))
    given = ("check", "a->cuda0;b->cuda1", "--timeout", "20s")
    code, _, err = ended(by_mpirun(gpumap, 2, *given))
    assert code == 124
    assert len(re.findall(r"^error: .*rank 1", err, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("rank", "code", "mapped"), [(0, 0, ["Mapped name a to device cpu0"]), (1, 3, [])]
)
def test_without_pytorch_each_rank_of_torchrun_reports_for_itself(gpumap, rank, code, mapped):
    text, env = "a->cpu0;b->cpu64000", without_torch(gpumap)
    found, out, err = ended(as_torchrun(gpumap, rank, text, **env))
    assert (found, re.findall(r"Mapped name . to device \w+", out)) == (code, mapped)
    assert "unused" not in err  # what this rank alone leaves is the other one's
    why = "torch.distributed cannot be used: not here"
    assert f"note: rank {rank} of 2 reports for itself: {why}\n" in err
    assert "pip install 'torch>=" in err


@needs_mpirun
def test_without_mpi4py_the_fix_installs_it(gpumap):
    missing = "raise ModuleNotFoundError(\"No module named 'mpi4py'\", name='mpi4py')"
    (gpumap.folder / "mpi4py.py").write_text(missing)
    env = {"PYTHONPATH": str(gpumap.folder)}
    code, out, err = ended(by_mpirun(gpumap, 2, "check", CORES, **env))
    assert (code, out.count("Mapped name")) == (0, 2)
    assert err.count("reports for itself: MPI cannot be used: No module named 'mpi4py'") == 2
    assert err.count("pip install 'mpi4py") == 2


@pytest.mark.parametrize("left_out", ["LOCAL_RANK", "RANK"])
def test_the_variables_of_a_container_make_no_rank(gpumap, left_out):
    """RANK and WORLD_SIZE are there without a launcher: it is checked as ever, in no time."""
    code, out, err = ended(as_torchrun(gpumap, 0, CORES, **{left_out: None}))
    assert (code, out.count("Mapped name")) == (0, 2)
    assert ("make no rank" in err) == (left_out == "LOCAL_RANK")


def test_what_gpumap_run_has_started_reports_for_itself_without_pytorch(gpumap):
    """Each has its own entry, and calls its core cpu0; the fix is the library."""
    command = [str(BIN / "gpumap"), "run", "--quiet", CORES, "--", str(BIN / "gpumap"), "check"]
    code, out, err = ended(started(gpumap, command, **without_torch(gpumap)))
    assert code == 0
    assert sorted(re.findall(r"Mapped name . to device \w+", out)) == [
        "Mapped name a to device cpu0", "Mapped name b to device cpu0"
    ]  # fmt: skip
    assert err.count("pip install 'torch>=") == 2


@needs_mpirun
@pytest.mark.parametrize("command", ["bench dot", "bench chain", "transfer-cost", "selftest",
                                     "doctor"])  # fmt: skip
def test_what_measures_one_process_is_refused_in_several(gpumap, command):
    """They would disturb each other; it is said once."""
    code, out, err = ended(by_mpirun(gpumap, 2, *command.split(), "--map", CORES))
    assert (code, out) == (2, "")
    assert err.count(f"error: {command} measures the devices of one process, ") == 1


def test_a_launchers_terminal_is_none(gpumap):
    """Ranks of mpirun have one, whatever becomes of what they print; one process has its own."""
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    _, alone = on_a_terminal(gpumap, "predict", "--from", "theano-mpi")
    _, ranked = on_a_terminal(gpumap, "predict", "--from", "theano-mpi", **rank)
    assert ("\x1b[" in alone, "\x1b[" in ranked) == (True, False)


def test_on_several_nodes_names_and_devices_have_the_number_of_theirs():
    """In the order of the ranks; no hardware is that of another node; a note names each host."""
    infos = [RankInfo(rank, "a", host, rank) for rank, host in enumerate("xy")]
    device = device_of(FakeDevice("cuda0"))
    one, other = unique_bindings([Answer(info, Binding("a", device)) for info in infos])
    (note,) = node_names(infos)
    assert [(b.name, b.device.id) for b in (one, other)] == [
        ("node0/a", "node0/cuda:0"), ("node1/a", "node1/cuda:0"),
    ]  # fmt: skip
    assert one.device.hardware.isdisjoint(other.device.hardware)
    assert (note.message, note.severity) == ("node0 is x, node1 is y", "note")
