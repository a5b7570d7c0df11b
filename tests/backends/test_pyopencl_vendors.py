"""Intel's OpenCL runtime from pip: shown to the loader, and nothing that anyone else has chosen."""

import os
import stat
import sys
from pathlib import Path

import opencl
import pytest
from commands.scripts import report
from tables import table

from gpumap import backends as loader
from gpumap.backends import ICD_VARIABLE, INTEL_LIBRARY, register
from gpumap.files import cache_folder

TABLE = table(__file__)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a function that makes a Python with Intel's runtime, and a system with drivers."""

    def make(*, library=True, **system):
        prefix, vendors = tmp_path / "venv", tmp_path / "vendors"
        (prefix / "lib").mkdir(parents=True)
        vendors.mkdir()
        if library:
            (prefix / "lib" / INTEL_LIBRARY).touch()
        for name, text in system.items():
            (vendors / f"{name}.icd").write_text(text)
        monkeypatch.setattr(sys, "prefix", str(prefix))
        monkeypatch.setattr(loader, "ICD_FOLDER", vendors)
        monkeypatch.setattr(loader, "_prefixes", lambda: (str(prefix),))
        return {"GPUMAP_CACHE_DIR": str(tmp_path / "cache")}, prefix / "lib" / INTEL_LIBRARY

    return make


def shown(folder):
    return [(path.name, path.read_text()) for path in sorted(Path(folder).iterdir())]


def test_the_loader_is_shown_intels_and_the_systems(here):
    """The system's come first, in their order: their places in a map stay as they were."""
    env, library = here(pocl="libpocl.so.2\n", nvidia="libnvidia-opencl.so.1\n")
    variables, notes = register(env)
    assert shown(variables[ICD_VARIABLE]) == [
        ("0-nvidia.icd", "libnvidia-opencl.so.1\n"),
        ("0-pocl.icd", "libpocl.so.2\n"),
        ("1-intel.icd", f"{library}\n"),
    ]
    assert [(note.code, note.severity) for note in notes] == [("opencl-vendors", "note")]


def test_the_folder_is_made_once_and_is_ours_alone(here):
    """A second process finds it as it is; of another content it is another one."""
    env, _ = here(pocl="libpocl.so.2\n")
    (first, _), (second, _) = register(env), register(env)
    folder = Path(first[ICD_VARIABLE])
    assert first == second
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.parent.iterdir()) == [folder]  # nothing half-made is left
    (loader.ICD_FOLDER / "other.icd").write_text("libother.so\n")
    assert register(env)[0] != first
    assert len(shown(folder)) == 2


@pytest.mark.parametrize(("system", "chosen"), TABLE["chosen"])
def test_where_nothing_is_to_be_done_nothing_is(here, system, chosen):
    """The user has chosen, whatever it is; it is not installed; or the system knows it already."""
    env, _ = here(**system)
    assert register(env | chosen) == ({}, ())
    assert not Path(env["GPUMAP_CACHE_DIR"]).exists()


@pytest.mark.parametrize(
    "kind", ["a file", "writable by others", "nowhere", "a folder in it is writable by others"]
)
def test_without_a_place_for_it_nothing_is_changed(here, tmp_path, kind):
    env, _ = here()
    cache = tmp_path / "cache"
    if kind.startswith("a folder"):
        Path(register(env)[0][ICD_VARIABLE]).chmod(0o777)
    elif kind == "a file":
        cache.touch()
    elif kind == "nowhere":
        env = {}
    else:
        cache.mkdir()
        cache.chmod(0o777)
    variables, (note,) = register(env)
    assert variables == {}
    assert "GPUMAP_CACHE_DIR" in note.hint


@pytest.mark.parametrize(("env", "place"), TABLE["caches"])
def test_the_cache_is_where_a_variable_says(env, place):
    assert cache_folder(env or {}) == (Path(place) if place else None)


@pytest.mark.skipif("intel" not in opencl.libraries(), reason="intel-opencl-rt: not installed")
def test_gpumap_and_what_it_starts_find_it(gpumap):
    """Without a variable of the user's: `devices` lists it and says so, `run` hands it on."""
    gpumap.env.pop(ICD_VARIABLE, None)
    found = report(gpumap("devices", "--backend", "pyopencl", "--format", "json"))
    ran = gpumap("run", "a->cpu0", "--quiet", "--", "env")
    assert any("Intel" in device["driver"] for device in found["devices"])
    (note,) = (n for n in found["map"]["notes"] if n["code"] == "opencl-vendors")
    folder = next(line for line in ran.out.splitlines() if ICD_VARIABLE in line).partition("=")[2]
    assert folder in note["message"]
    assert os.path.isfile(f"{folder}/1-intel.icd")  # noqa: PTH113 - it came as text
