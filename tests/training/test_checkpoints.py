"""Checkpoints: NumPy reads what is written, and nothing is lost where one cannot be written."""

import errno
import hashlib
import json
import os
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpumap.errors import SourceError
from gpumap.training.jobs import save_checkpoint
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


def read(path):
    with np.load(path, allow_pickle=False) as found:
        return found["parameters"], json.loads(str(found["about"]))


@FIXTURES
@given(st.lists(FLOATS, min_size=3, max_size=3))
def test_what_is_written_is_read_back_to_the_last_bit(tmp_path, numbers):
    """Also what is no number: whether that can be gone on with is for others to say."""
    parameters, path = np.array(numbers, np.float32), tmp_path / "any.npz"
    save_checkpoint(path, TASK, parameters, 1)
    found, _ = read(path)
    assert (found.dtype, found.shape) == (np.float32, (3,))
    assert found.tobytes() == parameters.tobytes()


def test_it_is_a_file_that_numpy_reads(path):
    """Whoever has no gpumap gets at the parameters, and at what they are of."""
    parameters, about = read(path)
    assert parameters.tolist() == LEARNED.tolist()
    assert (about["network"], about["parameters"], about["examples"]) == ("small", 3, 5120)
    assert about["sha256"] == hashlib.sha256(parameters.tobytes()).hexdigest()


@pytest.mark.parametrize("name", ["learned.npz", "other"])
def test_a_checkpoint_takes_the_place_of_an_older_one(path, name):
    """As a whole, and nothing else stays; a name without suffix stays, where NumPy adds one."""
    save_checkpoint(path.with_name(name), TASK, LEARNED * 2, 10)
    assert read(path.with_name(name))[0].tolist() == (LEARNED * 2).tolist()
    assert names(path.parent) == sorted({path.name, name})


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
    assert read(path)[0].tolist() == LEARNED.tolist()
    assert names(path.parent) == ["folder", path.name]
