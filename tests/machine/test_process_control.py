"""Room: what limits leave. Pinning: the calling thread alone, on all processors or on none."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gpumap.machine.process_control import pin, room_for, stuck

MIB = 1 << 20
LIMIT = 20.0  # seconds for a process to make a call


def test_room_takes_nothing_to_ask_for():
    """No machine has an exbibyte."""
    assert [room_for(nbytes) for nbytes in (16 * MIB, 1 << 60, 1 << 70)] == [True, False, False]


pins = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot pin here")


def in_thread(cpus):
    seen = []
    worker = threading.Thread(target=lambda: seen.extend((pin(cpus), os.sched_getaffinity(0))))
    worker.start()
    worker.join()
    return tuple(seen)


@pins
@pytest.mark.parametrize("cpus", [[], [-1], [10**9], [2**80], [65000]])
def test_refused(cpus):
    """So is a set of which the kernel would silently keep a part; one of its own is not."""
    before = os.sched_getaffinity(0)
    assert in_thread(cpus) == in_thread([*cpus, min(before), 900]) == (set(), before)
    assert in_thread([max(before)]) == (before, {max(before)})


@pins
def test_a_system_that_cannot_pin(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert pin([0]) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells it")
@pytest.mark.parametrize(("call", "found"), [("vfork", True), ("getpid", False)])
def test_what_is_in_a_call_of_the_kernel_that_no_signal_ends(call, found):
    """A parent that has called vfork waits so for its child; who sleeps does not."""
    text = f"import ctypes, time; print(flush=True); ctypes.CDLL(None).{call}(); time.sleep(600)"
    command = [sys.executable, "-c", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        end = time.monotonic() + LIMIT * found
        while not stuck(process.pid) and time.monotonic() < end:
            time.sleep(0.01)
        told = stuck(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert told is found
