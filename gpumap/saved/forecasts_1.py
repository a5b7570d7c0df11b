"""What was computed, computed again: only what goes in is believed."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from gpumap import model
from gpumap.parallel import published as tables
from gpumap.parallel.cost import MODELS
from gpumap.parallel.predict import predicted
from gpumap.saved.figures_1 import estimate
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.saved import shape_1 as shape

_ROUNDING = 1e-9  # relative: another machine may add up in another order
_UNITS = {
    "comm": "s", "time": "s", "speedup": "1", "efficiency": "1", "examples_per_s": "1/s",
    "compute_efficiency": "1", "from_compute": "s", "from_batch": "1",
}  # fmt: skip


def prediction(found: shape.Prediction) -> model.Prediction:
    """Return a prediction.

    Raises:
        Refused: its figures do not follow from what it was computed from.
    """
    path = "$.prediction"
    forecasts = tuple(_forecast(f, f"{path}.forecasts[{n}]") for n, f in enumerate(found.forecasts))
    payoffs = tuple(_payoff(p, f"{path}.payoffs[{n}]") for n, p in enumerate(found.payoffs))
    if found.batch is not None and found.compute_s is None:
        raise Refused("a batch is of a step that takes a time", f"{path}.batch")
    question = model.Prediction(
        found.bytes, _link(found.link, f"{path}.link"), found.scaling, found.network,
        found.compute_s, found.batch,
    )  # fmt: skip
    written = replace(question, forecasts=forecasts, payoffs=payoffs)
    devices = tuple(dict.fromkeys(f.devices for f in forecasts))
    algorithms = tuple(name for name in MODELS if name in {p.algorithm for p in payoffs})
    _same(written, _again(question, devices, algorithms, path), path)
    return written


def published(found: shape.Published) -> model.Published:
    """Return a table.

    Raises:
        Refused: its figures do not follow from its cells.
    """
    path = "$.published"
    cells = tuple(_cell(cell, f"{path}.cells[{n}]") for n, cell in enumerate(found.cells))
    keys = {(cell.row, cell.devices) for cell in cells}
    if len(keys) < len(cells):
        raise Refused("a row stands twice at one number of devices", f"{path}.cells")
    written = model.Published(
        found.origin, found.source, cells, found.fitted_devices,
        tuple(map(_left_out, found.models)), tuple(map(_other_link, found.other_links)),
    )  # fmt: skip
    try:
        again = tables.judged(model.Published(found.origin, found.source, cells))
    except (ArithmeticError, ValueError) as error:
        raise Refused("nothing can be computed from its cells", f"{path}.cells") from error
    _same(written, again, path)
    return written


def _again(
    question: model.Prediction, devices: tuple[int, ...], algorithms: tuple[str, ...], path: str
) -> model.Prediction:
    if not devices:
        raise Refused("it is of no number of devices", f"{path}.forecasts")
    try:
        return predicted(question, devices, algorithms)
    except ArithmeticError as error:
        raise Refused("nothing can be computed from its link", f"{path}.link") from error


def _link(found: shape.LinkCost, path: str) -> model.LinkCost:
    latency, bandwidth = (
        _estimate(figure, unit, f"{path}.{name}")
        for name, figure, unit in (
            ("latency", found.latency, "s"),
            ("bandwidth", found.bandwidth, "B/s"),
        )
    )
    lines = tuple((line.from_bytes, line.latency_s, line.per_byte_s) for line in found.lines)
    starts = [start for start, _, _ in lines]
    if starts != sorted(starts) or starts[0] != 0 or min(min(line) for line in lines) < 0:
        raise Refused("lines begin at 0 and go up, and no cost is below 0", f"{path}.lines")
    return model.LinkCost(found.source, latency, bandwidth, lines)


def _forecast(found: shape.Forecast, path: str) -> model.Forecast:
    return model.Forecast(found.algorithm, found.devices, _metrics(found.metrics, path))


def _payoff(found: shape.Payoff, path: str) -> model.Payoff:
    metrics = _metrics(found.metrics, path)
    return model.Payoff(found.algorithm, metrics, found.pays, found.best_devices)


def _cell(found: shape.Cell, path: str) -> model.Cell:
    """Return a cell as its text says; what else was written of it must be the same."""
    if float(found.text.partition("+")[0]) <= 0.0:
        raise Refused("training takes a time", f"{path}.text")
    about = (found.network, found.devices, found.text, found.batch, found.examples, found.bytes)
    cell = tables.cell(*about)
    told = (cell.row, cell.train, cell.comm, cell.nbytes)
    if told != (found.row, found.train_s, found.comm_s, found.bytes):
        raise Refused("it is not what its text says", path)
    return replace(cell, metrics=_metrics(found.metrics, path), flags=found.flags)


def _left_out(found: shape.LeftOut) -> model.LeftOut:
    exchanged = (model.Exchanged(e.devices, e.predicted_s, e.measured_s) for e in found.exchanges)
    bandwidth = math.inf if found.bandwidth is None else found.bandwidth
    return model.LeftOut(found.row, found.fixed_s, bandwidth, tuple(exchanged))


def _other_link(found: shape.OtherLink) -> model.OtherLink:
    return model.OtherLink(found.devices, found.ratio, found.bandwidth)


def _metrics(found: Mapping[shape.Foreseen, shape.Figure], path: str) -> dict[str, model.Estimate]:
    return {
        name: _estimate(figure, _UNITS[name], f"{path}.metrics.{name}")
        for name, figure in found.items()
    }


def _estimate(found: shape.Figure, unit: str, path: str) -> model.Estimate:
    if found.unit != unit:
        raise Refused(f'the unit is "{unit}", not "{found.unit}"', f"{path}.unit")
    figure = estimate(found, path)
    if not (figure.low if figure.has_interval else figure.value) >= 0.0:
        raise Refused("it is never below 0", path)
    return figure


def _same(written: Any, again: Any, path: str) -> None:
    if not _alike(asdict(written), asdict(again)):
        raise Refused("its figures do not follow from the rest", path)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two trees are the same but for rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_ROUNDING)
    return bool(one == other)
