"""What `predict` computed, as every format shows it: forecasts, and a published table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.figures import estimate
from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Record, Section
from gpumap.report.table import Table
from gpumap.results import ResultSpec
from gpumap.results.around import around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Cell, Estimate, Forecast, Predicted, Prediction, Published, Report

PREDICTED = {
    "forecasts": ("algorithm", "devices", "exchange", "step", "speed-up", "efficiency"),
    "cells": ("network", "devices", "time", "examples/s", "speed-up", "efficiency"),
}  # fmt: skip
_READ = "efficiency: of training and exchanges; above 100% is super-linear, and left as it is"


def sections(report: Report, result: Predicted, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield the forecasts, or the published table with what follows from it."""
    if result.prediction is not None:
        yield from around(report, _predicted(result.prediction), verbose=verbose)
    if result.published is not None:
        yield from around(report, _published(result.published), verbose=verbose)


def _predicted(found: Prediction) -> Iterator[Table]:
    rows = tuple(map(_forecast, found.forecasts))
    size = units.single(found.nbytes, "B")
    title = f"predicted, not measured: {size} exchanged in a step, {found.scaling} scaling"
    yield Table(title, PREDICTED["forecasts"], rows, _assumed(found)).full()


def _forecast(forecast: Forecast) -> tuple[str, ...]:
    figures = forecast.metrics
    ranged = (_ranged(figures.get(name)) for name in ("comm", "time", "speedup"))
    efficiency = _percent(figures.get("efficiency"))
    return forecast.algorithm, str(forecast.devices), *ranged, efficiency


def _assumed(found: Prediction) -> tuple[str, ...]:
    link = found.link
    cost = f"latency {_ranged(link.latency)}, bandwidth {_ranged(link.bandwidth)}"
    split = "split over the devices" if found.scaling == "strong" else "as much on each device"
    return (
        f"link ({link.source}): {cost}; the same between all devices",
        f"step: compute, {split}, then the exchange; nothing overlaps, adding is free",
    )


def _published(found: Published) -> Iterator[Table]:
    rows = dict.fromkeys(cell.row for cell in found.cells)
    counts = sorted({cell.devices for cell in found.cells})
    texts = {(cell.row, cell.devices): cell.text for cell in found.cells}
    columns = ("network", *(units.counted(n, "device") for n in counts))
    table = [(row, *(texts.get((row, n), "-") for n in counts)) for row in rows]
    yield Table(f"published: {found.origin}", columns, tuple(table), found.source)
    cells = tuple(map(_cell, found.cells))
    yield Table("computed from the cells", PREDICTED["cells"], cells, (_READ,)).full()


def _cell(cell: Cell) -> tuple[str, ...]:
    figures, speedup = cell.metrics, cell.metrics.get("speedup")
    return (
        cell.row,
        str(cell.devices),
        f"{figures['time'].value:.2f} s",
        units.single(figures["examples_per_s"].value, "1"),
        "-" if speedup is None else f"{speedup.value:.2f}x",
        _percent(figures.get("efficiency")),
    )


def _ranged(figure: Estimate | None) -> str:
    """Return a figure; with its interval, where it has one."""
    if figure is None or figure.low < figure.high:
        return estimate(figure)
    return units.single(figure.value, figure.unit)


def _percent(figure: Estimate | None) -> str:
    return "-" if figure is None else f"{figure.value:.1%}"


def records(report: Report, result: Predicted) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield each forecast and each cell."""
    if result.prediction is not None:
        for each in result.prediction.forecasts:
            id_, cells = f"{each.algorithm}[devices={each.devices}]", {"case": each.algorithm}
            yield Record("forecast", id_, cells, each.metrics)
    if result.published is not None:
        yield from _records(result.published)


def _records(found: Published) -> Iterator[Record]:
    for cell in found.cells:
        cells = {"case": cell.row, "flags": " ".join(cell.flags)}
        yield Record("published", f"{cell.row}[devices={cell.devices}]", cells, cell.metrics)


SPEC = ResultSpec(sections, Question(answers.predict, "predictable"), records)
