"""What ranks say to the first of them: whole, in order, and whatever else knocks at the door."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress

import pytest

from gpumap.errors import AbsentError
from gpumap.parallel.comm.doors import Door
from gpumap.parallel.comm.meeting import Guest, Host

PATIENCE = 20.0  # seconds
CODE = """
import sys, time
from gpumap.parallel.comm.doors import Door
from gpumap.parallel.comm.meeting import Guest
guest = Guest(Door(sys.argv[1]), int(sys.argv[2]), 0, 20)
print("come", flush=True)
time.sleep(60)
"""

FEW = """
import resource, sys
from gpumap.parallel.comm.doors import Door
from gpumap.parallel.comm.meeting import Host
host = Host(Door(sys.argv[1]), 2)
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
print("open", flush=True)
print(*(caller.text for caller in host.hear()))
"""


@pytest.fixture
def door():
    """Return a door that nobody else has."""
    return Door(os.urandom(8).hex())


def knock(door):
    """Return a bare connection to a door, greeted."""
    found = socket.socket(socket.AF_UNIX)
    found.connect(door.local)
    assert found.recv(100) == f"gpumap {door.job}\n".encode()
    return found


def told(host, *texts):
    """Let ranks 1, 2, ... say these texts, the last one first; return what rank 0 hears."""
    guests = [Guest(host._door, rank, rank, PATIENCE) for rank, _ in enumerate(texts, 1)]
    with ThreadPoolExecutor(len(texts)) as pool:  # each waits for the others
        heard = [
            pool.submit(guest.tell, text)
            for guest, text in reversed(list(zip(guests, texts, strict=True)))
        ]
        assert all(each.result(PATIENCE) for each in heard)
    return [caller.text for caller in host.hear()]


def wait_until(true):
    """Wait for something to be true."""
    until = time.monotonic() + PATIENCE
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    assert true()


def test_all_is_heard_in_the_order_of_the_ranks(door):
    """Whoever speaks first, and however much it has to say; and where each is."""
    texts = ["a\n\0b", "", "ü" * 3_000_000]
    with Host(door, 4) as host:
        assert told(host, *texts) == texts
    with Host(door, 2) as host:
        assert Guest(door, 1, 7, PATIENCE).tell("x")
        (caller,) = host.hear()
    here = (1, 7, socket.gethostname(), os.getpid())
    assert (caller.rank, caller.local_rank, caller.host, caller.process) == here


def test_a_rank_that_dies_is_known_by_name(door):
    """It has come, so that rank 0 need not wait for its time limit."""
    with Host(door, 2) as host:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, door.job, "1"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "come\n"
        process.send_signal(signal.SIGKILL)
        (caller,) = host.hear()
        process.communicate()
    assert (caller.rank, caller.process, caller.text) == (1, process.pid, None)


def test_who_has_not_spoken_yet_is_missing(door):
    """With its process, as soon as that is known."""
    with Host(door, 4) as host:
        late, early = (Guest(door, rank, 0, PATIENCE) for rank in (1, 2))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(early.tell, "x")
            here = f"rank 1 on {socket.gethostname()}, process {os.getpid()}"
            wait_until(lambda: host.missing == [here, "rank 3"])
            host.__exit__(None, None, None)
    assert not late.tell("x")


KNOWN = {"rank": 1, "local_rank": 0, "process": 1, "host": "x"}
WRONG = [
    {"job": "another"}, {"rank": 0}, {"rank": 2}, {"rank": -1}, {"rank": True}, {"rank": "1"},
    {"host": 3}, {"process": None}, {"local_rank": 1.5},
]  # fmt: skip


NO_RANK = [b"\n", b"no json\n", b"[]\n", b"\xff\n", b"[" * 4000 + b"\n", b"x" * 5000, *WRONG]


@pytest.mark.parametrize("line", NO_RANK, ids=str)
def test_who_is_no_rank_of_the_job_is_shown_out(door, line):
    """Though it knows the job; and nobody waits for it, or counts it."""
    if isinstance(line, dict):
        line = json.dumps({"job": door.job} | KNOWN | line).encode() + b"\n"
    with Host(door, 2) as host:
        with knock(door) as stranger:
            stranger.sendall(line)
            assert stranger.recv(100) == b""
        assert told(host, "x") == ["x"]


@pytest.mark.parametrize(
    "length", [b"x\n", b"-1\n", b"99999999999999999999\n", b"100000000\n", b"1" * 100, b"x" * 100]
)
def test_a_length_that_is_none_is_no_answer(door, length):
    """The rank counts as one that has died; no memory is taken for it."""
    known = {"job": door.job} | KNOWN
    with Host(door, 2) as host, knock(door) as stranger:
        stranger.sendall(json.dumps(known).encode() + b"\n" + length)
        assert [caller.text for caller in host.hear()] == [None]


def test_nobody_leaves_before_all_are_heard(door):
    """The job's next command would come to the door of this one, and be lost there.

    A second process of a rank is not heard, and fails: what it says is in no report.
    """
    with Host(door, 3) as host, ThreadPoolExecutor(1) as pool:
        one, other, last = (Guest(door, rank, 0, PATIENCE) for rank in (1, 1, 2))
        heard = pool.submit(one.tell, "x")
        wait_until(lambda: len(host.missing) == 1)
        assert not wait([heard], 0.2).done
        assert not other.tell("z")
        assert last.tell("y")
        assert heard.result(PATIENCE)
        assert [caller.text for caller in host.hear()] == ["x", "y"]


def test_of_many_that_are_missing_a_few_are_named(door):
    """A variable with a wrong number must cost neither memory nor a screen full of ranks."""
    with Host(door, 9_999_999) as host:
        missing = host.missing
    assert missing[:2] == ["rank 1", "rank 2"]
    assert missing[16:] == ["9999982 more"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_neither_told_the_job_nor_heard(door):
    """By what the kernel says of who has connected; the rank itself is heard behind it."""
    who = json.dumps({"job": door.job} | KNOWN)
    with Host(door, 2) as host:
        os.seteuid(65534)
        try:
            found = socket.socket(socket.AF_UNIX)
            found.connect(door.local)
        finally:
            os.seteuid(0)
        with found as stranger, suppress(OSError):
            stranger.sendall(f"{who}\n1\nx".encode())
            assert stranger.recv(100) == b""
        assert told(host, "y") == ["y"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_door_is_not_entered(door):
    """Who took its name first hears nothing of the report."""
    os.seteuid(65534)
    try:
        taken = socket.create_server(door.local, family=socket.AF_UNIX)
    finally:
        os.seteuid(0)
    with taken, pytest.raises(AbsentError):
        Guest(door, 1, 0, 0.2)


def test_a_door_that_closes_while_one_says_who_one_is_was_not_the_last(door):
    """Who was shown out comes again."""
    with socket.socket(socket.AF_UNIX) as closing, ThreadPoolExecutor(1) as pool:
        closing.bind(door.local)
        closing.listen()
        coming = pool.submit(Guest, door, 1, 0, PATIENCE)
        with closing.accept()[0] as line:
            line.shutdown(socket.SHUT_RD)
            line.sendall(f"gpumap {door.job}\n".encode())
            closing.close()
        with Host(door, 2) as host:
            assert coming.result(PATIENCE).tell("x")
            assert [caller.text for caller in host.hear()] == ["x"]


def test_who_says_nothing_makes_room_for_a_rank(door):
    """However many of them come: a process can have so many files open, and no more."""
    process = subprocess.Popen(
        [sys.executable, "-c", FEW, door.job], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    with ExitStack() as strangers:
        for _ in range(100):
            stranger = strangers.enter_context(socket.socket(socket.AF_UNIX))
            stranger.connect(door.local)
        try:
            assert Guest(door, 1, 0, PATIENCE).tell("x")
        finally:
            process.kill()
            process.communicate()


def test_a_door_opens_once(door):
    """Two first ranks of one job cannot be; where none opens, or has ended too soon, it is said."""
    with pytest.raises(AbsentError, match="does not answer"):
        Guest(door, 1, 0, 0.1)  # seconds
    with Host(door, 3):
        guest = Guest(door, 1, 0, PATIENCE)
        with pytest.raises(AbsentError, match="cannot open its socket"):
            Host(door, 3)
    assert not guest.tell("x")


def test_fewer_ranks_never_pass_for_all(door, monkeypatch):
    """Whatever ends the thread that hears them, here as its memory would: a rank is missing."""

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(Host, "_turn", fail)
    with (
        Host(door, 3) as host,
        pytest.raises(AbsentError, match="can no longer hear rank 1, rank 2"),
    ):
        host.hear()
