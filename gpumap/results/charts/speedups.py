"""Charts of speed-ups: bars with their intervals, and what is ideal."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from gpumap.bench import registry
from gpumap.bench.registry import how, sizes
from gpumap.figures import estimate
from gpumap.report.charts import COLORS, LINE, Chart, drawable, ends, legend
from gpumap.results.cells import named, ratio
from gpumap.text import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import Case, Measurement, Report

_MOST = 12  # bars
_HIGH = 40.0  # pixels of a bar with its name
_FAR = 4.0  # times the median, or the number of devices: what is beyond is at the edge


def drawn(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark that has speed-ups: backends are side by side in it."""
    groups: dict[str, list[Measurement]] = {}
    for row in report.measurements:
        if registry.drawn(row.case) and drawable(row.metrics.get("speedup")):
            groups.setdefault(row.case.bench, []).append(row)
    for bench, group in groups.items():
        backends = {row.case.backend for row in group}
        of = f", {backends.pop()}" if len(backends) == 1 else ""
        yield _chart(f"Speed-up of {bench}{of}", _side_by_side(group))


def _side_by_side(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows, each beside those of the same case on other backends."""
    same = [(row.case.name, row.case.names, sorted(row.case.params.items())) for row in rows]
    order = sorted(range(len(rows)), key=lambda n: same.index(same[n]))
    return [rows[n] for n in order]


def _chart(title: str, group: Sequence[Measurement]) -> Chart:
    cases, rows = [row.case for row in group], group[:_MOST]
    lines = list(map(_text, rows, _names(cases, named)))
    if len(group) > _MOST:
        lines.append(f"the first {_MOST} of {len(group)} rows are drawn; the tables have all")
    draw = partial(_draw, rows, _names(cases, short))
    return Chart(title, tuple(lines), _HIGH * len(rows) + 4 * LINE, draw)


def _names(cases: Sequence[Case], names: Callable[[Case], str]) -> list[str]:
    """Return what tells each case from the others: parameters that are the same do not."""
    telling = [{"backend": case.backend, **sizes(case), **how(case)} for case in cases]
    same = set.intersection(*(set(each.items()) for each in telling))
    return [
        ", ".join((
            f"{case.name} on {names(case)}",
            *(f"{key} {value}" for key, value in each.items() if (key, value) not in same),
        ))
        for case, each in zip(cases, telling, strict=True)
    ]  # fmt: skip


def _text(row: Measurement, name: str) -> str:
    ideal = row.metrics.get("ideal")
    return f"{name}: {ratio(row, ())}{'' if ideal is None else f', ideal {estimate(ideal)}'}"


def _draw(rows: Sequence[Measurement], names: Sequence[str], figure: Figure) -> None:
    axes = figure.add_subplot()
    most = _reach(rows)
    axes.axvline(1.0, color="black", alpha=0.5, linewidth=1.0, label="as one device")
    ideals = {n: row.metrics["ideal"].value for n, row in enumerate(rows) if _has_ideal(row)}
    if ideals:
        first, last = ([n + way for n in ideals] for way in (-0.3, 0.3))
        axes.vlines([*ideals.values()], first, last, "black", "dotted", label="ideal here")
    _bars(axes, rows, most)
    for place, (row, name) in enumerate(zip(rows, names, strict=False)):
        how: dict[str, Any] = {"va": "bottom", "transform": axes.get_yaxis_transform()}
        axes.text(0.0, place - 0.26, name, **how)
        axes.text(1.0, place - 0.26, ratio(row, ()).partition(" ")[0], ha="right", **how)
    axes.set(xlim=(0.0, most * 1.1), ylim=(len(rows) - 0.6, -0.75), yticks=[])
    axes.locator_params("x", integer=True)
    axes.xaxis.set_major_formatter("{x:g}x")
    legend(figure)


def _has_ideal(row: Measurement) -> bool:
    return drawable(row.metrics.get("ideal"))


def _bars(axes: Axes, rows: Sequence[Measurement], most: float) -> None:
    """Draw each speed-up from zero: hollow without an interval, with an arrow if it goes beyond."""
    gains = {n: row.metrics["speedup"] for n, row in enumerate(rows)}
    solid = {n: gain for n, gain in gains.items() if gain.has_interval}
    few = {n: gain.value for n, gain in gains.items() if n not in solid}
    if solid:
        errors = list(zip(*map(ends, solid.values()), strict=True))
        axes.barh([*solid], [gain.value for gain in solid.values()], 0.36, xerr=errors, capsize=3.0,
                  color=COLORS[0], label="measured, with its interval")  # fmt: skip
    if few:
        axes.barh([*few], [*few.values()], 0.36, fill=False, edgecolor=COLORS[0],
                  label="under 6 samples")  # fmt: skip
    beyond = [n for n, gain in gains.items() if gain.value + ends(gain)[1] > most]
    if beyond:
        axes.plot([most * 1.1] * len(beyond), beyond, "k>", clip_on=False)


def _reach(rows: Sequence[Measurement]) -> float:
    """Return how far the axis goes: an outlier does not flatten the others."""
    gains = [row.metrics["speedup"] for row in rows]
    ideals = [row.metrics["ideal"].value for row in rows if _has_ideal(row)]
    devices = max(len(row.case.names) for row in rows)
    near = max(devices, _FAR * median(gain.value for gain in gains))
    whole = max(gain.value + ends(gain)[1] for gain in gains)
    return max(1.0, min(near, whole), *ideals)
