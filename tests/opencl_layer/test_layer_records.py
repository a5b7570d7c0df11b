"""The files of the layer, read: what is not one is refused, and said."""

import os
import re
import shutil
import stat

import pytest
from layered import LAYER, compiled

from gpumap.opencl_layer.layer import _SIZE, Counts, read


@pytest.fixture
def left(counting, program):
    """Return the file of a program, and the folder where it is."""
    done, _ = counting.run([program], "system")
    assert done.returncode == 0
    (file,) = counting.folder.iterdir()
    return file


def planted(file, offset, data):
    content = bytearray(file.read_bytes())
    content[offset : offset + len(data)] = data
    file.write_bytes(content)


def fifo(file):
    file.unlink()
    os.mkfifo(file)


def folder(file):
    file.unlink()
    file.mkdir()


def given_away(file):
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, 12345)


HOSTILE = {
    "empty": lambda file: file.write_bytes(b""),
    "short": lambda file: os.truncate(file, _SIZE - 1),
    "cut in its head": lambda file: os.truncate(file, 5),
    "long": lambda file: file.write_bytes(file.read_bytes() + b"x"),
    "not begun": lambda file: planted(file, 0, bytes(8)),
    "another magic": lambda file: planted(file, 0, b"gpumapXX"),
    "another version": lambda file: planted(file, 8, b"\2"),
    "another size": lambda file: planted(file, 12, b"\1"),
    "other slots": lambda file: planted(file, 16, b"\1"),
    "more devices": lambda file: planted(file, 20, b"\377"),
    "a FIFO": fifo,
    "a folder": folder,
    "a dangling link": lambda file: (file.unlink(), file.symlink_to("/nowhere")),
    "others can write": lambda file: file.chmod(0o666),
    "another user's": given_away,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_is_not_the_layers_is_refused_and_said(left, what):
    """The others of the run are read all the same."""
    shutil.copy(left, left.with_name("other.opencl"))
    left.with_name("other.opencl").chmod(0o600)
    HOSTILE[what](left)
    reading = read(left.parent)
    assert len(reading.processes) == 1
    (problem,) = reading.refused
    assert left.name in problem.message
    assert problem.hint


def test_a_number_of_devices_beyond_the_file_reads_no_further(left):
    planted(left, 36, b"\377\377\377\377")
    (process,) = read(left.parent).processes
    assert len(process.devices) == 64


def test_hostile_names_are_text(left):
    """Without an end, not UTF-8, with control characters: read as they are, escaped when shown."""
    planted(left, 512 + 256 + 64, b"\xff\x1b[2J" + b"A" * 91)
    planted(left, 128, b"\x80" * 384)
    (process,) = read(left.parent).processes
    assert process.devices[0].name == "\ufffd\x1b[2J" + "A" * 91
    assert process.program == "\ufffd" * 384


def test_a_file_is_the_users_alone_and_nothing_else_is_read(left):
    state = left.stat()
    assert (stat.S_IMODE(state.st_mode), state.st_size) == (0o600, _SIZE)
    left.rename(left.with_suffix(".txt"))
    assert read(left.parent) == ((), ())


def test_processes_are_in_the_order_in_which_they_began(counting, program):
    for mode in ("look", "all", "look"):
        counting.run([program, mode], "system")
    processes = counting.read()
    assert [len(process.devices) for process in processes] == [0, 1, 0]


def test_the_counters_have_the_names_of_the_layer(tmp_path):
    """One more in C, and none in Python, would shift all that follow."""
    text = re.search(r"enum counter \{(.*?)\};", LAYER.read_text(), re.DOTALL)[1]
    assert [name.strip().lower() for name in text.split(",")] == list(Counts._fields)
    assert compiled(tmp_path, LAYER, "-shared", "-fPIC", "-std=gnu11")  # its own assertions hold
