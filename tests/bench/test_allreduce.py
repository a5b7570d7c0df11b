"""The exchange between devices: its data, its plan, its figures, and what a wrong sum is."""

import numpy as np
import pytest
from buffers import verified
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from worlds import SETTINGS, gpu, rows_on, world

from gpumap.app.worker_runs import check_any
from gpumap.backends.fake import FakeSession
from gpumap.bench.allreduce import AllReduce, Params, check_request, plan
from gpumap.bench.exchanges import (
    ITEM,
    Job,
    LibraryRanks,
    LocalIteration,
    LocalRanks,
    crafted,
    exact,
    exact_sum,
    parts,
)
from gpumap.engine.sizes import Size
from gpumap.errors import QuestionError
from gpumap.model import Binding, Device, DeviceRef, Kind, replace

LOCAL = LocalRanks.algorithms


def measured(*scripts, params, kind=FakeSession):
    here = world(*scripts, kind=kind)
    benchmark = AllReduce(here.bindings, LocalRanks(list(here.sessions.values())), params)
    return benchmark, rows_on(here, benchmark, replace(SETTINGS, blocks=2))


@given(st.integers(1, 64), st.integers(0, 3000), st.sampled_from(["float32", "float16"]))
def test_no_order_of_adding_has_a_rounding(ranks, length, wire):
    """Every partial sum is a whole number that the wire's type has exactly."""
    every = [crafted(rank, ranks, length, wire).astype(wire) for rank in range(ranks)]
    for order in (every, reversed(every)):
        total = sum(order, start=np.zeros(length, wire))
        np.testing.assert_array_equal(total.astype("f4"), exact_sum(ranks, length, wire))


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_each_rank_gives_something_else(ranks):
    """A part that is missing, twice or one place off changes the sum; the first is named."""
    expected = exact_sum(ranks, 4099, "float32")
    every = [crafted(rank, ranks, 4099, "float32") for rank in range(ranks)]
    for rank in range(ranks):
        assert not exact(expected - every[rank], expected).passed
        assert not exact(expected - every[rank] + every[rank - 1], expected).passed
    assert not exact(np.roll(expected, 1), expected).passed
    found = expected.copy()
    found[[7, 9]] = np.nan, 0.0
    check = exact(found, expected)
    assert (check.passed, check.first_bad_offset, check.nbytes) == (False, 7 * ITEM, 4 * 4099)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_tensors_are_all_of_the_elements(length, tensors):
    job = Job("ring", length, tensors=tensors)
    places = [n for part in parts(job) for n in range(length)[part]]
    assert places == list(range(length))
    assert max(job.lengths) - min(job.lengths) <= 1


@pytest.mark.parametrize("tensors", [2, 7])
def test_fused_tensors_are_held_against_the_same_ones_apart(tensors):
    params = Params((Size(4000),), ("ring",), tensors=tensors, sweep=())
    _, rows = measured(gpu(0), gpu(1), params=params)
    apart, fused = rows
    assert [row.case.params["fused"] for row in rows] == ["no", "yes"]
    assert fused.case.against == apart.case.id
    gain = apart.metrics["time"].value / fused.metrics["time"].value
    assert fused.metrics["speedup"].value == pytest.approx(gain)


@pytest.mark.parametrize(("operation", "factor"), [
    ("allreduce", 4 / 3), ("reduce-scatter", 2 / 3), ("all-gather", 2 / 3),
])  # fmt: skip
def test_bandwidths_follow_from_the_time(operation, factor):
    """S over T, and 2 (N - 1) / N of that or half: what nccl-tests calls algbw and busbw."""
    params = Params((Size(4000),), sweep=(64, 512), operation=operation)
    _, rows = measured(gpu(0), gpu(1), gpu(2), params=params)
    named = {row.case.params.get("operation", "allreduce") for row in rows}
    assert ({row.status for row in rows}, named) == ({"ok"}, {operation})
    for row in rows:
        time, nbytes = row.metrics["time"].value, row.case.params["bytes"]
        assert row.metrics["bandwidth"].value == pytest.approx(nbytes / time)
        assert row.metrics["bus_bandwidth"].value == pytest.approx(factor * nbytes / time)


@pytest.mark.parametrize("operation", ["reduce-scatter", "all-gather"])
@pytest.mark.parametrize("name", ["host", "ring", "alltoall"])
@pytest.mark.parametrize("length", [1, 2, 3, 100])
def test_half_an_exchange_is_verified(operation, name, length):
    """Also where a rank's slice is empty; one that was not exchanged is found."""
    sessions = list(world(gpu(0), gpu(1), gpu(2)).sessions.values())
    work = LocalRanks(sessions).iteration(Job(name, length, operation=operation))
    assert verified(work).passed
    work.poison()
    work._exchanges = []
    work.queue()
    assert not work.check().passed


def test_what_is_left_after_many_iterations_is_proved_once_more():
    """Sums of sums tell nothing: a check after them exchanges anew."""
    here = world(gpu(0), gpu(1))
    work = LocalRanks(list(here.sessions.values())).iteration(Job("ring", 10))
    work.queue(iterations=300)
    assert verified(work).passed
    work.queue(iterations=300)
    work.finish()
    assert work.check().passed


def test_the_plan_takes_at_least_what_is_allocated(counted):
    for tensors in (1, 3):
        params = Params((Size(40_000), Size(400)), tensors=tensors, sweep=(64, 4096))
        benchmark, _ = measured(gpu(0), gpu(1), gpu(2), params=params, kind=counted)
        for device, most in counted.highest.items():
            assert most <= benchmark.plan.memory[device]


@pytest.mark.parametrize(("count", "nbytes", "tensors", "said"), [
    (1, 400, 1, "an exchange needs two names, and the map has one"),
    (2, 402, 1, "402 bytes are no float32"),
    (2, 8, 3, "8 bytes of float32 cannot be 3 tensors"),
])  # fmt: skip
def test_what_cannot_be_exchanged_is_said(count, nbytes, tensors, said):
    bindings = world(*(gpu(n) for n in range(count))).bindings
    params = Params((Size(nbytes),), tensors=tensors)
    assert refusal(QuestionError, check_request, bindings, params).message == said
    check_request(world(gpu(0), gpu(1)).bindings, Params((Size(12),), tensors=3))  # one each
    half = Params((Size(400),), tensors=2, operation="all-gather")
    found = refusal(QuestionError, check_request, world(gpu(0), gpu(1)).bindings, half)
    assert found.message == "--tensors is of allreduce, not of all-gather"


def core(number):
    ref = DeviceRef(Kind.CPU, number)
    return Binding("ab"[number], Device(f"cpu:{number}", Kind.CPU, ref, "CPU", "numpy"))


@pytest.mark.parametrize(("bindings", "tensors", "cold"), [
    ([core(0), core(1)], 1, [400_000] * 4), ([core(0), core(1)], 2, []),
    (world(gpu(0), gpu(1)).bindings, 1, []),
])  # fmt: skip
def test_cold_buffers_are_of_cores_at_the_largest_size(monkeypatch, bindings, tensors, cold):
    """Each row says which it has; the memory of the pool, of all algorithms, is counted once."""
    sizes, ranks = (Size(400), Size(400_000), Size(40_000)), LocalRanks(())
    params = Params(sizes, tensors=tensors, sweep=(64,))
    monkeypatch.setattr("gpumap.bench.exchanges._evicting", lambda: 64 << 20)
    found = plan(bindings, ranks, params)
    said = [case for case in found.cases if case.params["pattern"] == "alone"]
    assert {case.params["buffers"] for case in said} == ({"warm", "cold"} if cold else {"warm"})
    assert [c.params["bytes"] for c in said if c.params["buffers"] == "cold"] == cold
    monkeypatch.setattr("gpumap.bench.exchanges._evicting", lambda: 0)
    without = sum(plan(bindings, ranks, params).memory.values())
    more = 2 * (168 * 400_000 + 2 * 4 * 400_000) + 3 * 4 * 400_000  # the pools, and what cases take
    assert sum(found.memory.values()) - without == (more if cold else 0)


@pytest.mark.parametrize("name", LOCAL)
def test_cold_buffers_are_taken_in_turn(monkeypatch, name):
    """Each is exchanged as often as any other, and has the right sum, with the same scratch."""
    monkeypatch.setattr("gpumap.bench.exchanges.pooled", lambda _: 3)
    sessions = list(world(gpu(0), gpu(1)).sessions.values())
    ranks, job = LocalRanks(sessions), Job(name, 10, cold=True)
    work = LocalIteration(job, sessions, None, ranks._turns(job))
    for iterations, expected in ((2, [2, 2, 1]), (2, [4, 2, 2])):
        work.queue(iterations=iterations)
        work.finish()
        for buffers, value in zip(ranks._pool(10), expected, strict=True):
            for session, buffer in zip(sessions, buffers, strict=True):
                there = np.empty(10, np.float32)
                session.download(buffer, there)
                session.synchronize()
                assert {*there} == {value}
    for _ in range(4):
        assert verified(work).passed


HERE, NCCL = LocalRanks(()), LibraryRanks((), None)


@pytest.mark.parametrize(("ranks", "options", "said"), [
    (HERE, {"algorithms": ("native",)}, "native is there with --comm mpi or nccl only"),
    (HERE, {"wire": "float16"}, "float16 on the wire is there with --comm mpi only"),
    (HERE, {"algorithms": ("tree",), "operation": "all-gather"},
     "tree is an allreduce, and no all-gather"),
    (NCCL, {"operation": "all-gather"}, "all-gather is there with --comm local or mpi only"),
])  # fmt: skip
def test_a_plan_of_skipped_rows_is_refused(ranks, options, said):
    """Nothing measured is no pass: each reason is said once, and with one row it is none."""
    bindings, sizes = world(gpu(0), gpu(1)).bindings, (Size(400), Size(4000))
    params = Params(sizes, sweep=(), **options)
    found = refusal(QuestionError, check_any, plan(bindings, ranks, params))
    assert found.message == f"nothing can be measured: {said}"
    beside = plan(bindings, HERE, Params(sizes, ("native", "ring"), sweep=()))
    check_any(beside)
    assert [bool(case.skip) for case in beside.cases] == [True, False] * 2
