"""Every speed-up below 90 % of what could be has one cause, with the figures that show it."""

import pytest
from cases import planned_case, thin
from copy_rows import core, exactly, gpu
from tables import table

from gpumap import model
from gpumap.bench.rows import with_causes
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


CORES = (core(0), core(1))
LOOSE = tuple(replace(each, cores=()) for each in CORES)
SHARED = tuple(replace(each, hardware=frozenset({"core:1", "core:0"})) for each in LOOSE)
DEVICES = {"cores": CORES, "gpus": (gpu(0), gpu(1)), "loose": LOOSE, "shared": SHARED}


def slow(time, spans=(), *, devices="cores", solo=(1, 1), ideal=2.0, fetch=None, around=(),
         overlap=1.0, control=1, cpu=0, sampled=1, refused=(), lost=False, **others):  # fmt: skip
    """Return a group that takes so many products' time; whatever takes time is in products too.

    What `fetch`ing costs may be as little as that; `others` are figures with their intervals.
    """
    both = [model.Binding(name, each) for name, each in zip("ab", DEVICES[devices], strict=True)]
    worked = {"cpu": (cpu * SOLO,) * N} if cpu else {}
    scaled = [(start * SOLO, stop * SOLO) for start, stop in spans]
    taken = samples(time * SOLO, *scaled, iterations=sampled, **worked)
    name, nbytes = ("many", 0) if fetch is None else ("many+fetch", 8_000_000)
    gain = 2 * SOLO / (time * SOLO)
    many = row(name, both, time * SOLO, samples=taken, fetch=nbytes, overlap=overlap,
               speedup=gain, ideal=ideal, efficiency=gain / ideal)  # fmt: skip
    figures = {key: model.Estimate(*ends, "1") for key, ends in others.items()}
    figures |= {key: model.Estimate.refused("1") for key in refused}
    if fetch is not None:
        figures["fetch"] = model.Estimate(SOLO, fetch * SOLO, 1.1 * SOLO, "s")
    around = model.Around(*around) if around else None
    many = replace(many, around=around, metrics={**many.metrics, **figures})
    if lost:
        many = replace(many, status="skipped", metrics={})
    rows = [row("solo", [b], t * SOLO) for b, t in zip(both, solo, strict=True)]
    rows += [row("product", [b], SOLO / control, bench="control") for b in both]
    return [*rows, many]


def cause(rows):
    found = with_causes(rows[0].case.bench, rows)
    assert all(each.explanation is None for each in found[:-1])
    assert [each.case for each in found] == [each.case for each in rows]
    return found[-1].explanation


UNEQUAL = {"time": 1.9, "spans": [[0, 1], [0, 1]], "solo": [1, 1.9], "ideal": 1.05,
           "ideal_balanced": [1.5, 1.5, 1.5]}  # fmt: skip


@pytest.mark.parametrize(("expected", "seen", "figures"), table(__file__)["causes"])
def test_a_cause_accounts_for_its_part_or_leaves_it_to_the_next(expected, seen, figures):
    """Half of what is missing, three quarters of a core; its figures show it."""
    why = cause(slow(**seen))
    assert (why.cause if why else "") == expected
    figures = figures or {}
    assert {key: why.figures[key].value for key in figures} == pytest.approx(figures)


def test_of_several_shared_pieces_the_first_is_named():
    """The same one in each run."""
    text = cause(slow(2, devices="shared", ideal=1.0)).text
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
    return with_causes(rows[0].case.bench, rows)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_under_six_samples_are_no_ground_for_a_cause(place):
    """Of the row, or of what it is compared with; neither they make the host faster."""
    for n, found in ((5, (None, None)), (6, ("unequal-devices", "host-faster"))):
        rows, bare = slow(**UNEQUAL), [replace(row, explanation=None) for row in beside(1e-3)]
        if n < 6:
            for each in (rows, bare):
                each[place] = replace(each[place], metrics=thin(each[place].metrics))
        causes = cause(rows), with_causes(bare[0].case.bench, bare)[0].explanation
        assert tuple(getattr(each, "cause", None) for each in causes) == found


def test_a_device_that_may_be_as_fast_is_not_called_slower():
    assert [row.explanation for row in beside(1e-3, high=1.0)] == [None, None]
