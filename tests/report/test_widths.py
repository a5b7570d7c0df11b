"""Tables of every benchmark fit: 100 columns in a pipe, a terminal's own width on a terminal."""

from functools import cache

import pytest
from cases import called, planned_case
from made_reports import device, figure, made

from gpumap.bench import registry
from gpumap.model import Binding, Estimate, Explanation, Fit, Measurement

from gpumap.model import Samples, Stop, Work, replace  # isort: skip
from gpumap.model.maps import UNITS
from gpumap.report import Style
from gpumap.results.shown import render
from gpumap.text import width

NAMES = {
    "short": "gpu{}",
    "long": "rack-12-node-{:03}-in-the-second-row-card",
    "wide": "研究棟の計算機その{:03}番の装置",
}
COUNTS = (2, 8, 64)
PARAMS = {
    "dot": {"size": 8192, "dtype": "bfloat16"},
    "chain": {"rows": 1_000_000, "dtype": "float32"},
    "allreduce": {"bytes": 165_000_000, "comm": "local", "pattern": "alone"},
    "train": {"network": "mlp-large", "rule": "bsp", "algorithm": "native", "comm": "local",
              "scaling": "weak", "batch": 4096, "steps": 4, "average": "gradients",
              "input": "made"},
    "selftest": {"size": 1024, "dtype": "float32"},
}  # fmt: skip
PARTED = ("step", "compute", "ring", "host", "native")  # on all devices
HEADS = {  # what people quote first
    "dot": ("time", "FLOP/s", "speed-up"),
    "chain": ("time", "FLOP/s", "speed-up"),
    "allreduce": ("time", "B/s", "speed-up"),
    "train": ("step", "examples/s", "speed-up"),
    "selftest": ("time", "FLOP/s", "a/b"),
    "transfer": ("16.8 MB", "400 B", "/s", "at once"),
}


def estimates(metrics, bytes_=400_000):
    sizes = {"s": 0.0491, "FLOP/s": 6.02e14, "B/s": bytes_ / 2e-5, "1": 0.9876, "B": 1.03e5,
             "1/s": 91_234.5}  # fmt: skip
    return {name: figure(sizes[UNITS[name]], UNITS[name], 0.12) for name in metrics}


def row(case, metrics, n=40, flags=()):
    figures = estimates(metrics)
    if n < 6:
        figures = {k: Estimate.without_interval(f.value, f.unit) for k, f in figures.items()}
    why = Explanation("unexplained", f"{' '.join(case.names[:2])} took longer than they should")
    stop = Stop("precision", n, 3, 0.0, float(n))
    return Measurement(case, "ok", None, flags, Samples((0.05,) * n, tuple(range(n)), 1), stop,
                       metrics=figures, explanation=why)  # fmt: skip


def measured(key, bound):
    spec = registry.loaded(key)
    for family in (each for each in spec.families if "latency" not in each.metrics):
        for number, name in enumerate(family.cases):
            one = next((c for c in spec.cases if c.name == name), registry.CaseSpec(name))
            places = [(b,) for b in bound] if one.name == "solo" else [bound[:1]]
            if one.several or name in PARTED:
                places = [bound]
            for place in places:
                params = PARAMS[key]
                metrics = [m for m in family.metrics if m not in registry.MODEL]
                case = planned_case(key, name, params, place, Work())
                yield row(case, metrics, (40, 3, 12)[number % 3], ("unstable",) * (number % 2))


def copied(bound):
    metrics = ("time", "bandwidth")
    for nbytes in (16_800_000, 400):
        for name in ("h2d", "d2h"):
            keys = {"bytes": nbytes, "memory": "pageable", "mode": "sync", "pattern": "alone"}
            for place in bound:
                yield row(planned_case("transfer", name, keys, (place,), Work()), metrics)
            together = planned_case("transfer", name, keys | {"pattern": "together"}, bound, Work())
            yield row(together, (*metrics, "speedup"))
        keys |= {"memory": "device"}
        for a in bound:
            for b in bound:
                if a is not b:
                    yield row(
                        planned_case("transfer", "d2d", keys, (a, b), Work(), ordered=True), metrics
                    )


@cache
def report(key, count, form):
    bound = tuple(Binding(NAMES[form].format(n), device(n)) for n in range(count))
    rows = tuple(copied(bound) if key == "transfer" else measured(key, bound))
    parts = {"bindings": bound}
    if key == "transfer":
        every = [r.case for r in rows if r.case.params["bytes"] == 400 and r.case.name != "d2d"]
        parts["fits"] = tuple(
            Fit(c.id, c, True, 1, (64, 512), 0.06, None, estimates(registry.MODEL), ())  # noqa: FBT003
            for c in every
        )
        found = {"break_even": Estimate(1.2e6, 0.9e6, 1.6e6, "B")}
        calls = (
            called(b, (4096, 1e-6, 2e-6), (67_108_864, 2e-3, 1e-3), resident=there, metrics=found)
            for b in bound for there in ("false", "true")
        )  # fmt: skip
        rows += tuple({row.case.id: row for each in calls for row in each}.values())
    return replace(made(), measurements=rows, **parts)


def lines(format_, found, columns=100):
    text = render(format_, found, Style(width=columns))
    return [line for line in text.splitlines() if not line.startswith("Mapped name")]


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("key", HEADS)
def test_no_line_is_wider_than_its_room(key, count, form):
    """In a pipe 100 columns; on a terminal its own width. What people quote is never left out."""
    found = report(key, count, form)
    assert [line for line in lines("plain", found) if width(line) > 100] == []
    for columns in (80, 100, 120):
        shown = lines("rich", found, columns)
        assert [line for line in shown if width(line) > columns] == []
        assert [head for head in HEADS[key] if head not in "\n".join(shown)] == []


def test_devices_alone_are_one_line():
    found = report("dot", 8, "short")
    rows_ = list(found.measurements)
    slow = next(n for n, each in enumerate(rows_) if each.case.names == ("gpu5",))
    rows_[slow] = replace(rows_[slow], metrics={"rate": figure(5e14, "FLOP/s")})
    found = replace(found, measurements=tuple(rows_))
    text = "\n".join(lines("plain", found))
    assert "alone: 500 to 602 TFLOP/s; slowest gpu5 (0.83 of the fastest)" in text
    assert [line for line in text.splitlines() if line.startswith("  solo  ")] == []
    assert render("plain", found, Style(verbose=True)).count("solo") >= 8
    rows_[slow] = replace(rows_[slow], flags=("cpu",))  # CPU times are not compared with others
    assert "alone: " not in "\n".join(lines("plain", replace(found, measurements=tuple(rows_))))
