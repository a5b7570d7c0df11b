"""Probing in a child process: a driver may crash, hang, print or have no device."""

import os
import shutil
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest
from commands.ranks import lives
from sessions import usable
from shell import until
from tables import table

from gpumap.backends import probe as module
from gpumap.backends import pyopencl
from gpumap.backends.base import Host
from gpumap.backends.cupy import CupyBackend
from gpumap.backends.probe import _Late, _starved, _unimported, probe_in_child
from gpumap.backends.pyopencl import PyopenclBackend
from gpumap.extras import install
from gpumap.machine import process_control, topology
from gpumap.machine.cuda import NO_DRIVER, NO_GPU
from gpumap.model import Probe

PROGRAMS = table(__file__)
MACHINE = topology.read()
CC = shutil.which("cc")
REMOVE = "remove or update the driver: /etc/OpenCL/vendors, OCL_ICD_VENDORS"
POCL = 'platform 0 "Portable Computing Language"'


def probed(name="pyopencl", time_limit=60.0, **env):
    """Return what a child finds, with those variables beside the process's own."""
    return probe_in_child(name, Host({**os.environ, **env}, MACHINE, time_limit), "install it")


@pytest.fixture
def driver(tmp_path):
    """Return a function that builds an OpenCL driver whose every entry runs that C code."""
    if CC is None:
        pytest.skip("no C compiler to build a driver with")
    pytest.importorskip("pyopencl", reason="pyopencl: not installed")

    def build(body):
        source, library = tmp_path / "driver.c", tmp_path / "driver.so"
        source.write_text(PROGRAMS["driver"] % body)
        subprocess.run([CC, "-shared", "-fPIC", "-w", "-o", library, source], check=True)
        return str(library)

    return build


@pytest.mark.parametrize(("why", "fix"), [(NO_GPU, NO_GPU.fix), (NO_DRIVER, install("cuda13"))])
def test_cupy_alone_is_no_help_without_a_gpu(monkeypatch, why, fix):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setattr("gpumap.backends.cupy.no_driver", lambda: why)
    assert CupyBackend(Host({}, MACHINE)).probe().fix.startswith(fix)


@pytest.mark.parametrize("how", PROGRAMS["ends"])
def test_a_driver_that_crashes_or_prints_or_ends_the_process(driver, how):
    """The signal is the reason; this process lives on, and its answer is not corrupted."""
    body, reason, code = PROGRAMS["ends"][how]
    probe = probed(OCL_ICD_VENDORS=driver(body))
    assert not probe.usable
    if code is None:
        assert probe.reason == reason
    else:
        assert (probe.code, probe.fix) == (code, REMOVE)
        assert reason in probe.reason


def test_a_driver_that_hangs_with_a_child_of_its_own(driver, tmp_path, monkeypatch):
    """It is given up after the time limit; what it started, and holds its files open, ends too."""
    note = tmp_path / "pid"
    library = driver(PROGRAMS["forks"].replace("NOTE", str(note)))

    def hung(*arguments, ended=module._ended):
        while not note.exists():  # however long a busy machine takes to come there
            time.sleep(0.01)
        return ended(*arguments)

    monkeypatch.setattr(module, "_ended", hung)
    probe = probed(OCL_ICD_VENDORS=library, time_limit=0.2)
    assert (probe.usable, probe.code, probe.version) == (False, "no-answer", None)
    until(lambda: not lives(int(note.read_text())))


@pytest.mark.parametrize(("limit", "advised"), [(5.0, True), (27.0, False)])
def test_who_had_all_the_time_is_not_told_how_to_get_it(limit, advised):
    """A library that is requested by name has the time of every driver."""
    reason, fix, _ = _unimported("torch", limit, 27.0)
    assert reason.endswith(f"{limit:g} s")
    assert ("--backend torch" in fix, "import torch" in fix) == (advised, True)


def test_time_in_which_a_child_waits_for_a_core_is_not_its_drivers(tmp_path):
    """The most of any of its threads, as the kernel counts it."""
    for thread, line in ((7, "1 2000000000 3"), (8, "1 6000000000 3"), (9, "")):
        (tmp_path / f"proc/7/task/{thread}").mkdir(parents=True)
        (tmp_path / f"proc/7/task/{thread}/schedstat").write_text(line)
    assert (_starved(7, tmp_path), _starved(8, tmp_path)) == (6.0, 0.0)


@pytest.mark.parametrize(("limits", "clock", "lines", "starved"), [
    ((5.0, 10.0), [0.0, 4.0, 4.5, 9.0, 15.0], ["", *["imported"] * 3], 0.0),
    ((10.0, 20.0), [0.0, 15.0, 16.5], ["", ""], 6.0),  # of which it waited for a core
])  # fmt: skip
def test_each_answer_of_a_child_has_its_own_limit(monkeypatch, limits, clock, lines, starved):
    """The first, that its library is imported, has one limit; what it says later has another."""
    monkeypatch.setattr(module, "time", Mock(monotonic=Mock(side_effect=clock)))
    late = _Late(*limits)
    assert [late(line, starved) for line in lines] == [False] * (len(lines) - 1) + [True]


def test_a_child_that_no_signal_ends_is_not_waited_for(monkeypatch):
    """The kernel has it, in a driver's call: it is alive when its reader goes on."""
    alive = []
    kill = process_control.kill_children
    monkeypatch.setattr(module, "_KILLED", 600.0)
    monkeypatch.setattr(module.os, "killpg", lambda *_: None)
    monkeypatch.setattr(process_control, "stuck", lambda _: True)
    monkeypatch.setattr(
        process_control,
        "kill_children",
        lambda mark: alive.append(len(process_control.children(mark))) or kill(mark),
    )
    command = (sys.executable, "-c", "import time; time.sleep(20)")
    ended = module.run_child(command, dict(os.environ), 0.1)
    assert (ended.code, alive) == (None, [1])


def test_no_driver_at_all(tmp_path):
    """The reason is not an error code, and the fix installs one."""
    pytest.importorskip("pyopencl", reason="pyopencl: not installed")
    probe = probed(OCL_ICD_VENDORS=str(tmp_path / "none"))
    assert probe == Probe(
        "pyopencl", usable=False, version=probe.version, reason="no OpenCL driver is installed",
        fix="unset OCL_ICD_VENDORS", lack="no-driver",
    )  # fmt: skip


NOWHERE = (("lib/no-c-library-*",),)


def test_the_driver_that_is_offered_works_here(monkeypatch, tmp_path):
    """None where the system has one; Intel's where PoCL would find no linker."""
    monkeypatch.setattr(pyopencl, "ICD_FOLDER", tmp_path)
    monkeypatch.setattr(pyopencl, "_LINKED", ())
    (tmp_path / "ld").touch(0o755)
    here, bare = (PyopenclBackend(Host({"PATH": path}, MACHINE)) for path in (str(tmp_path), "/x"))
    offered = [here.install(), bare.install()]
    monkeypatch.setattr(pyopencl, "_LINKED", NOWHERE)
    offered.append(here.install())
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1")
    extras = ("opencl-cpu", "opencl-intel", "opencl-intel", "opencl")
    assert [*offered, bare.install()] == [install(extra) for extra in extras]


@pytest.mark.parametrize("linker", [None, "#!/bin/sh\nexit 1\n"])
def test_pocl_without_a_linker_is_not_used(pocl, tmp_path, monkeypatch, linker):
    """It would end the process at its first kernel; the fix has a driver that needs none."""
    if linker is not None:  # it is there, and has nothing to link with
        (tmp_path / "ld").write_text(linker)
        (tmp_path / "ld").chmod(0o755)
        monkeypatch.setattr(pyopencl, "_LINKED", NOWHERE)
    env = {**os.environ, "PATH": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path)}
    probe = PyopenclBackend(Host(env, MACHINE)).inventory()
    assert [d for d in probe.devices if d.driver == pocl[0].driver] == []
    assert POCL in probe.reason
    assert install("opencl-intel") in probe.fix


@pytest.fixture
def pocl():
    _, devices = usable("pyopencl")
    if not any("Portable Computing Language" in (d.driver or "") for d in devices):
        pytest.skip("no PoCL here")
    return devices


def test_a_platform_without_devices(pocl, tmp_path):
    del pocl
    for devices in ("", "nonsense"):
        probe = probed(POCL_DEVICES=devices)
        assert not probe.usable
        assert POCL in probe.reason
        assert probe.fix == "check POCL_DEVICES, and that HOME or POCL_CACHE_DIR can be written"
    probe = probed(POCL_DEVICES="basic basic")
    assert [str(d.ref) for d in probe.devices] == ["opencl0:0", "opencl0:1"]
    (tmp_path / "file").write_text("")
    probe = probed(POCL_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert (probe.usable, bool(probe.reason)) == (False, True)
    assert "POCL_CACHE_DIR" in probe.fix


def test_modules_in_the_users_folder_are_not_loaded(tmp_path, monkeypatch):
    """A json.py beside the user's scripts is none of ours; a backend that raises is a reason."""
    for name in ("json", "numpy", "pyopencl", "gpumap"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('loaded')")
    monkeypatch.chdir(tmp_path)
    assert "loaded" not in (probed().reason or "")
    assert probed("numpy").reason == (
        "the probe failed: AttributeError: 'NumpyBackend' object has no attribute 'load'"
    )
