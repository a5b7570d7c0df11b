"""Rows of `bench train` as cells: where the time of 5120 examples goes, and what binds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.registry import Column
from gpumap.escape import printable
from gpumap.judge.few import few, founded
from gpumap.model import Estimate
from gpumap.report.table import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Case, Measurement

RIGHT = ("step", "train+comm", "sync", "wait", "examples/s", "loss")
# What a row may be bound by, and the phases that are counted for it.
_BINDS = {
    "compute": ("compute", "update"),
    "input": ("input",),
    "transfer": ("transfer",),
    "communication": ("comm",),
    "synchronisation": ("sync",),
}


def title(case: Case) -> str:
    """Return the title of the table that a row stands in."""
    batch, count = int(case.params["batch"]), len(case.names)
    if case.params["scaling"] == "weak":
        scaling = f"weak scaling: {batch // count} examples for each device"
    else:
        scaling = f"strong scaling: {batch} examples for all devices"
    return f"train, {scaling}, {case.params['comm']}"


def _waited(row: Measurement, *phases: str) -> str:
    found = [row.metrics[phase].value for phase in phases if phase in row.metrics]
    return _seconds(sum(found)) if found else "-"


def _moved(row: Measurement) -> str:
    return units.memory(round(row.metrics["moved"].value)) if _moves(row) else "-"


def _loss(row: Measurement) -> str:
    return f"{row.metrics['loss'].value:.4f}" if "loss" in row.metrics else "-"


def binds(row: Measurement) -> str | None:
    """Return what most of a row's time goes into; of too few samples nothing is concluded."""
    if "compute" not in row.metrics or few(row):
        return None
    spent = {
        word: sum(row.metrics[phase].value for phase in phases) for word, phases in _BINDS.items()
    }
    return max(spent, key=lambda word: spent[word])


def remarks(rows: Sequence[Measurement]) -> Iterator[str]:
    """Yield what the columns hold, and from which network of a sweep on a second device pays."""
    if any(row.status == "ok" for row in rows):
        yield "train+comm, sync and wait (input, its copy): seconds per 5120 examples"
    networks = list(dict.fromkeys(str(row.case.params["network"]) for row in rows))
    if len(networks) > 1:
        yield from _pays(rows, networks)


def _pays(rows: Sequence[Measurement], networks: Sequence[str]) -> Iterator[str]:
    """Yield from which network on two devices are clearly faster than one; sizes grow.

    Where one of the rows has too few samples for an interval nothing is told.
    """
    steps = [row for row in rows if row.case.name == "step" and row.status == "ok"]
    pairs = [row for row in steps if len(row.case.names) <= 2]  # noqa: PLR2004 - a second device
    gains = {
        str(row.case.params["network"]): row.metrics["speedup"]
        for row in pairs
        if "speedup" in row.metrics
    }
    paying = [name for name in networks if name in gains and gains[name].low > 1.0]
    named = [printable(name) for name in paying]
    if not gains or len(founded(pairs)) < len(pairs):
        return
    if not paying:
        yield "a second device pays for none of these networks"
    elif networks[networks.index(paying[0]) :] == paying:
        yield f"a second device pays from {named[0]} on: {estimate(gains[paying[0]])} times"
    else:
        yield f"a second device pays for {', '.join(named)}, and not for all that are larger"


def rule(case: Case) -> str:
    """Return how results are exchanged, in the words of a table."""
    found = str(case.params.get("rule", "-"))
    if case.params.get("average") == "parameters":
        found += " of parameters"
    return f"{found} {case.params['algorithm']}" if "algorithm" in case.params else found


def _both(row: Measurement) -> str:
    """Return Theano-MPI's cell: what is computed and updated, and what is exchanged."""
    if "compute" not in row.metrics:
        return "-"
    train = sum(row.metrics[phase].value for phase in _BINDS["compute"])
    comm = row.metrics["comm"].value
    return f"{train:.3g}+{comm:.3g} s" if _moves(row) else f"{train:.3g} s"


def _moves(row: Measurement) -> bool:
    return "moved" in row.metrics and row.metrics["moved"].value > 0.0


def _of_step(row: Measurement) -> Estimate | None:
    """Return the time of one step: a round may hold several."""
    time, steps = row.metrics.get("time"), int(row.case.params["steps"])
    if time is None or steps == 1:
        return time
    return Estimate(time.value / steps, time.low / steps, time.high / steps, time.unit)


def _rate(figure: Estimate | None) -> str:
    """Return examples per second: ``12.3 k [11.8, 12.5]``."""
    if figure is None:
        return "-"
    value, blank, ends = estimate(Estimate(figure.value, figure.low, figure.high, "")).partition(
        " ["
    )
    return f"{value.rstrip()}{blank}{ends}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


COLUMNS = (
    Column("network", param="network"),
    "case",
    Column("rule", cell=lambda row: "-" if len(row.case.names) == 1 else rule(row.case)),
    "on",
    Column("step", cell=lambda row: estimate(_of_step(row))),
    Column("train+comm", cell=_both),
    Column("sync", cell=lambda row: _waited(row, "sync")),
    Column("wait", cell=lambda row: _waited(row, "input", "transfer")),
    Column("examples/s", cell=lambda row: _rate(row.metrics.get("examples_per_s"))),
    "speed-up",
    "efficiency",
    Column("binds", cell=lambda row: binds(row) or "-"),
    Column("moved", cell=_moved),
    Column("loss", cell=_loss),
    "error",
    "n",
    "status",
)
