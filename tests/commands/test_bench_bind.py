"""`gpumap bench bind`: the same work unbound and bound, for threads and for real ranks."""

from __future__ import annotations

import os
import threading

import pytest
from mpi_jobs import ended
from ranks import by_mpirun, needs_mpi
from scripts import report
from shell import Answer

from gpumap.bench.bind_work import World
from gpumap.machine.affinity import allowed
from gpumap.machine.topology import read

CORES = "a->cpu0;b->cpu1"
GIVEN = ("--map", CORES, "--sizes", "4KiB", "--budget", "6s", "--format", "json")
two_cores = pytest.mark.skipif(
    len(read().physical) < 2, reason="this machine has one physical core to run on"
)


def told(found):
    """Return case, how it was bound, status and whether every byte was right, of each row."""
    return [
        (row["case"], row["params"]["bind"], row["status"], row["check"]["passed"])
        for row in found["measurements"]
    ]


def both(*cases):
    """Return what is told of cases that went well."""
    return [(case, how, "ok", True) for case in cases for how in ("unbound", "bound")]


@two_cores
def test_each_copy_is_measured_unbound_and_bound(gpumap):
    """The second is held against the first; where each name is bound is said."""
    answer = gpumap("bench", "bind", *GIVEN)
    found = report(answer)

    assert answer.code == 0, answer.err
    assert told(found) == both("h2d", "d2h")
    unbound, bound = found["measurements"][:2]
    assert bound["against"] == unbound["id"]
    assert set(unbound["metrics"]) == {"time", "bandwidth"}
    assert set(bound["metrics"]) == {"time", "bandwidth", "speedup"}
    notes = [note["message"] for note in found["map"]["notes"] if note["code"] == "place"]
    cores = [cpu.index for cpu in read().cpus][:2]
    assert notes == [
        f"{name}: cores {core}: the core that it is" for name, core in zip("ab", cores, strict=True)
    ]


@needs_mpi
@two_cores
def test_between_processes_the_exchange_is_measured_too(gpumap):
    """Each rank goes where it is to be: all names at once."""
    code, out, err = ended(by_mpirun(gpumap, 2, "bench", "bind", *GIVEN))

    assert code == 0, err
    found = report(Answer(code, out, err))
    assert told(found) == both("h2d", "d2h", "allreduce")
    assert [rank["name"] for rank in found["ranks"]] == ["a", "b"]


@two_cores
def test_what_there_is_between_processes_only_is_skipped_with_the_way_to_it(gpumap):
    """Beside cases that can be measured."""
    answer = gpumap("bench", "bind", *GIVEN, "--cases", "d2h,allreduce")
    rows = report(answer)["measurements"]

    assert answer.code == 0
    assert {(row["case"], row["status"]) for row in rows} == {
        ("d2h", "ok"), ("allreduce", "skipped")
    }  # fmt: skip
    assert "mpirun -n 2 gpumap bench bind" in rows[-1]["reason"]["text"]


@pytest.mark.parametrize(
    "arguments", [("--cases", "allreduce"), ("--cases", "bidir"), ("--sizes", "6B")]
)
def test_a_wrong_question_is_refused(gpumap, arguments):
    """Alone there is no exchange; no such case, and no such size of float32."""
    answer = gpumap("bench", "bind", "--map", CORES, *arguments)

    assert (answer.code, answer.out) == (2, "")


@two_cores
def test_a_thread_settles_where_it_is_to_be_and_comes_back():
    """By itself: no other thread goes with it."""
    before = allowed()
    seen = []

    def settle():
        world = World()
        from gpumap.backends.numpy_devices import cores
        from gpumap.model import Binding

        device = next(d for d in cores(read()) if d.ref.index == 1)
        (place,) = world.near([Binding("a", device)])
        for where in (place, None, place):
            world.settle(where)
            seen.append(allowed())

    thread = threading.Thread(target=settle)
    thread.start()
    thread.join()

    assert seen == [(before[1],), before, (before[1],)]
    assert allowed() == before == tuple(sorted(os.sched_getaffinity(0)))
