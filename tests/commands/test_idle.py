"""`--require-idle`: nothing is measured while others work, and it says who they are."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts import report, script

from gpumap.commands.idle import check_idle
from gpumap.errors import BusyError, Exit
from gpumap.machine.gpu_state import GpuProcess, GpuUse
from gpumap.model import Device, DeviceRef, Kind, Others, Process

GPU = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "NVIDIA H200", "cupy")
IDLE = Others(0.1, 2, ())
# Several threads: on a machine that is busy anyway it must be among those that take most.
SPIN = """
import hashlib, os, threading
data, parent = bytes(1 << 22), os.getppid()
def spin():
    while os.getppid() == parent:  # who is killed ends nobody
        hashlib.sha256(data)
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()
print("spinning", flush=True)
spin()
"""


@contextmanager
def spinning(program=sys.executable):
    """Keep the cores busy with a process; yield its id."""
    child = subprocess.Popen([program, "-c", SPIN], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"spinning\n"
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def said(cores, *uses, names=None):
    """Return what the error says."""
    with pytest.raises(BusyError) as caught:
        check_idle(cores, uses, lambda pid: (names or {}).get(pid, ""))
    assert caught.value.exit_code == Exit.ABSENT
    assert {"busy"} == {d.code for d in caught.value.diagnostics}
    return [d.message for d in caught.value.diagnostics]


# --- on this machine


@pytest.mark.parametrize(
    "command",
    [
        ("bench", "dot", "--size", "64", "--cases", "one"),
        ("transfer-cost", "--sizes", "small", "--cases", "h2d"),
    ],
)
def test_a_busy_machine_is_not_measured(gpumap, command):
    """Exit 3, a whole report without a sample, and the process that is at work."""
    with spinning() as pid:
        given = ("--map", "a->cpu0", "--require-idle", "--format", "json")
        answer = gpumap(*command, *given)

    found = report(answer)
    (error,) = found["errors"]
    assert (answer.code, found["status"], error["code"]) == (3, "absent", "busy")
    assert re.search(rf"the machine is busy: \d+\.\d\d of \d+ cores by .*pid {pid} \(python",
                     error["message"])  # fmt: skip
    assert f"pid {pid} (" in answer.err
    assert found["settings"]["require_idle"] is True
    assert all((row["status"], row["samples"]) == ("skipped", []) for row in found["measurements"])


def test_the_name_of_a_process_is_hostile(gpumap, tmp_path):
    """It is shown as an escape: a process may call itself what it likes."""
    evil = tmp_path / "\x1b[31mevil"
    evil.symlink_to(Path(sys.executable).resolve())
    with spinning(str(evil)) as pid:
        answer = gpumap("bench", "dot", "--map", "a->cpu0", "--require-idle", "--cases", "one")

    assert answer.code == 3
    assert f"pid {pid} (\\x1b[31mevil" in answer.err
    assert "\x1b" not in answer.err + answer.out


def test_without_the_option_nobody_looks(gpumap):
    """A busy machine is measured, and the report says how busy it was."""
    with spinning():
        given = ("--map", "a->cpu0", "--cases", "one", "--budget", "1s", "--format", "json")
        answer = gpumap("bench", "dot", "--size", "64", *given)

    found = report(answer)
    assert (answer.code, found["settings"]["require_idle"], found["errors"]) == (0, False, [])


def test_a_script_is_never_busy(gpumap):
    """Its devices are nobody else's, whatever the machine does."""
    with spinning():
        given = ("--map", "a->cuda0", "--require-idle", "--format", "json")
        answer = gpumap.fake(script())("bench", "dot", "--size", "64", *given)

    assert (answer.code, report(answer)["errors"]) == (0, [])


def test_a_dry_run_measures_nothing_and_so_does_not_look(gpumap):
    """What would be measured can be asked at any time."""
    with spinning():
        answer = gpumap("bench", "dot", "--map", "a->cpu0", "--require-idle", "--dry-run")

    assert answer.code == 0


# --- scripted


def test_an_idle_machine_passes():
    """A tenth of one core, and a tenth of a GPU's time, is the noise of any system."""
    check_idle(IDLE, [GpuUse(GPU, 0.1, ()), GpuUse(GPU, None, ()), GpuUse(GPU, 0.0, None)], str)


def test_the_cores_and_who_uses_them():
    """All of them in one message, most of it first."""
    processes = (Process(4711, "python train.py", 0.9), Process(12, "", 0.1))

    assert said(Others(1.02, 2, processes)) == [
        "the machine is busy: 1.02 of 2 cores by pid 4711 (python train.py), pid 12"
    ]


def test_a_gpu_and_who_is_on_it():
    """With the memory that each one holds; whoever rests may start at any moment."""
    use = GpuUse(GPU, 0.87, (GpuProcess(9, 12 << 30), GpuProcess(8, None)))
    resting = GpuUse(GPU, 0.0, (GpuProcess(7, 1 << 20),))

    assert said(IDLE, use, resting, names={9: "python"}) == [
        "cuda0 is busy 87% of the time: pid 9 (python, 12.0 GiB), pid 8",
        "cuda0 is busy 0% of the time: pid 7 (1.0 MiB)",
    ]


def test_who_cannot_be_seen_is_there_all_the_same():
    """Processes of other containers, or of other users: it fails closed."""
    unseen = "processes that cannot be seen from here"

    assert said(Others(0.5, 2, ()), GpuUse(GPU, 0.5, ())) == [
        f"the machine is busy: 0.50 of 2 cores by {unseen}",
        f"cuda0 is busy 50% of the time: {unseen}",
    ]
    assert said(IDLE, GpuUse(GPU, None, (GpuProcess(8, None),))) == ["cuda0 is busy: pid 8"]


def test_what_nobody_tells_is_not_idle():
    """Without NVML a GPU may be busy: no pass."""
    (message,) = said(IDLE, GpuUse(GPU, None, None))

    assert message == "nobody tells whether cuda0 is busy: NVML does not answer"
