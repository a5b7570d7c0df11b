"""Ranks of one node meet by a locked file: who lives counts, and no other user's is opened."""

import os
import subprocess
import sys

import pytest
from refusals import refusal
from tables import table

from gpumap.errors import BusyError, QuestionError
from gpumap.launch import rendezvous
from gpumap.launch.rendezvous import Claim, Meeting

TABLE = table(__file__)
MINE = Claim("a", "cuda0", "GPU-0", os.getpid())


class Node:
    """A folder to meet in, and ranks that are programs already."""

    def __init__(self, folder):
        self.env = {"XDG_RUNTIME_DIR": str(folder)}
        self.folder = folder / f"gpumap-{os.getuid()}"
        self.started = []

    def start(self, rank, name, ref, device, *, ranks=1, job="job"):
        process = subprocess.Popen(
            [sys.executable, "-c", TABLE["rank"], job, str(rank), str(ranks), name, ref, device],
            env=os.environ | self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    def meeting(self, job="job"):
        return Meeting(job, self.env)


@pytest.fixture
def node(tmp_path):
    found = Node(tmp_path)
    yield found
    for process in found.started:
        process.communicate()


def test_a_claim_lasts_as_long_as_its_process_whatever_program_that_is(node):
    """Who comes later drops it; a rank started anew takes its place."""
    process = node.start(1, "b", "cuda1", "GPU-1")
    node.start(2, "c", "cuda2", "GPU-2")
    assert node.meeting().claims()[1] == Claim("b", "cuda1", "GPU-1", process.pid)
    process.communicate()
    node.start(3, "d", "cuda3", "GPU-3")
    assert sorted(node.meeting().claims()) == [2, 3]
    again = node.start(1, "e", "cuda4", "GPU-4")
    assert node.meeting().claims()[1].process == again.pid


def test_a_command_that_ends_at_once_has_been_there(node):
    """Its line stays for those that have come, and wait."""
    met = node.meeting()
    met.take(0, MINE)
    node.start(1, "b", "cuda1", "GPU-1", ranks=2).communicate()
    assert met.wait(0, 2, MINE, 60.0) == 0


def test_the_rank_that_waits_names_the_one_that_was_refused(node):
    met = node.meeting()
    met.take(0, MINE)
    process = node.start(1, "b", "cuda1", "GPU-0", ranks=2)
    assert process.wait(60.0) != 0
    told = refusal(BusyError, met.wait, 0, 2, MINE, 60.0)
    assert f"process {process.pid}) have" in told.message


@pytest.mark.parametrize(("name", "ref", "device", "busy"), TABLE["claims"])
def test_two_ranks_have_one_device_only_where_the_map_says_so(node, name, ref, device, busy):
    process = node.start(1, name, ref, device)
    met = node.meeting()
    met.take(0, MINE)
    if not busy:
        assert met.wait(0, 2, MINE, 60.0) == 0
        return
    told = refusal(BusyError, met.wait, 0, 2, MINE, 60.0)
    who = f"local rank 1 ({name}->{ref}, process {process.pid}) have one device: GPU-0"
    assert told.message == f"local rank 0 (a->cuda0, process {os.getpid()}) and {who}"


@pytest.mark.parametrize("ranks", [4, 10**12])
def test_who_does_not_come_is_counted(node, ranks):
    """The lines that are there are looked at, not all that could be."""
    node.start(2, "c", "cuda2", "GPU-2")
    met = node.meeting()
    met.take(0, MINE)
    assert met.wait(0, ranks, MINE, 0.0) == ranks - 2


def test_a_rank_is_there_once(node):
    process = node.start(0, "b", "cuda1", "GPU-1")
    told = refusal(BusyError, node.meeting().take, 0, MINE)
    assert told.message == f"process {process.pid} (b) is local rank 0 of this job, too"


@pytest.mark.parametrize(("name", "job"), [("a\tb", "job"), ("b", "other")])
def test_what_is_no_claim_of_this_job_is_none(node, name, job):
    """A name with a tab in it would be one, too: such a line is not read as another's claim."""
    node.start(1, name, "cuda1", "GPU-0", job=job)
    assert node.meeting().claims() == {}


@pytest.mark.parametrize("plant", ["link", "hard link", "folder", "fifo"])
def test_no_file_but_a_plain_one_of_the_users_own_is_opened(node, plant, tmp_path):
    node.meeting()
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (path,) = node.folder.iterdir()
    path.unlink()
    {
        "link": lambda: path.symlink_to(victim),
        "hard link": lambda: path.hardlink_to(victim),
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
    }[plant]()
    told = refusal(QuestionError, node.meeting)
    assert told.message.startswith(f"the ranks of this node cannot meet in {path}: ")
    assert "XDG_RUNTIME_DIR" in told.hint
    assert victim.read_text() == "kept"


@pytest.mark.parametrize("plant", ["open", "link", "file"])
def test_ranks_meet_in_no_folder_that_others_may_write_to(node, plant, tmp_path):
    if plant == "open":
        node.folder.mkdir()
        node.folder.chmod(0o777)
    elif plant == "link":
        (tmp_path / "other").mkdir(mode=0o700)
        node.folder.symlink_to(tmp_path / "other")
    else:
        node.folder.touch()
    assert "cannot meet in" in refusal(QuestionError, node.meeting).message


@pytest.mark.parametrize("place", ["none", "file", "."])
def test_a_private_folder_that_is_not_on_this_node_is_not_used(node, place, tmp_path, monkeypatch):
    """Slurm's ranks have the variable of the node that the job was sent from."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(rendezvous, "_TEMPORARY", str(tmp_path / "tmp"))
    node.env["XDG_RUNTIME_DIR"] = place if place == "." else str(tmp_path / place)
    node.meeting().take(0, MINE)
    assert len(list((tmp_path / "tmp" / node.folder.name).iterdir())) == 1
