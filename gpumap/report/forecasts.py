"""What more devices would give, as tables; and published tables, with what their cells say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.report.table import Table, estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap import model

COLUMNS = {
    "forecasts": ("algorithm", "devices", "exchange", "step", "speed-up", "efficiency",
                  "examples/s"),
    "payoffs": ("algorithm", "pays", "from a step of", "from a batch of", "fastest on"),
    "cells": ("network", "devices", "time", "examples/s", "speed-up", "efficiency",
              "training alone"),
    "models": ("network", "devices", "measured", "predicted", "off by", "fixed", "bandwidth"),
}  # fmt: skip
_NONE = "-"
_WHOLE = 100  # from here on a figure of examples needs no decimals
_READ = (
    "efficiency: of training and exchanges; training alone: without them; above 100% is "
    "super-linear, and left as it is"
)
_NO_MODEL = (
    "no model of the exchanges: it takes batch, examples, bytes and comm_s of three networks, each "
    "on two numbers of devices"
)


def tables(report: model.Report) -> Iterator[Table]:
    """Yield what was predicted, and what was published."""
    if report.prediction is not None:
        yield from _predicted(report.prediction)
    if report.published is not None:
        yield from _published(report.published)


# --- predictions -------------------------------------------------------------------------------


def _predicted(found: model.Prediction) -> Iterator[Table]:
    rows = tuple(map(_forecast, found.forecasts))
    title = f"predicted, not measured: {_exchanged(found)}"
    yield Table(title, COLUMNS["forecasts"], rows, _assumed(found)).full()
    paid = tuple(map(_paid, found.payoffs))
    yield Table("does a second device pay?", COLUMNS["payoffs"], paid, _paying(found)).full()


def _forecast(forecast: model.Forecast) -> tuple[str, ...]:
    figures = forecast.metrics
    return (
        forecast.algorithm,
        str(forecast.devices),
        _figure(figures.get("comm")),
        _figure(figures.get("time")),
        _figure(figures.get("speedup")),
        _percent(figures.get("efficiency")),
        _examples(figures.get("examples_per_s")),
    )


def _exchanged(found: model.Prediction) -> str:
    """Return what is exchanged by what kind of step."""
    of = f" ({found.network})" if found.network else ""
    step = "" if found.compute is None else f" of {_seconds(found.compute)}"
    batch = "" if found.batch is None else f" with {units.counted(found.batch, 'example')}"
    return f"a step{step}{batch}, {_bytes(found.nbytes)}{of} exchanged, {found.scaling} scaling"


def _assumed(found: model.Prediction) -> tuple[str, ...]:
    link = found.link
    steps = {
        "strong": "step: compute, split over the devices, then the exchange",
        "weak": "step: compute, as much on each device as on one, then the exchange",
    }
    known = "as given" if link.source == "given" else f"by {link.source}"
    cost = f"latency {_figure(link.latency)}, bandwidth {_figure(link.bandwidth)}"
    lines = f", {len(link.lines)} lines" if len(link.lines) > 1 else ""
    return (
        f"link: {cost}{lines}, {known}; the same between all devices",
        f"{steps[found.scaling]}; nothing overlaps, adding is free",
        *_idle(found),
    )


def _idle(found: model.Prediction) -> Iterator[str]:
    """Yield that a batch cannot be split any further."""
    most = max((f.devices for f in found.forecasts), default=0)
    if found.batch is not None and found.scaling == "strong" and found.batch < most:
        batch = units.counted(found.batch, "example")
        yield f"{batch}: of more devices than that the others are idle"


def _paid(payoff: model.Payoff) -> tuple[str, ...]:
    best = _NONE if payoff.best is None else units.counted(payoff.best, "device")
    size = _figure(payoff.metrics.get("from_compute"))
    batch = payoff.metrics.get("from_batch")
    return payoff.algorithm, payoff.pays or _NONE, size, _examples(batch), best


def _paying(found: model.Prediction) -> tuple[str, ...]:
    grow = "; compute grows with the batch" if found.batch is not None else ""
    fastest = "; fastest on: of the numbers of devices above" if found.compute is not None else ""
    return (f"from a step of: on one device, its compute alone{grow}{fastest}",)


# --- published tables --------------------------------------------------------------------------


def _published(found: model.Published) -> Iterator[Table]:
    rows = dict.fromkeys(cell.row for cell in found.cells)
    counts = sorted({cell.devices for cell in found.cells})
    texts = {(cell.row, cell.devices): cell.text for cell in found.cells}
    columns = ("network", *(units.counted(n, "device") for n in counts))
    table = [(row, *(texts.get((row, n), _NONE) for n in counts)) for row in rows]
    yield Table(f"published: {found.origin}", columns, tuple(table), found.source)
    remarks = (_READ,) if found.models else (_READ, _NO_MODEL)
    cells = tuple(map(_cell, found.cells))
    yield Table("computed from the cells", COLUMNS["cells"], cells, remarks).full()
    if found.models:
        yield _models(found)


def _cell(cell: model.Cell) -> tuple[str, ...]:
    figures = cell.metrics
    return (
        cell.row,
        str(cell.devices),
        _as_told(cell),
        _examples(figures.get("examples_per_s")),
        _times(figures.get("speedup")),
        _percent(figures.get("efficiency")),
        _percent(figures.get("compute_efficiency")),
    )


def _as_told(cell: model.Cell) -> str:
    """Return the time in all, as exact as its parts were published."""
    decimals = max(len(part.partition(".")[2]) for part in cell.text.split("+"))
    return f"{cell.metrics['time'].value:.{decimals}f} s"


def _models(found: model.Published) -> Table:
    rows = [_model(m, e) for m in found.models for e in m.exchanged]
    within = [abs(e.miss) for m in found.models for e in m.exchanged if e.devices in found.fitted]
    counts = " and ".join(map(str, found.fitted))
    formula = "a fixed cost for each exchange + 2 (n - 1) / n of the bytes / bandwidth"
    remarks = [f"predicted: {formula}, fitted to the other networks on {counts} devices"]
    if within:
        remarks.append(f"on {counts} devices it is off by {max(within):.1%} at most")
    remarks += [_second(other) for other in found.others]
    return Table("exchanges, each network predicted by the others", COLUMNS["models"], tuple(rows),
                 tuple(remarks))  # fmt: skip


def _model(row: model.LeftOut, each: model.Exchanged) -> tuple[str, ...]:
    return (
        row.row,
        str(each.devices),
        _seconds(each.measured),
        _seconds(each.predicted),
        f"{each.miss:+.1%}",
        _seconds(row.fixed),
        units.together((math.inf if row.bandwidth is None else row.bandwidth,), "B/s")[0],
    )


def _second(other: model.OtherLink) -> str:
    """Return what a number of devices needs that is off the model."""
    ratios = _span(*other.ratio, "1")
    said = f"{other.devices} devices take {ratios} times as long as predicted"
    link = f"of {_span(*other.bandwidth, 'B/s')}" if other.bandwidth else "with another fixed cost"
    return f"{said}: the model needs a second, slower link for them, {link}"


# --- figures -----------------------------------------------------------------------------------


def _figure(figure: model.Estimate | None) -> str:
    """Return a figure; with its interval, where it has one."""
    if figure is None or figure.low < figure.high:
        return estimate(figure)
    return units.together((figure.value,), figure.unit)[0]


def _ranges(figure: model.Estimate) -> bool:
    """Return whether it has an interval of more than one value."""
    return figure.has_interval and figure.low < figure.high


def _percent(figure: model.Estimate | None) -> str:
    if figure is None:
        return _NONE
    ends = f" [{figure.low:.1%}, {figure.high:.1%}]" if _ranges(figure) else ""
    return f"{figure.value:.1%}{ends}"


def _times(figure: model.Estimate | None) -> str:
    return _NONE if figure is None else f"{figure.value:.2f}x"


def _examples(figure: model.Estimate | None) -> str:
    if figure is None:
        return _NONE
    decimals = 0 if figure.value >= _WHOLE else 1
    low, value, high = (f"{x:.{decimals}f}" for x in (figure.low, figure.value, figure.high))
    return f"{value} [{low}, {high}]" if _ranges(figure) else value


def _seconds(value: float) -> str:
    return units.together((value,), "s")[0]


def _bytes(value: float) -> str:
    return units.together((value,), "B")[0]


def _span(low: float, high: float, unit: str) -> str:
    first, second = units.together((low, high), unit)
    number, _, prefix = first.partition(" ")
    return f"{number} to {second}" + (f" {prefix}" if prefix else "")
