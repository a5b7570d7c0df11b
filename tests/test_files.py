"""Files: bounded, never blocking, atomic; every failure says what, where and the fix."""

import ctypes
import errno
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from refusals import refusal

from gpumap.errors import SourceError
from gpumap.files import LIMIT, empty, read_bytes, read_text, write_atomic

ROOT = os.geteuid() == 0


def refused(action, start):
    """Return why a file is refused: what stands behind the start of the message."""
    message = refusal(SourceError, action).message
    assert message.startswith(f"{start}: ")
    return message.removeprefix(f"{start}: ")


def unread(path, *limit):
    return refused(lambda: read_text(path, "map file", *limit), f"cannot read the map file {path}")


def unwritten(path, text=""):
    return refused(lambda: write_atomic(path, text), f"cannot write {path}")


@pytest.mark.parametrize(("content", "text"), [
    (b"", ""), (b"dev0->cuda0\n", "dev0->cuda0\n"), (b"\xef\xbb\xbfdev0->cuda0", "dev0->cuda0"),
    ("größe->cpu0".encode(), "größe->cpu0"),
])  # fmt: skip
def test_text_is_read_as_utf8_without_its_mark(tmp_path, content, text):
    path = tmp_path / "a.map"
    path.write_bytes(content)
    assert text == read_text(path, "map file")


def listening(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def sparse(path):
    """Make a gigabyte of nothing: the size is asked before the bytes."""
    path.touch()
    os.truncate(path, 2**30)


@pytest.mark.parametrize(("make", "message"), [
    (Path.exists, "no such file or directory"), (Path.mkdir, "is a directory"),
    (os.mkfifo, "it is no regular file"), (listening, "no such device or address"),
    (lambda path: path.symlink_to("/dev/zero"), "it is no regular file"),
    (lambda path: path.write_bytes(b"\x7fELF\0\0"), "it is not text (a NUL at byte 4)"),
    (lambda path: path.write_bytes(b"dev\xff0"), "it is not UTF-8 (0xff at byte 3)"),
    (sparse, f"it is larger than {LIMIT} bytes"),
])  # fmt: skip
def test_what_is_no_text_is_named_and_never_waited_for(tmp_path, make, message):
    """Whatever stands at the path, the answer is at once what it is; the path is escaped."""
    path = tmp_path / "thing\x1b[2J\u202e"
    make(path)
    assert unread(path) == message


@pytest.mark.parametrize(
    "action", [lambda p: read_text(p, "map file"), lambda p: write_atomic(p, "")]
)
def test_a_path_that_is_none_is_said(action):
    """A NUL in a path is an error of the question, not a crash."""
    with pytest.raises(SourceError, match=r"a\\x00b: that is no path(\nfix: .*)?$"):
        action(Path("a\0b"))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc")
def test_a_size_of_0_is_not_believed(tmp_path):
    """Files in /proc claim 0 bytes; the limit holds for what is really read, to the byte."""
    path = tmp_path / "a.map"
    path.write_bytes(b"x" * 10)
    assert unread(Path("/proc/self/maps"), 10) == "it is larger than 10 bytes"
    assert read_text(path, "map file", 10) == "x" * 10
    assert unread(path, 9) == "it is larger than 9 bytes"
    assert read_bytes(path, "file", 1 << 60) == b"x" * 10  # room is for what is there


def test_a_new_file_has_the_mode_that_open_would_give(tmp_path):
    """An old one keeps its own, and its reader all of it; a lone surrogate costs no file."""
    path = tmp_path / "report.json"
    before = os.umask(0o027)
    try:
        write_atomic(path, "größe\n")
    finally:
        os.umask(before)
    assert path.read_text("utf-8") == "größe\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [path] == list(tmp_path.iterdir())
    path.write_text("old")
    path.chmod(0o604)
    with path.open() as reader:
        write_atomic(path, "new\udc80")
        assert reader.read() == "old"
    assert path.read_bytes() == b"new\\udc80"
    assert path.stat().st_mode & 0o777 == 0o604


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_written_through(tmp_path, exists):
    (tmp_path / "sub").mkdir()
    target = tmp_path / "sub" / "target"
    if exists:
        target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to("sub/target")
    write_atomic(link, "new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")


@pytest.mark.parametrize(("name", "number"), [
    ("none/a", errno.ENOENT), ("folder", errno.EISDIR), ("fifo", errno.ENXIO),
    ("full", errno.ENOSPC),
])  # fmt: skip
def test_what_cannot_be_written_says_why(tmp_path, name, number):
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").symlink_to("/dev/full")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(tmp_path.rglob("*"))
    assert unwritten(tmp_path / name, "text") == os.strerror(number).lower()
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.skipif(not ROOT, reason="needs root to become another user")
@pytest.mark.parametrize("exists", [True, False])
def test_what_may_not_be_written_is_said(exists):
    """A read-only file is not replaced behind its owner's back, a folder not written to."""
    with tempfile.TemporaryDirectory() as public:  # pytest's own are for its user only
        folder = Path(public)
        folder.chmod(0o755)
        path = folder / "a"
        if exists:
            path.write_text("old")
            path.chmod(0o444)
            folder.chmod(0o777)
        os.seteuid(65534)
        try:
            assert unwritten(path, "new") == "permission denied"
        finally:
            os.seteuid(0)
        assert [path] * exists == list(folder.iterdir())


def test_a_full_disk_keeps_the_old_file_and_no_temporary(tmp_path):
    libc = ctypes.CDLL(None, use_errno=True)
    if not ROOT or libc.mount(b"tmpfs", bytes(tmp_path), b"tmpfs", 0, b"size=64k"):
        pytest.skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno() or errno.EPERM)}")
    path = tmp_path / "report.json"
    try:
        path.write_text("old")
        assert unwritten(path, "x" * 100_000) == "no space left on device"
        assert ([path], "old") == (list(tmp_path.iterdir()), path.read_text())
    finally:
        libc.umount(bytes(tmp_path))


def test_an_interrupt_leaves_no_temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_slow_reader_of_a_fifo_gets_everything(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    program = "import sys,time; time.sleep(.2); print(len(sys.stdin.read()))"
    with subprocess.Popen(
        [sys.executable, "-c", f"import os; os.set_blocking(0, True); {program}"],
        stdin=reader, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        os.close(reader)
        write_atomic(fifo, "x" * 300_000)
        assert child.communicate()[0] == "300000\n"


def test_a_file_is_emptied_in_its_place(tmp_path):
    """It keeps its mode, and a link to it stays one; what is no file is left alone, unsaid."""
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("of an earlier run")
    old.chmod(0o640)
    link.symlink_to(old)
    os.mkfifo(tmp_path / "fifo")
    for path in (link, tmp_path / "fifo", tmp_path, tmp_path / "none", Path("a\0b")):
        empty(path)
    assert (old.read_text(), old.stat().st_mode & 0o777, link.is_symlink()) == ("", 0o640, True)
    assert not (tmp_path / "none").exists()
