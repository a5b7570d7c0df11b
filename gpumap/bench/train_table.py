"""Table and headline of `bench train`: where the time of 5120 examples goes, and what is gained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.registry import Column
from gpumap.figures import spread
from gpumap.judge.doubts import about, doubtful, single_device
from gpumap.judge.inconclusive import ENOUGH
from gpumap.judge.phrases import answer, interval, percent, texts, value
from gpumap.model import Estimate
from gpumap.model.measurements import PHASES
from gpumap.text import middle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.registry import Cell
    from gpumap.model import Case, Headline, Measurement, Report


def title(case: Case) -> str:
    """Return the title of a row's table."""
    batch, how = int(case.params["batch"]), case.params["scaling"]
    examples = f"{batch} examples for all devices"
    if how == "weak":
        examples = f"{batch // len(case.names)} examples for each device"
    return f"train, {how} scaling: {examples}, {case.params['comm']}"


def _waited(row: Measurement, *phases: str) -> str:
    seconds = [row.metrics[phase].value for phase in phases if phase in row.metrics]
    return f"{sum(seconds):.3g} s" if seconds else "-"


def _metric(name: str, text: str) -> Cell:
    return lambda row: text.format(row.metrics[name].value) if name in row.metrics else "-"


def legend(rows: Sequence[Measurement]) -> Iterator[str]:
    """Yield what the columns hold."""
    if any(row.status == "ok" for row in rows):
        yield "train+comm, sync and wait (input, its copy): seconds per 5120 examples"


def _what(row: Measurement) -> str:
    """Return a case, with how its results are exchanged where there are several devices."""
    how = ("rule", "algorithm") if len(row.case.names) > 1 else ()
    params = row.case.params
    return " ".join([row.case.name, *(str(params[name]) for name in how if name in params)])


def _both(row: Measurement) -> str:
    """Return Theano-MPI's cell: what is computed and updated, and what is exchanged."""
    if "compute" not in row.metrics:
        return "-"
    train = row.metrics["compute"].value + row.metrics["update"].value
    comm, exchanges = row.metrics["comm"].value, row.case.name == "step" and len(row.case.names) > 1
    return f"{train:.3g}+{comm:.3g} s" if exchanges else f"{train:.3g} s"


def _of_step(row: Measurement) -> str:
    """Return the time of one step: an iteration may hold several."""
    time, steps = row.metrics.get("time"), int(row.case.params["steps"])
    if time is None or steps == 1:
        return spread(time)
    return spread(Estimate(time.value / steps, time.low / steps, time.high / steps, time.unit))


def _rate(row: Measurement) -> str:
    """Return examples per second: ``12.3 k``."""
    figure = row.metrics.get("examples_per_s")
    if figure is None:
        return "-"
    if not figure.has_interval:
        return units.about(figure.value, "")
    return units.same_prefix((figure.value,), "")[0].rstrip()


COLUMNS = (
    Column("network", param="network"),
    Column("case", cell=_what),
    "on",
    Column("step", cell=_of_step),
    Column("train+comm", cell=_both, verbose=True),
    Column("sync", cell=lambda row: _waited(row, "sync"), verbose=True),
    Column("wait", cell=lambda row: _waited(row, "input", "transfer"), verbose=True),
    Column("examples/s", cell=_rate),
    "speed-up",
    "of ideal",
    Column("loss", cell=_metric("loss", "{:.4f}")),
    Column("accuracy", cell=_metric("accuracy", "{:.1%}")),
    "error",
    "n",
    "trust",
    "status",
)

# --- headline

_MAIN = 0.1  # of a step: less is no cause


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what the most devices gain, by the rule that gains most."""
    rows = [row for row in rows if row.case.name == "step"] or rows
    most = max(len(row.case.names) for row in rows)
    several = [row for row in rows if len(row.case.names) == most]
    best = max(several, key=lambda row: _known_gain(row.metrics.get("speedup")))
    if most == 1:
        return single_device(report, best, "{} trains {} examples", "examples_per_s")
    if (doubt := doubtful(report, best, "speedup")) is not None:
        return doubt
    gain, rate = best.metrics["speedup"], best.metrics.get("examples_per_s")
    rule = best.case.params.get("rule")
    by = f" by {middle(str(rule))}" if rule is not None and len(several) > 1 else ""
    text = f"{most} devices train {value(gain)} times as many examples per second as one"
    text += f"{by} ({interval(gain)}; {most} is ideal)"
    if gain.value >= ENOUGH * most:
        much = f": {rate.value:,.0f}/s." if rate is not None else "."
        return answer(report, "good", (f"{text}{much}",), about(best, "speedup"))
    return answer(report, "below", (f"{text}. {_why(best)}.",), about(best, "speedup"))


def judged(rows: Sequence[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield what a gate judges: the time of a step on all devices."""
    most = max((len(row.case.names) for row in rows), default=0)
    steps = (row for row in rows if row.case.name == "step" and len(row.case.names) == most)
    yield from ((row.case.id, "time") for row in steps)


def _known_gain(gain: Estimate | None) -> float:
    return gain.value if gain is not None and gain.has_interval else 0.0


def _why(row: Measurement) -> str:
    """Return what takes most of a step beside computing, where its interval leaves no doubt."""
    known = {name: row.metrics[name] for name in PHASES if name in row.metrics}
    words = texts("phases")
    whole = sum(figure.value for figure in known.values())
    shares = {
        name: known[name].value / whole
        for name in words
        if name in known and known[name].has_interval and known[name].low > 0.0 < whole
    }
    main = max(shares, key=lambda name: shares[name], default=None)
    if main is None or shares[main] < _MAIN:
        return "Cause not identified"
    return f"{words[main]} {percent(shares[main])} of a step"
