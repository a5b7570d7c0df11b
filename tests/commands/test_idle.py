"""`--require-idle`: nothing is measured while others work, and it says who they are."""

import re
import subprocess
import sys
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path

import pytest
from scripts import report, script
from tables import table

from gpumap.engine.idle import check_idle
from gpumap.errors import BusyError, Exit
from gpumap.machine.nvml import GpuUse
from gpumap.model import Device, DeviceRef, Kind, Others, Process

GPU = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "NVIDIA H200", "cupy")
TABLE = table(__file__)


@contextmanager
def spinning(program):
    # Several threads: on a machine that is busy anyway it must be among those that take most.
    command = [program, "-c", TABLE["spin"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"spinning\n"
            yield child.pid
        finally:
            child.kill()


@pytest.mark.parametrize("command", [
    ("bench", "dot", "--size", "64", "--cases", "one"),
    ("transfer-cost", "--sizes", "small", "--cases", "h2d"),
])  # fmt: skip
def test_a_busy_machine_is_not_measured(gpumap, tmp_path, command):
    """Exit 3, no sample, and who is at work: a process may call itself what it likes."""
    evil = tmp_path / "\x1b[31mevil"
    evil.symlink_to(Path(sys.executable).resolve())
    with spinning(str(evil)) as pid:
        given = ("--map", "a->cpu0", "--require-idle", "--format", "json")
        answer = gpumap(*command, *given)
    found = report(answer)
    (error,) = found["errors"]
    assert (answer.code, found["status"], error["code"]) == (3, "absent", "busy")
    assert re.search(r"\d+\.\d\d of \d+ cores by pid \d+", error["message"])
    assert answer.err.replace("\n", "").isprintable()
    shown = f"pid {pid} " in answer.err  # unless others of this machine take more
    assert (f"pid {pid} (\\x1b[31mevil" in answer.err) is shown
    assert found["settings"]["require_idle"] is True
    assert all((row["status"], row["samples"]) == ("skipped", []) for row in found["measurements"])


@pytest.mark.parametrize(("script_", "words"), [
    (None, ("--map", "a->cpu0", "--cases", "one", "--budget", "1s")),
    (script(), ("--map", "a->cuda0", "--require-idle")),  # no other process's
    (None, ("--map", "a->cpu0", "--require-idle", "--dry-run")),  # at any time
], ids=["not asked", "scripted", "dry run"])  # fmt: skip
def test_without_require_idle_a_busy_machine_is_no_error(gpumap, script_, words):
    """Without the option, of scripted devices, and where nothing is measured."""
    fake = gpumap.fake(script_) if script_ else gpumap
    with spinning(sys.executable):
        answer = fake("bench", "dot", "--size", "64", *words, "--format", "json")
    found = report(answer)
    assert (answer.code, found["errors"]) == (0, [])
    assert found["settings"]["require_idle"] is ("--require-idle" in words)
    around = [row["around"] for row in found["measurements"] if row["around"]]
    before = [cores for each in around if (cores := each["busy_cores_before"])]
    assert (max(before, default=0.0) > 0.1) is ("--cases" in words)  # what was seen is kept


def test_an_idle_machine_passes():
    """A tenth of one core, and a tenth of a GPU's time, is the noise of any system."""
    uses = [GpuUse(GPU, 0.1, {}), GpuUse(GPU, None, {}), GpuUse(GPU, 0.0, None)]
    check_idle(Others(0.1, 2, ()), uses, str)


@pytest.mark.parametrize(("cores", "uses", "said"), TABLE["busy"])
def test_who_uses_the_machine_is_named(cores, uses, said):
    """All in one message for each device, most of it first; unknown is not idle."""
    busy, *processes = cores
    others = Others(busy, 2, tuple(starmap(Process, processes)))
    found = [(use.get("share"), use.get("seen")) for use in uses]
    gpus = [GpuUse(GPU, share, None if seen is None else dict(seen)) for share, seen in found]
    with pytest.raises(BusyError) as caught:
        check_idle(others, gpus, {9: "python", 8: "", 7: ""}.get)
    assert caught.value.exit_code == Exit.ABSENT
    assert {"busy"} == {d.code for d in caught.value.diagnostics}
    assert [d.message for d in caught.value.diagnostics] == said
