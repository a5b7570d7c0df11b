"""Every speed-up below 90 % of what could be has one cause, with the figures that show it."""

import pytest
from cases import planned_case, thin
from copy_rows import core, exactly, gpu

from gpumap import model
from gpumap.bench.causes import explaining
from gpumap.model import replace

N = 20
SIZE = 1000
OPERATIONS = 2 * SIZE**3
RATE = 2e11  # so that a product is 10 ms of arithmetic
SOLO = OPERATIONS / RATE


def row(name, bindings, time, *, bench="dot", samples=None, fetch=0, **figures):
    work = model.Work(len(bindings), OPERATIONS * len(bindings), 0, fetch)
    metrics = {"time": exactly(time, "s"), "rate": exactly(work.operations / time, "FLOP/s")}
    metrics |= {key: exactly(value) for key, value in figures.items()}
    case = planned_case(bench, name, {"size": SIZE}, tuple(bindings), work)
    return model.Measurement(case, "ok", None, (), samples, metrics=metrics)


def samples(time, *spans, iterations=1, **others):
    """Return equal samples: one (start, stop) for each device, in seconds from their begin."""
    found = {name: tuple((n + a, n + b) for n in range(N))
             for name, (a, b) in zip("ab", spans, strict=False)}  # fmt: skip
    return model.Samples((time,) * N, tuple(range(N)), iterations, intervals=found, **others)


def group(time, taken, *, devices=None, solo=(SOLO, SOLO), case="many", ideal=2.0, fetch=0,
          around=None, cost=None, overlap=1.0, control=RATE, iterations=(None, None)):  # fmt: skip
    devices = devices or (core(0), core(1))
    both = [model.Binding(name, found) for name, found in zip("ab", devices, strict=True)]
    gain = 2 * SOLO / time
    many = row(case, both, time, samples=taken, fetch=fetch, overlap=overlap,
               speedup=gain, ideal=ideal, efficiency=gain / ideal)  # fmt: skip
    figures = {"fetch": cost} if cost else {}
    if max(solo) > 1.1 * min(solo):
        figures["ideal_balanced"] = exactly(1.5)
    alone, large = (n and samples(SOLO, iterations=n) for n in iterations)
    rows = [row("solo", [b], t, samples=alone) for b, t in zip(both, solo, strict=True)]
    rows += [
        row("product", [b], OPERATIONS / control, bench="control", samples=large) for b in both
    ]
    return [*rows, replace(many, around=around, metrics={**many.metrics, **figures})]


def cause(rows):
    found = explaining(rows[0].case.bench)(rows)
    assert all(each.explanation is None for each in found[:-1])
    assert [each.case for each in found] == [each.case for each in rows]
    return found[-1].explanation


def slow(time, *spans, **more):
    """Return a group that takes so many products' time; spans are in products too."""
    figures = {key: more.pop(key) for key in ("cpu", "sampled") if key in more}
    cpu = {"cpu": (figures["cpu"] * SOLO,) * N} if "cpu" in figures else {}
    rest = {"iterations": figures.get("sampled", 1)}
    scaled = [(a * SOLO, b * SOLO) for a, b in spans]
    return group(time * SOLO, samples(time * SOLO, *scaled, **cpu, **rest), **more)


def unequal(**more):
    return slow(1.9, *ONE, solo=(SOLO, 1.9 * SOLO), ideal=1.05, **more)


def fetching(low):
    cost = model.Estimate(SOLO, low * SOLO, 1.1 * SOLO, "s")
    return slow(2, *ONE, case="many+fetch", fetch=8_000_000, cost=cost)


def told(rows, **figures):
    *others, many = rows
    return [*others, replace(many, metrics={**many.metrics, **figures})]


def unsure(high):
    return told(slow(2, *ONE), efficiency=model.Estimate(0.5, 0.1, high, "1"))


ONE = ((0, 1), (0, 1))  # both devices work for one product's time, at once
TURNS = ((0, 1), (1, 2))
ALL = ((0, 2), (0, 2))
GPUS = (gpu(0), gpu(1))
LOOSE = tuple(replace(core(n), cores=()) for n in (0, 1))
SHARED = tuple(replace(each, hardware=frozenset({"core:1", "core:0"})) for each in LOOSE)
HALF = [replace(f, metrics={k: v for k, v in f.metrics.items() if k != "ideal_balanced"})
        for f in unequal()]  # fmt: skip
LOST = slow(2, *ONE)
LOST[-1] = replace(LOST[-1], status="skipped", metrics={})


@pytest.mark.parametrize(("rows", "expected", "figures"), [
    (slow(1, *ONE), None, {}),
    (slow(1 / 0.91, *ONE), None, {}),  # 90 % of the number of devices are enough
    *((told(unequal(), **{name: model.Estimate.refused("1")}), None, {})
      for name in ("speedup", "ideal", "efficiency")),
    (LOST, None, {}), (unsure(0.999), "synchronisation", {}),
    (unsure(1.0), None, {}),  # nothing may be lost
    (slow(2, *ONE, devices=SHARED, ideal=1.0), "shared-hardware", {"speedup": 1.0}),
    (unequal(), "unequal-devices", {"slowest": 1.9 * SOLO}),
    (HALF, None, {}),  # no balance was found that would be better
    (unequal(around=model.Around(0.9, 0.0)), "cpu-contention", {}),
    (unequal(around=model.Around(0.48, 0.0)), "cpu-contention", {}),  # half of what is missing
    (unequal(around=model.Around(0.46, 0.0)), "unequal-devices", {}),
    (slow(2, *ONE, control=RATE * 4), "launch-bound", {"product": SOLO, "arithmetic": SOLO / 4}),
    (slow(2, *ONE, around=model.Around(0.2, 0.0), control=RATE * 4), "launch-bound", {}),
    (slow(2, *ONE, around=model.Around(2.0, 0.0, 2.0, 4), control=RATE * 4), "launch-bound", {}),
    (slow(2, *TURNS, devices=GPUS, around=model.Around(2.0, 0.5), overlap=0.0), "serialised", {}),
    (fetching(0.9), "transfer-bound", {"fetch": SOLO, "time": 2 * SOLO}),
    (fetching(-1.0), "synchronisation", {}),  # it may cost nothing
    (slow(2, *TURNS, overlap=0.02), "serialised", {"overlap": 0.02}),
    (slow(2, *ONE, overlap=0.49), "serialised", {}),
    (slow(2, *ONE, overlap=0.5), "synchronisation", {}),
    (slow(2, *ALL, cpu=2, devices=LOOSE), "shared-hardware", {}),
    # cores of their own are not shared: something else ran there
    (slow(2, *ALL, cpu=2), "cpu-contention", {"cores": 1.0, "worked": 2.0}),
    (slow(2, *ALL, cpu=2.96), "cpu-contention", {}),
    (slow(2, *ALL, cpu=3.04), "shared-hardware", {}),
    # each has its core, and is slower beside the other all the same
    (slow(1.4, (0, 1.4), (0, 1), cpu=2.8), "shared-hardware", {}),
    (slow(1.5, *ONE, cpu=3), "synchronisation", {"outside": SOLO / 2}),
    # outside is before the first start and after the last stop
    (slow(2, (0, 1), (0.4, 1.4)), "synchronisation", {"outside": 0.6 * SOLO}),
    (slow(2, (0, 1), (0.49, 1.49)), "synchronisation", {}),
    (slow(2, (0, 1), (0.51, 1.51)), "unexplained", {}),
    (slow(1.2, sampled=100), "too-little-work", {}),
    (slow(1.3), "unexplained", {}),
    # others want cores that the devices need, now or before: no other cause can be told
    *((slow(time, *ONE, around=around, control=RATE * 4, overlap=0.0), "cpu-contention", {})
      for time in (1.2, 3.0) for around in (
          model.Around(0.6, 0.0), model.Around(0.0, 0.4), model.Around(None, None, 2.0, 2),
          model.Around(2.7, 0.0, 0.0, 4))),
    # what takes longer than its slowest device is not explained by that one
    (slow(3, *ONE, solo=(SOLO, 1.9 * SOLO), ideal=1.05, overlap=0.0), "serialised", {}),
])  # fmt: skip
def test_a_cause_accounts_for_its_part_or_leaves_it_to_the_next(rows, expected, figures):
    """Half of what is missing, three quarters of a core; its figures show it."""
    why = cause(rows)
    assert (why and why.cause) == expected
    assert {key: why.figures[key].value for key in figures} == pytest.approx(figures)


def test_of_several_shared_pieces_the_first_is_named():
    """The same one in each run."""
    text = cause(slow(2, *ONE, devices=SHARED, ideal=1.0)).text
    assert "share hardware (core:0)" in text


def beside(host, *, high=0.9):
    """Return the rows of a chain: a device's, and the host's own."""
    binding = model.Binding("a", core(0))
    keys = {"rows": 100, "dtype": "float32"}
    mine = planned_case("chain", "fused", keys, (binding,), model.Work())
    theirs = planned_case("chain", "host", keys, (binding,), model.Work())
    gain = {"speedup_over_host": model.Estimate(0.5, 0.4, high, "1")}
    rows = [
        model.Measurement(mine, "ok", metrics={"time": exactly(2e-3, "s"), **gain}),
        model.Measurement(theirs, "ok", metrics={"time": exactly(host, "s")}),
    ]
    return explaining(rows[0].case.bench)(rows)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_under_six_samples_are_no_ground_for_a_cause(place):
    """Of the row, or of what it is compared with; neither they make the host faster."""
    for n, found in ((5, (None, None)), (6, ("unequal-devices", "host-faster"))):
        rows, bare = unequal(), [replace(row, explanation=None) for row in beside(1e-3)]
        if n < 6:
            for each in (rows, bare):
                each[place] = replace(each[place], metrics=thin(each[place].metrics))
        causes = cause(rows), explaining(bare[0].case.bench)(bare)[0].explanation
        assert tuple(getattr(each, "cause", None) for each in causes) == found


def test_a_device_that_may_be_as_fast_is_not_called_slower():
    assert [row.explanation for row in beside(1e-3, high=1.0)] == [None, None]
