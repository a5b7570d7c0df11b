"""Copies between the host and the devices: the cases, their figures, and every byte of them."""

import pytest
from cases import planned_case
from worlds import case_of, copies_on, counting, gpu, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.cost_models import HELD_BACK, fits
from gpumap.bench.transfer import CASES, Params, needs
from gpumap.errors import OutOfMemory
from gpumap.model import Measurement, Plan, Reason, Samples, Work

SMALL = 400
EXACT = {"latency": 2.0**-10, "bandwidth": 2.0**22}


def made(*scripts, sizes=(SMALL,), cases=CASES[:4], sweep=(), kind=FakeSession):
    here = world(*scripts, kind=kind)
    return here, copies_on(here, *sizes, cases=cases, sweep=sweep)


def cases(*scripts, **given):
    _, benchmark = made(*scripts, **given)
    return {key(case): case for case in benchmark.plan.cases}


def run(here, benchmark):
    return {key(row.case): row for row in rows_on(here, benchmark)}


def key(case):
    names = (">" if case.ordered else "+").join(case.names)
    params = case.params
    return case.name, names, params["memory"], params["mode"], params["pattern"]


def test_the_cases():
    """Each way alone, all at once, both ways, each pair; memory that is not there has a reason."""
    found = cases(gpu(0, features=("pinned",)), gpu(1, features=()))
    modes = ("sync", "queued")
    expected = {(way, *held, mode, "alone") for way in ("h2d", "d2h") for mode in modes
                for held in (("a", "pageable"), ("b", "pageable"), ("a", "pinned"))}  # fmt: skip
    expected |= {
        ("d2d", pair, "device", mode, "alone") for pair in ("a>b", "b>a") for mode in modes
    }
    expected |= {(way, "a+b", "pageable", "sync", "together") for way in ("h2d", "d2h")}
    expected |= {("bidir", *held, "sync", "together")
                 for held in (("a", "pageable"), ("b", "pageable"), ("a", "pinned"))}  # fmt: skip
    assert expected == {*found}
    assert {key[4] for key, case in found.items() if case.against} == {"together"}
    assert len(found) == len({case.id for case in found.values()})


@pytest.mark.parametrize(("numbers", "pairs"), [
    ((0,), []), ((0, 1), ["a>b", "b>a"]), ((0, 0), ["a>b"]),
    ((0, 0, 0, 1), ["a>d", "d>a", "a>b"]),
])  # fmt: skip
def test_pairs_are_of_devices(numbers, pairs):
    """Names of one device tell the same; one such pair shows what a copy inside it costs."""
    found = cases(*map(gpu, numbers), cases=("d2d",))
    assert [names for _, names, _, mode, _ in found if mode == "sync"] == pairs


@pytest.mark.parametrize(("count", "sizes", "modes"), [(8, 3, 2), (9, 1, 1)])
def test_pairs_of_more_than_eight_devices_are_copied_at_the_largest_size_alone(count, sizes, modes):
    wanted = {"sizes": (SMALL, 4096), "cases": ("d2d",), "sweep": (64,)}
    _, benchmark = made(*map(gpu, range(count)), **wanted)
    found = [case.params for case in benchmark.plan.cases]
    assert len(found) == count * (count - 1) * sizes * modes
    assert max(each["bytes"] for each in found) == 4096
    assert len({each["bytes"] for each in found}) == sizes
    assert len({each["mode"] for each in found}) == modes


def test_the_budget_thins_the_sweep_and_does_not_shorten_it():
    """One group of every size, of each device's first name; what spans most is made ready first."""
    sweep = (1 << 17, 4096, 64, 32768, 512)
    _, benchmark = made(gpu(0), gpu(0), cases=("h2d",), sweep=sweep)
    *_, group = benchmark.plan.groups
    sizes = [case.params["bytes"] for case in group.cases]
    ready = list(dict.fromkeys(sizes[place] for (place,) in group.order))
    assert (group.key, group.extra, sizes) == ("ladder", True, sorted(sizes))
    assert ready == [64, 4096, 1 << 17, 512, 32768]
    assert {case.names for case in group.cases} == {("a",)}
    assert {case.params["pattern"] for case in group.cases} == {"ladder"}


def test_the_memory_that_is_needed():
    """The largest size: twice for each name, and for the way back of each device."""
    here = world(gpu(0), gpu(1, features=()), gpu(0))
    wanted = Params((SMALL, 4096, 64), CASES[:4], sweep=())
    memory = {"cuda:0": 12 * 4096, "cuda:1": 4 * 4096, "host": 16 * 4096}
    assert Plan((), memory, 4096) == needs(here.bindings, wanted, here.sessions)


@pytest.mark.parametrize("features", [(), ("pinned",)])
@pytest.mark.parametrize("sweep", [(), (64, 512, 4096)])
def test_no_more_memory_is_taken_than_was_said(features, sweep):
    kind, highest = counting()
    scripts = [gpu(n, features=features) for n in (0, 1)]
    here, benchmark = made(*scripts, sizes=(SMALL, 4096), sweep=sweep, kind=kind)
    run(here, benchmark)
    assert highest.keys() == {"cuda:0", "cuda:1"}
    for id_, taken in highest.items():
        assert 4 * 4096 <= taken <= benchmark.plan.memory[id_]


def test_large_copies_come_after_the_model_and_one_is_measured_in_any_case():
    """To prove them takes long; a wait is no part of them, so that each is waited for."""
    _, benchmark = made(gpu(0), sizes=(64 << 20, SMALL), cases=CASES, sweep=(64, 4096))
    groups = benchmark.plan.groups
    assert [group.key for group in groups] == ["400B", "ladder", "calls", f"{64 << 20}B"]
    assert [group.insists for group in groups] == [False, False, False, True]
    assert groups[-1].cases[groups[-1].order[0][0]].name == "h2d"
    assert {case.params["mode"] for case in groups[-1].cases} == {"sync"}
    assert {case.params["mode"] for case in groups[0].cases} == {"sync", "queued"}


def test_memory_that_is_not_to_be_had_is_a_skipped_row(monkeypatch):
    def host(session, shape, dtype, memory, whole=FakeSession.host):
        if memory == "pinned" and shape == (4096,):
            raise OutOfMemory("no more can be locked")
        return whole(session, shape, dtype, memory)

    monkeypatch.setattr(FakeSession, "host", host)
    script = gpu(0, features=("kernels", "pinned"))
    rows = rows_on(*made(script, sizes=(SMALL, 4096)))
    special = [row for row in rows if row.case.params["memory"] == "pinned"]
    text = "no pinned host memory for 4096 bytes: no more can be locked"
    assert {(row.case.params["bytes"], row.status, row.reason) for row in special} == {
        (400, "ok", None), (4096, "skipped", Reason("no-host-memory", text)),
    }  # fmt: skip
    assert {"ok"} == {row.status for row in rows if row.case.params["memory"] == "pageable"}


@pytest.mark.parametrize("nbytes", [1, 64, 4096, 2**20 + 1])
def test_every_figure_is_the_scripted_one(nbytes):
    """Latency and bytes over bandwidth; two devices move twice as much, one both ways not."""
    here, benchmark = made(gpu(0, **EXACT), gpu(1, **EXACT), sizes=(nbytes,))
    one = 2.0**-10 + nbytes / 2.0**22
    for (case, names, _, mode, pattern), row in run(here, benchmark).items():
        if row.status == "skipped":
            continue
        gain = {"together": len(names.split("+"))}.get(pattern, 1)
        seconds, moved = (2 * one, 2 * nbytes) if case == "bidir" else (one, gain * nbytes)
        own = "issue_interval" if mode == "queued" else "time"
        figures = {own: seconds, "bandwidth": moved / seconds}
        figures |= {"speedup": float(gain)} if pattern == "together" else {}
        found = {name: (e.value, e.low, e.high) for name, e in row.metrics.items()}
        assert {n: (pytest.approx(v, rel=1e-9),) * 3 for n, v in figures.items()} == found
        assert (row.check.method, row.check.passed) == ("bytes", True)


def test_uploads_to_several_devices_are_all_verified():
    here, benchmark = made(gpu(0), gpu(1, fault="flip", fault_in="upload"))
    rows = run(here, benchmark)
    together = rows["h2d", "a+b", "pageable", "sync", "together"]
    assert (together.status, together.reason.code) == ("failed", "wrong-data")
    assert rows["h2d", "a", "pageable", "sync", "alone"].status == "ok"


def test_each_way_of_each_name_has_bytes_and_a_queue_of_its_own():
    """Right bytes of another copy prove nothing of this one."""
    _, benchmark = made(gpu(0), gpu(1))
    benchmark.begin(benchmark.plan.groups[0])
    cuts = [benchmark._slice(n, "pageable", 400, back=b) for n in "ab" for b in (False, True)]
    assert len({bytes(cut.source) for cut in cuts}) == len(cuts)
    # copies both ways have a queue for each: on one they would follow each other
    ways = benchmark.iteration(case_of(benchmark, "bidir"))._ways
    there, back = (each._slices[0].session for each in ways)
    assert there is not back
    assert there.device == back.device


@pytest.mark.parametrize("ways", [("bidir",), ("h2d", "bidir"), ("d2h",), ("h2d", "d2d"), CASES])
def test_what_a_row_is_compared_with_is_a_row_of_the_plan(ways):
    """A reference that is not measured is none: a report with one could not be read back."""
    found = cases(gpu(0), gpu(1), cases=ways).values()
    assert {case.against for case in found if case.against} <= {case.id for case in found}


def test_copies_both_ways_are_held_against_each_way_after_the_other():
    found = {case.id: case for case in cases(gpu(0), cases=CASES).values()}
    both = [case for case in found.values() if case.name == "bidir"]
    ways = {(found[case.against].name, found[case.then].name) for case in both}
    memories = {(case.params["memory"], found[case.then].params["memory"]) for case in both}
    assert ways == {("h2d", "d2h")}
    assert {here == there for here, there in memories} == {True}


def swept(sizes, held=1.0):
    """Return a size sweep of copies by a line, of which one size takes `held` times as long."""
    found = []
    for nbytes in sizes:
        keys = {"bytes": nbytes, "memory": "pageable", "mode": "sync", "pattern": "ladder"}
        case = planned_case("transfer", "h2d", keys, world(gpu(0)).bindings, Work())
        seconds = (1e-5 + nbytes / 1e9) * (held if nbytes == HELD_BACK else 1.0)
        times = tuple(seconds * (1.0 + block / 1e4) for block in range(12))
        found.append(Measurement(case, "ok", samples=Samples(times, tuple(range(12)))))
    return found


def test_four_sizes_make_a_model_and_the_one_that_is_predicted_is_none_of_them():
    """A model that misses it is not worth the name, however well it fits its own sizes."""
    for count, models in ((3, 0), (4, 1)):
        assert len(fits(swept(4096 << 2 * n for n in range(count)), 0.95, 1)) == models
    sizes = (4096, 16384, 65536, HELD_BACK, 1 << 20, 1 << 22)
    for held, good in ((1.0, True), (3.0, False)):
        (fit,) = fits(swept(sizes, held), 0.95, 1)
        assert (HELD_BACK in fit.sizes, fit.fits) == (False, good)
