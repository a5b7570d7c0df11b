"""Charts of pairs of devices: a field for each, as dark as its bandwidth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.report.charts import COLORS, LINE, WIDTH, Chart, drawable
from gpumap.results import copies
from gpumap.results.rows import shown
from gpumap.text import label, middle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from gpumap.model import Measurement, Report
    from gpumap.results.copies import Pairs

_DARKEST = 0.5  # of the colour: text stays readable on it
_WIDE = 8  # devices; of more the fields need a smaller text
_NAME = 12  # characters
_MOST = 16  # names
_TURNED = 4  # names; of more those above stand upright
_TALLEST = 46.0  # pixels of a field


def drawn(report: Report) -> Iterator[Chart]:
    """Yield a chart for each matrix that has a table."""
    for _, title, _, every in copies.matrices(shown(report)):
        names = copies.paired(every)[:_MOST]
        pairs = {pair: row for pair, row in every.items() if {*pair} <= {*names}}
        if sum(_value(row) > 0.0 for row in pairs.values()) > 1:
            count = len(copies.paired(pairs))
            height = min(_TALLEST, WIDTH / count) * count + 5 * LINE
            unit, _ = copies.pair_cells(pairs)
            way = f"{unit} from the name at the left to that above"
            yield Chart(f"From {title}: {way}", height, partial(_draw, pairs))


def _value(row: Measurement) -> float:
    found = row.metrics.get("bandwidth")
    return found.value if found is not None and drawable(found) else 0.0


def _draw(pairs: Pairs, figure: Figure) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    names, (_, cells) = copies.paired(pairs), copies.pair_cells(pairs)
    axes, places = figure.add_subplot(), [n + 0.5 for n in range(len(names))]
    values = [[_shade(pairs.get((a, b))) for b in names] for a in names]
    ends = [to_rgba(COLORS[0], alpha) for alpha in (0.0, _DARKEST)]
    axes.pcolormesh(values, cmap=LinearSegmentedColormap.from_list("", ends), vmin=0.0)
    for (a, b), text in cells.items():
        axes.text(names.index(b) + 0.5, names.index(a) + 0.5, label(text, 9), ha="center",
                  va="center", fontsize=9.0 if len(names) > _WIDE else 11.0)  # fmt: skip
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    short = [middle(name, _NAME) for name in names]
    axes.set_xticks(places, short, rotation="vertical" if len(names) > _TURNED else "horizontal")
    axes.set_yticks(places, short)
    axes.tick_params(length=0.0)
    axes.spines[:].set_visible(False)


def _shade(row: Measurement | None) -> float:
    """Return what a field's colour stands for; nothing of a figure without an interval."""
    return 0.0 if row is None or not row.metrics["bandwidth"].has_interval else _value(row)
