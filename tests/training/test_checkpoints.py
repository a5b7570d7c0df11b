"""Checkpoints: what is written is read back, and what is none is refused with what to do."""

import errno
import json
import os
import zipfile
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusal

from gpumap.errors import QuestionError, SourceError
from gpumap.training.jobs import _FIX, load_checkpoint, save_checkpoint
from gpumap.training.network import Layer, Network

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def network(name="small", inputs=2):
    return Network(name, inputs, (Layer(1, "sigmoid"),))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


TASK = network()
LEARNED = np.array([0.5, -1.25, 3.0], np.float32)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "learned.npz"
    save_checkpoint(path, TASK, LEARNED, 5120)
    return path


def refused(path, task=TASK):
    """Return what is said of a file that is no checkpoint, without its name, and the fix."""
    found = refusal(QuestionError, load_checkpoint, path, task)
    return found.message.replace(str(path), "FILE"), found.hint


@FIXTURES
@given(st.lists(FLOATS, min_size=3, max_size=3))
def test_what_is_written_is_read_back_to_the_last_bit(tmp_path, numbers):
    """Also what is no number: whether that can be gone on with is for others to say."""
    parameters, path = np.array(numbers, np.float32), tmp_path / "any.npz"
    save_checkpoint(path, TASK, parameters, 1)
    found = load_checkpoint(path, TASK)
    assert (found.dtype, found.shape) == (np.float32, (3,))
    assert found.tobytes() == parameters.tobytes()
    found += 1  # it may be changed


def test_it_is_a_file_that_numpy_reads(path):
    """Whoever has no gpumap gets at the parameters, and at what they are of."""
    with np.load(path, allow_pickle=False) as found:
        about = json.loads(str(found["about"]))
        assert found["parameters"].tolist() == LEARNED.tolist()
    assert (about["network"], about["parameters"], about["examples"]) == ("small", 3, 5120)
    # whoever edits a checkpoint has another training than it says
    with np.load(path) as found:
        said = found["about"]
    path.write_bytes(archive(parameters=LEARNED + 1, about=said))
    assert refused(path) == (
        "FILE is damaged: its parameters are not those that were written", _FIX,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["learned.npz", "other"])
def test_a_checkpoint_takes_the_place_of_an_older_one(path, name):
    """As a whole, and nothing else stays; a name without suffix stays, where NumPy adds one."""
    save_checkpoint(path.with_name(name), TASK, LEARNED * 2, 10)
    assert load_checkpoint(path.with_name(name), TASK).tolist() == (LEARNED * 2).tolist()
    assert names(path.parent) == sorted({path.name, name})


def archive(**arrays):
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def about(**more):
    said = {"format": "gpumap-checkpoint-1", "network": "small", "parameters": 3, "examples": 1}
    return np.array(json.dumps(said | more))


def compressed():
    """Return a small file that would be read as a large array."""
    file = BytesIO()
    np.savez_compressed(file, parameters=np.zeros(1 << 20, np.float32), about=about())
    return file.getvalue()


def huge():
    """Return a few bytes that say they are a terabyte of parameters."""
    header, file = BytesIO(), BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 38,)}
    )
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("parameters.npy", header.getvalue())
        made.writestr("about.npy", b"")
    return file.getvalue()


class _Pickled:
    def __reduce__(self):
        return Path.touch, (Path("pwned"),)


PICKLED = np.array([_Pickled()], object)
OTHERS = np.array('{"format": "x\\u001b[2J"}')
LEARNED64 = LEARNED.astype(np.float64)
FOREIGN = {  # and what the message has
    "empty": (b"", "no checkpoint"),
    "text": (b"hello\n", "no checkpoint"),
    "zeros": (bytes(1000), "no checkpoint"),
    "zip": (b"PK\x03\x04" + bytes(100), "BadZipFile"),
    "one array": (b"\x93NUMPY\x01\x00", "no checkpoint"),
    "other arrays": (archive(weights=LEARNED), "KeyError"),
    "no words": (archive(parameters=LEARNED), "KeyError"),
    "float64": (archive(parameters=LEARNED64, about=about()), "TypeError"),
    "no JSON": (archive(parameters=LEARNED, about=np.array("{")), "JSONDecodeError"),
    "a list": (archive(parameters=LEARNED, about=np.array("[]")), "no checkpoint of gpumap"),
    "of others": (archive(parameters=LEARNED, about=OTHERS), "gpumap"),
    "without a sum": (archive(parameters=LEARNED, about=about()), "damaged"),
    "with another sum": (archive(parameters=LEARNED, about=about(sha256="0" * 64)), "damaged"),
    "compressed": (compressed(), "damaged"),
    "huge": (huge(), "no checkpoint: "),  # a few bytes that say they are a terabyte
    "pickled": (archive(parameters=PICKLED, about=about()), "Object arrays cannot be loaded"),
    "pickled words": (archive(parameters=LEARNED, about=PICKLED), "Object arrays cannot be loaded"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_checkpoint_is_refused(tmp_path, monkeypatch, name):
    """The message has its name, why, and how to write one; nothing that is in it runs."""
    monkeypatch.chdir(tmp_path)
    data, said = FOREIGN[name]
    path = tmp_path / "learned.npz"
    path.write_bytes(data)
    message, hint = refused(path)
    assert message.startswith("FILE is ")
    assert said in message
    assert hint == _FIX
    assert names(tmp_path) == ["learned.npz"]  # nothing was unpickled


def test_a_damaged_checkpoint_is_never_read_as_another_one(path):
    """Cut anywhere, or with any byte changed, it is refused, or its parameters are the same."""
    whole = path.read_bytes()
    every = [whole[:stop] for stop in range(0, len(whole), 7)]
    every += [whole[:n] + bytes([byte ^ 0x55]) + whole[n + 1 :] for n, byte in enumerate(whole)]
    for data in every:
        path.write_bytes(data)
        try:
            found = load_checkpoint(path, TASK)
        except QuestionError:
            continue
        assert found.tobytes() == LEARNED.tobytes()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (network("other"), "FILE is of small, 3 parameters, and not of other, 3"),
        (network(inputs=3), "FILE is of small, 3 parameters, and not of small, 4"),
    ],
)
def test_a_checkpoint_of_another_network_is_refused(path, task, said):
    """By its name, which is someone's text, and by how many parameters there are."""
    assert refused(path, task) == (said, f"give one of {task.name}, or none")
    save_checkpoint(path, network("small\x1b[2J\n"), LEARNED, 1)
    assert "small\x1b[2J\n" in refused(path)[0]


def test_what_cannot_be_written_is_said(path, monkeypatch):
    """The disk fills at any point: the older one is whole, and no part of a new one left."""
    (path.parent / "folder").mkdir()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(SourceError, match=f"cannot write {path.parent}/folder: ") as error:
        save_checkpoint(path.parent / "folder", TASK, LEARNED, 1)
    assert error.value.diagnostics[0].hint
    for broken in ("fdopen", "fsync", "replace"):
        monkeypatch.setattr(os, broken, Mock(side_effect=full))
        with pytest.raises(SourceError, match="the disk is full"):
            save_checkpoint(path, TASK, LEARNED * 2, 1)
        monkeypatch.undo()
    assert load_checkpoint(path, TASK).tolist() == LEARNED.tolist()
    assert names(path.parent) == ["folder", path.name]
