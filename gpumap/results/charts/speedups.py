"""Charts of speed-ups: bars with their intervals, and what is ideal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.bench.registry import how, sizes
from gpumap.report.charts import COLORS, LINE, Chart, drawable, ends, legend, titled
from gpumap.results.cells import ratio
from gpumap.text import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import Case, Measurement, Report

_MOST = 12  # bars
_HIGH = 40.0  # pixels of a bar with its name


def drawn(report: Report) -> Iterator[Chart]:
    """Yield a chart for each benchmark that has speed-ups: backends are side by side in it."""
    groups: dict[str, list[Measurement]] = {}
    for row in report.measurements:
        if drawable(row.metrics.get("speedup")):
            groups.setdefault(row.case.bench, []).append(row)
    for bench, group in groups.items():
        backends = {row.case.backend for row in group}
        of = f", {backends.pop()}" if len(backends) == 1 else ""
        ordered = _side_by_side(group)
        draw = partial(_draw, ordered[:_MOST], _names([row.case for row in ordered]))
        title = titled(f"Speed-up of {bench}{of}", _MOST, len(ordered))
        yield Chart(title, _HIGH * min(len(ordered), _MOST) + 4 * LINE, draw)


def _side_by_side(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows, each beside those of the same case on other backends."""
    same = [(row.case.name, row.case.names, sorted(row.case.params.items())) for row in rows]
    order = sorted(range(len(rows)), key=lambda n: same.index(same[n]))
    return [rows[n] for n in order]


def _names(cases: Sequence[Case]) -> list[str]:
    """Return what tells each case from the others: parameters that are the same do not."""
    telling = [{"backend": case.backend, **sizes(case), **how(case)} for case in cases]
    same = set.intersection(*(set(each.items()) for each in telling))
    return [
        ", ".join((
            f"{case.name} on {short(case)}",
            *(f"{key} {value}" for key, value in each.items() if (key, value) not in same),
        ))
        for case, each in zip(cases, telling, strict=True)
    ]  # fmt: skip


def _draw(rows: Sequence[Measurement], names: Sequence[str], figure: Figure) -> None:
    axes = figure.add_subplot()
    known = [row.metrics.get("ideal") for row in rows]
    ideals = {n: ideal.value for n, ideal in enumerate(known) if ideal and drawable(ideal)}
    most = max(1.0, *(row.metrics["speedup"].value for row in rows), *ideals.values())
    axes.axvline(1.0, color="black", alpha=0.5, linewidth=1.0, label="as one device")
    if ideals:
        first, last = ([n + way for n in ideals] for way in (-0.3, 0.3))
        axes.vlines([*ideals.values()], first, last, "black", "dotted", label="ideal here")
    _bars(axes, rows)
    for place, (row, name) in enumerate(zip(rows, names, strict=False)):
        how: dict[str, Any] = {"va": "bottom", "transform": axes.get_yaxis_transform()}
        axes.text(0.0, place - 0.26, name, **how)
        axes.text(1.0, place - 0.26, ratio(row, ()).partition(" ")[0], ha="right", **how)
    axes.set(xlim=(0.0, most * 1.1), ylim=(len(rows) - 0.6, -0.75), yticks=[])
    axes.locator_params("x", integer=True)
    axes.xaxis.set_major_formatter("{x:g}x")
    legend(figure)


def _bars(axes: Axes, rows: Sequence[Measurement]) -> None:
    """Draw each speed-up from zero: hollow without an interval."""
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
