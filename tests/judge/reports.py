"""Reports made of numbers: two runs whose truth is known, for judging."""

import math
import random

from cases import planned_case
from judge.copy_rows import core
from report.made_reports import bindings

from gpumap import model
from gpumap.bench.rows import with_claims
from gpumap.engine.stats import location
from gpumap.model import replace
from gpumap.model.measurements import fit_id

MACHINE = model.Fingerprint(
    "sha256:" + "0" * 64, "A processor", 2, "Linux 6.1", "3.11.7", {"numpy": "2.0"},
    ("cpu:0",), {},
)  # fmt: skip
GOOD = model.Check("float64 reference", passed=True, max_error=0.05, bound=1.0)


def bound(*names):
    """Return names for cores: each ends in the number of its own."""
    return tuple(model.Binding(name, core(int(name[-1]))) for name in names)


def fake_case(bench="dot", name="many", *names, **params):
    bound = bindings(names or ("a", "b"))
    return planned_case(bench, name, params or {"size": 64}, bound, model.Work())


def fitted(ladder, **metrics):
    """Return the model of a ladder; without metrics it does not fit."""
    return model.Fit(fit_id(ladder), ladder, bool(metrics), (64,), 0.0, metrics, ())


def noisy(seconds, blocks=40, noise=0.0, seed=1, machine=None):
    """Return a time for each block; `machine` multiplies block by block what all rows feel."""
    rng = random.Random(seed)  # noqa: S311 - noise, not a secret
    every = machine or [1.0] * blocks
    return [seconds * factor * math.exp(rng.gauss(0.0, noise)) for factor in every]


def row(name, times, *, names=("a0",), bench="dot", metric="time", against=None, **others):
    flags = others.pop("flags", ())
    check = others.pop("check", GOOD)
    gain, then = others.pop("speedup", None), others.pop("then", None)
    params, places = {"size": 64, **others}, bound(*names)
    case = planned_case(bench, name, params, places, model.Work(1), against, then=then)
    found = location(times, positive=True)
    metrics = {metric: model.Estimate(found.value, found.low, found.high, "s")}
    if gain is not None:
        metrics["speedup"] = model.Estimate(gain, gain, gain, "1")
    samples = model.Samples(tuple(times), tuple(range(len(times))))
    return model.Measurement(case, "ok", None, flags, samples, None, check, metrics)


def control_row(times, names=("a0",)):
    return row("product", times, names=names, bench="control", beside="64")


def report(*rows, **others):
    whole = model.Report(
        "bench", ("bench", "dot"), "2026-11-20T20:12:03.123Z", "2026-11-20T20:12:11.480Z", 8.357,
        "ok", 0, simulated=False, settings={}, source=None, map=None, bindings=(), notes=(),
        devices=(), backends=(), fingerprint=MACHINE, environment={}, before=None, after=None,
        result=model.Measured(with_claims(rows)), headline=model.Headline("good", "x"),
    )  # fmt: skip
    return replace(whole, **others)
