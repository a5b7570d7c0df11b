"""Ctrl-C: heard wherever it meets the main thread, once."""

import sys
import threading

import mpi_jobs
import pytest
from flat_report import loads
from tables import table

from gpumap.machine import blas

TEXTS = table(__file__)
LOST = TEXTS["lost"]


def run(text, *, signal="SIGINT"):
    start = TEXTS["start"].replace("{signal}", signal)
    done = mpi_jobs.run([sys.executable, "-c", start + text], limit=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1], done.stderr


def test_other_errors_of_a_callback_are_still_told():
    printed, said = run(LOST.replace("lost_in_a_callback", "wrong_in_a_callback"))
    assert printed == ["heard"]
    assert "ZeroDivisionError" in said
    assert "KeyboardInterrupt" not in said


@pytest.mark.parametrize(("text", "signal", "printed"), [
    (LOST, "SIGINT", ["heard"]),  # Python forgets what a callback raises
    (LOST, "SIGTERM", ["heard"]), (LOST, "SIGHUP", ["heard"]),
    (TEXTS["cleaning"], "SIGINT", ["clean", "reported"]),  # neither meets a second one
    (TEXTS["twice"], "SIGINT", ["clean", "heard"]),  # which would meet a lock that is given back
])  # fmt: skip
def test_an_interrupt_is_heard_once_wherever_it_comes(text, signal, printed):
    """It is sent again where it was lost, and meets nothing that cleans up."""
    assert run(text, signal=signal) == (printed, "")


SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"]


def command(text, signal, **names):
    """Run `check` in a process that does `text` first; return its code, report and stderr."""
    for name, value in {"signal": signal, **names}.items():
        text = text.replace("{" + name + "}", value)
    program = TEXTS["program"].replace("{text}", text)
    done = mpi_jobs.run([sys.executable, "-c", program], limit=60)
    return done.returncode, done.stdout and loads(done.stdout), done.stderr


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(
    "module", ["gpumap.cli", "click", "gpumap.commands.map", "gpumap.app.recording"]
)
def test_a_signal_while_gpumap_is_imported(signal, module):
    assert command(TEXTS["importing"], signal, module=module) == (130, "", "")


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("behind", [TEXTS["an_error"], TEXTS["a_thread"]], ids=["error", "thread"])
def test_what_an_interrupt_leaves_behind_is_no_other_end(signal, behind):
    """What was cut short may end in any error, or leave a thread: neither is a failure."""
    code, report, _ = command(TEXTS["behind"].replace("{behind}", behind), signal)
    assert (code, report["exit_code"], report["status"]) == (130, 130, "interrupted")


def test_a_limit_that_an_interrupt_left_lifted_is_no_lock():
    """An interrupt between the entering of a `with` and its body has no one who leaves it."""
    cores = blas.Cores(2)
    blas.hold()
    lifted = cores.all()
    lifted.__enter__()
    other = threading.Thread(target=blas.release, daemon=True)
    other.start()
    other.join(20)
    assert not other.is_alive()
    lifted.__exit__(None, None, None)
