"""What tests of every folder are given."""

from __future__ import annotations

import os

import pytest
from shell import Shell
from stubs import Stubs, build


@pytest.fixture
def gpumap(tmp_path) -> Shell:
    """Gpumap in an empty folder, with nothing of the user's environment but where programs are."""
    home = tmp_path / "home"
    folder = tmp_path / "folder"
    for path in (home, folder):
        path.mkdir()
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    env = {**kept, "HOME": str(home), "TMPDIR": str(tmp_path), "LC_ALL": "C.UTF-8"}
    env["PYTHONWARNINGS"] = "error"
    return Shell(folder, env)


@pytest.fixture(scope="session")
def built_stubs(tmp_path_factory):
    """The stub drivers, compiled once."""
    return build(tmp_path_factory.mktemp("drivers"))


@pytest.fixture
def stubs(built_stubs, tmp_path) -> Stubs:
    """Stub drivers, to be put before the machine's own: ``stubs("libcuda.so.1")``."""
    return Stubs(built_stubs, tmp_path / "drivers")
