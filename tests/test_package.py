"""What is in the wheel and in the sdist: all that it takes, and nothing else.

Both are built here, without a network. That they install and start, with each extra, `make package`
tries.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from gpumap.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = PROJECT["name"].replace("-", "_")  # of its files
MAN = f"{NAME}-{__version__}.data/data/share/man/man1/gpumap.1"
# What the tests open outside of gpumap, beside themselves.
TESTED = (
    "tests", "benchmarks", "docs", "examples", ".github", ".ci", "README.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "Makefile", "LICENSE", "action.yml", "pyproject.toml",
    ".pre-commit-hooks.yaml",
)  # fmt: skip
LEFT = ("__pycache__", ".pyc")  # what no release has


def files(*places):
    """Return every file at these places of the checkout, by its path."""
    found = [ROOT / place for place in places]
    every = [file for path in found for file in ([path] if path.is_file() else path.rglob("*"))]
    paths = {str(file.relative_to(ROOT)) for file in every if file.is_file()}
    return {path for path in paths if not any(part in path for part in LEFT)}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both, as a front end does, by the project's own backend."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    """The wheel: each file by its path."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(built):
    """The paths of the sdist."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_is_of_every_system(built):
    """No machine code in it: kernels are compiled where they run."""
    assert [path.name for path in built.glob("*.whl")] == [f"{NAME}-{__version__}-py3-none-any.whl"]


def test_the_wheel_has_the_package_and_nothing_beside_it(wheel):
    """Neither tests nor benchmarks: every file of gpumap, each as it is, and the man page."""
    info = f"{NAME}-{__version__}.dist-info/"
    inside = {name for name in wheel if not name.startswith(info)}

    assert inside == files("gpumap") | {MAN}
    assert [name for name in files("gpumap") if wheel[name] != (ROOT / name).read_bytes()] == []
    assert wheel[MAN] == (ROOT / "docs" / "gpumap.1").read_bytes()


@pytest.mark.parametrize(
    "name",
    ["kernels/gemm.cl", "kernels/elementwise.c", "kernels/opencl.h", "kernels/cuda.h",
     "report/schema-1.json", "parallel/published.csv", "parallel/presets.py", "py.typed"],
)  # fmt: skip
def test_the_wheel_has_what_is_no_module(wheel, name):
    """Kernels and their headers, the schema, published times, presets, and that it is typed."""
    assert f"gpumap/{name}" in wheel


def test_the_wheel_says_what_the_project_does(wheel):
    """The command, every extra, the oldest Python, and the licence."""
    info = f"{NAME}-{__version__}.dist-info"
    told = Parser().parsestr(wheel[f"{info}/METADATA"].decode())

    assert b"gpumap = gpumap.__main__:main" in wheel[f"{info}/entry_points.txt"]
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert told["Requires-Python"] == PROJECT["requires-python"]
    assert wheel[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_sdist_has_what_the_tests_take(sdist):
    """Whoever has it can build the wheel, and see that it works."""
    assert files("gpumap", *TESTED) - sdist == set()


def test_the_sdist_has_nothing_that_was_made_on_the_way(sdist):
    """No environment, cache or build of whoever made it."""
    wrong = (".venv", "__pycache__", ".pytest_cache", ".wheels/", "dist/", ".git/")

    assert [name for name in sdist if any(part in f"{name}/" for part in wrong)] == []
