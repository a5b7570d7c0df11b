"""What is in the wheel and in the sdist: all that it takes, and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser

import pytest
from written import PROJECT, ROOT

from gpumap.version import __version__
from hatch_build import pages

NAME = PROJECT["name"].replace("-", "_")  # of its files
MAN = f"{NAME}-{__version__}.data/data/share/man/man1"
# What the tests open outside of gpumap, beside themselves.
TESTED = (
    "tests", "benchmarks", "docs", "examples", ".github", ".ci", "README.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "Makefile", "LICENSE", "action.yml", "pyproject.toml", "hatch_build.py",
    "zensical.toml", ".pre-commit-hooks.yaml",
)  # fmt: skip
LEFT = ("__pycache__", ".pyc")  # what no release has


def files(*places):
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
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.filterwarnings("ignore:'click.utils.make_default_short_help'")  # click-man's
def test_the_wheel_has_the_package_and_nothing_beside_it(built, wheel):
    """Neither tests nor benchmarks, nor machine code: all of gpumap as it is, and the man pages."""
    info = f"{NAME}-{__version__}.dist-info/"
    inside = {name for name in wheel if not name.startswith(info)}
    assert [path.name for path in built.glob("*.whl")] == [f"{NAME}-{__version__}-py3-none-any.whl"]
    assert inside == files("gpumap") | {f"{MAN}/{name}" for name in pages()}
    assert [name for name in files("gpumap") if wheel[name] != (ROOT / name).read_bytes()] == []


def test_the_texts_can_be_read_from_the_wheel_itself(built):
    """As from any archive on Python's path: topics of `explain`, and pages of `doctor`."""
    (path,) = built.glob("*.whl")
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpumap.cli import main; main()"
    command = [sys.executable, "-c", start, str(path), "explain"]
    done = subprocess.run(command, cwd=built, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"speedup", "GM409"} <= set(done.stdout.split())


def test_the_wheel_says_what_the_project_does(wheel):
    info = f"{NAME}-{__version__}.dist-info"
    told = Parser().parsestr(wheel[f"{info}/METADATA"].decode())
    assert b"gpumap = gpumap.__main__:main" in wheel[f"{info}/entry_points.txt"]
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert told["Requires-Python"] == PROJECT["requires-python"]
    assert wheel[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_sdist_has_what_the_tests_take(built):
    """Whoever has it can build the wheel and test it; no cache or build of whoever made it."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        sdist = {name.partition("/")[2] for name in archive.getnames()}
    wrong = (".venv", "__pycache__", ".pytest_cache", ".wheels/", "dist/", ".git/")
    assert files("gpumap", *TESTED) - sdist == set()
    assert [name for name in sdist if any(part in f"{name}/" for part in wrong)] == []
