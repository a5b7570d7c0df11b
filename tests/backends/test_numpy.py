"""Cores as devices: pinned workers, one owner of BLAS's threads, and failures that are carried."""

import os
import subprocess
import sys
import threading
from itertools import permutations
from unittest.mock import Mock

import pytest
from threadpoolctl import threadpool_info

from gpumap.backends.base import Clock, Host
from gpumap.backends.numpy import NumpyBackend
from gpumap.errors import OutOfMemory
from gpumap.machine import topology
from gpumap.machine.topology import Cpu, Topology

MACHINE = topology.read()
CORES = len(MACHINE.cpus)


def opened(ref="cpu0"):
    backend = NumpyBackend(Host({}, MACHINE))
    device = next(d for d in backend.probe().devices if str(d.ref) == ref)
    return backend.open(device, Clock())


def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_the_devices_are_the_cores_of_the_mask():
    """CpuN is the N-th processor that is allowed, whatever its number; cpu is all of them."""
    cpus = (Cpu(4, (4, 12), 0), Cpu(6, (6, 14), 1), Cpu(12, (4, 12), 0))
    machine = Topology(cpus, 16, None, "A CPU", 2**34, 2**33)
    devices = NumpyBackend(Host({}, machine)).probe().devices
    assert [
        (str(d.ref), d.id, d.cores, d.numa_node, d.units, sorted(d.hardware)) for d in devices
    ] == [
        ("cpu0", "cpu:0", (4,), 0, 1, ["core:4"]), ("cpu1", "cpu:1", (6,), 1, 1, ["core:6"]),
        ("cpu2", "cpu:2", (12,), 0, 1, ["core:4"]),
        ("cpu", "cpu", (4, 6, 12), None, 2, ["core:4", "core:6"]),
    ]  # fmt: skip


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_blas_has_one_thread_while_any_session_is_open(order):
    """In whatever order they close; the last one gives back what was there before the first."""
    before = blas_threads()
    sessions = [opened(), opened("cpu"), opened()]
    for n in order:
        assert set(blas_threads()) <= {1}
        sessions[n].close()
        sessions[n].close()  # a second call must not count
    assert before == blas_threads()
    with opened():  # the next one limits it anew
        assert set(blas_threads()) <= {1}
    assert before == blas_threads()


def test_blas_that_was_not_loaded_has_one_thread_too():
    """A limit is on what is loaded: a scripted device opens before anything needs NumPy."""
    program = "from gpumap.machine import blas; blas.hold(); import threadpoolctl as t; "
    program += "print(*{each['num_threads'] for each in t.threadpool_info()})"
    assert subprocess.check_output([sys.executable, "-c", program]) == b"1\n"


@pytest.mark.skipif(not MACHINE.pinnable, reason="this system cannot pin threads")
@pytest.mark.parametrize("n", range(min(CORES, 2)))
def test_a_worker_is_bound_to_its_core_and_no_one_else_is(n):
    mask, seen = os.sched_getaffinity(0), []
    with opened(f"cpu{n}") as session:
        session._queue(lambda: seen.append(os.sched_getaffinity(0)))
        session.synchronize()
    assert seen == [{MACHINE.cpus[n].index}]
    assert mask == os.sched_getaffinity(0)


@pytest.mark.parametrize("failure", [
    KeyError("x"), KeyboardInterrupt(), OutOfMemory("x"), MemoryError(),
], ids=lambda f: type(f).__name__)  # fmt: skip
@pytest.mark.parametrize("ref", ["cpu0", "cpu"])
def test_any_failure_of_a_job_is_raised_by_the_thread_that_waits(ref, failure):
    """Once; the worker lives on, what was queued behind is skipped; no memory has its own name."""
    done, ours = [], type(failure) is MemoryError
    with opened(ref) as session:
        session._queue(Mock(side_effect=failure))
        session._queue(lambda: done.append("skipped"))
        mark = session.mark()
        with pytest.raises(OutOfMemory if ours else type(failure)) as raised:
            session.synchronize()
        assert f"{ref} ran out of memory" in str(raised.value) or not ours
        session._queue(lambda: done.append("next"))
        session.synchronize()
        assert session.at(mark) is not None
    assert done == ["next"]


@pytest.mark.skipif(CORES < 2, reason="one core has no helper")
@pytest.mark.parametrize("culprit", [0, -1])
def test_a_block_that_fails_fails_the_product(culprit):
    """Whether on the first worker or on a helper; and no other block still runs when it is told."""
    running, finished = threading.Event(), []
    first = slice(0, 10) if culprit == 0 else slice(10 * (CORES - 1), 10 * CORES)

    def block(rows):
        if rows == first:
            running.wait(60)
            raise KeyError("block")
        running.set()
        threading.Event().wait(0.02)
        finished.append(rows)

    with opened("cpu") as session:
        session._queue(lambda: session._split(block, CORES * 10))
        with pytest.raises(KeyError):
            session.synchronize()
        assert len(finished) == CORES - 1


def test_a_wait_does_not_block_who_queues_it():
    """The worker waits, not the thread; two that wait in turn do not lock."""
    gate = threading.Event()
    with opened() as one, opened() as two:
        one._queue(lambda: gate.wait(60) and None)
        first = one.mark()
        two.wait(first)
        second = two.mark()
        one.wait(second)
        last = one.mark()
        gate.set()
        assert one.at(first) <= two.at(second) <= one.at(last)


def test_a_mark_knows_the_workers_own_cpu_time():
    """Two workers on one core overlap in wall time, but not in this."""
    with opened() as session:
        start = session.mark()
        session._queue(lambda: sum(range(200_000)))
        stop = session.mark()
        session.synchronize()
        assert 0 < stop.cpu_time - start.cpu_time <= session.at(stop) - session.at(start) + 1e-3
