"""Drivers that print, crash, hang or leave processes behind: the report is whole all the same."""

import os
import sys
import time

import pytest
from ranks import lives
from report_schema import checked
from shell import ended
from tables import table

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.probe import probe_in_child
from gpumap.machine.topology import read

PROBE = load("pyopencl", Host(dict(os.environ), read())).probe()
opencl = pytest.mark.skipif(
    not PROBE.usable or sys.platform != "linux", reason=f"pyopencl: {PROBE.reason}"
)
MAP = "a->opencl0:0"
TEXTS = table(__file__)


@pytest.fixture
def faulty(gpumap, built_stubs, tmp_path):
    def run(fault, *command):
        env = {"LD_PRELOAD": str(built_stubs / "opencl.so"), "GPUMAP_STUB_OPENCL": fault}
        return gpumap.run(command, **env, GPUMAP_STUB_LEFT=str(tmp_path / "left"))

    return run


def left(tmp_path, seconds=60.0):
    """Return and end what a driver has left that still lives after so many seconds."""
    noted = (tmp_path / "left").read_text().split()
    assert noted
    end = time.monotonic() + seconds
    while (found := [pid for pid in noted if lives(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in found:
        os.kill(int(pid), 9)
    return found


def test_what_a_driver_prints_is_no_part_of_the_result(gpumap):
    """It goes to stderr, at the end of the process too."""
    out, arguments = gpumap.folder / "out", ("check", "a->cpu0", "--format", "json")
    with out.open("ab") as stdout:
        process = gpumap.start([sys.executable, "-c", TEXTS["prints"], *arguments], stdout=stdout)
    answer = ended(process)
    assert answer.code == 0
    checked(out.read_text())
    for said in ("\x1b[2Jthe driver\n", "the library\n", "the driver's end\n"):
        assert said in answer.err


@opencl
@pytest.mark.parametrize("command", [("check",), ("bench", "dot", "--size", "32", "--budget=1s")])
def test_a_driver_that_crashes_while_a_device_is_opened(faulty, command):
    """The report says so: a child has met it first."""
    given = ("--map", f"{MAP};b->cpu0", "--format", "json")
    answer = faulty("abort@open", "gpumap", *command, *given)
    report = checked(answer.out)
    assert (answer.code, report["exit_code"], report["status"]) == (3, 3, "absent")
    assert [entry["device"] for entry in report["map"]["entries"]][1] == "cpu:0"


@opencl
def test_a_driver_that_hangs_while_a_device_is_opened(built_stubs):
    """Whatever lock it holds: it is given up after the time that a driver has."""
    env = {"LD_PRELOAD": str(built_stubs / "opencl.so"), "GPUMAP_STUB_OPENCL": "hang@open"}
    host = Host({**os.environ, **env}, read(), 5.0, opens=["opencl0:0"])
    probe = probe_in_child("pyopencl", host, "install it")
    assert probe.usable
    assert [bool(why) for _, why in probe.opened] == [True]


@opencl
@pytest.mark.parametrize("names", [["opencl0:0"], ["opencl7:0", "cuda"], [], ["*"]])
def test_a_probe_opens_what_will_be_opened_and_no_more(names):
    probe = probe_in_child("pyopencl", Host(dict(os.environ), read(), opens=names), "install it")
    wanted = [d.id for d in probe.devices if str(d.ref) in names]
    wanted += [d.id for d in probe.devices if "*" in names and d.facts.get("type") == "gpu"]
    assert probe.opened == tuple((id_, "") for id_ in wanted)


@opencl
@pytest.mark.parametrize("call", ["probe", "open"])
def test_no_process_of_a_driver_is_left(faulty, tmp_path, call):
    """Though it made a session of its own, and whoever started it has ended."""
    answer = faulty(f"leave@{call}", "gpumap", "check", MAP)
    assert answer.code == 0
    assert left(tmp_path) == []


@opencl
def test_a_default_map_that_a_driver_is_missing_from_is_not_fit(faulty):
    """Cores take the place of what does not answer: that says nothing of the node's devices."""
    answer = faulty("abort@probe", "gpumap", "preflight", "--within=20s", "--format=json")
    found = checked(answer.out)["checks"]
    (driver,) = [check for check in found if check["what"] == "driver"]
    assert (answer.code, driver["fitness"]) == (5, "cannot-tell")
    assert driver["text"].startswith("pyopencl: ")


@opencl
def test_what_a_program_itself_has_started_stays(tmp_path, faulty):
    """`gpumap.open` ends what its probe's driver has left, and nothing else."""
    unheard = ("sh", "-c", 'exec "$@" > /dev/null 2>&1', "sh")  # what is left has the streams open
    assert faulty("leave@probe", *unheard, sys.executable, "-c", TEXTS["starts"]).code == 0
    first, *_ = (tmp_path / "left").read_text().split()
    assert not lives(first)  # the probe's; what the driver left in the program itself is its own
    left(tmp_path, 0.0)
