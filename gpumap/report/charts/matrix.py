"""Copies from device to device as a heat map: from no colour at zero to the fastest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.report import matrix
from gpumap.report.charts import paper
from gpumap.report.charts.chart import Chart, drawable
from gpumap.report.charts.svg import INK, SERIES, SOFT
from gpumap.report.rows import shown
from gpumap.report.table import estimate
from gpumap.text import label, middle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

    from gpumap.model import Measurement, Report
    from gpumap.report.matrix import Pairs

_LEFT, _TOP, _UPRIGHT = 92.0, 24.0, 94.0  # pixels
_TALLEST = 46.0  # pixels of a row
_DARKEST = 0.5  # of the colour: text stays readable on it
_WIDE = 8  # devices; of more the figures need a smaller text, without route and decimals
_NAME = 12  # characters: upright they have room
_PLAIN = 10.0  # from here on a short figure needs no decimals
_TURNED = 5  # from here on names above stand upright


def charts(report: Report) -> Iterator[Chart]:
    """Yield a chart for each matrix that has a table."""
    for title, pairs in matrix.matrices(shown(report)):
        if sum(_value(row) > 0.0 for row in pairs.values()) > 1:
            yield _chart(f"From {title}", pairs)


def _chart(title: str, pairs: Pairs) -> Chart:
    names = matrix.named(pairs)
    side = _side(len(names))
    return Chart(title, tuple(_told(pairs)), _above(names) + side * len(names) + 8.0,
                 partial(_draw, names, pairs))  # fmt: skip


def _side(count: int) -> float:
    return min(_TALLEST, (paper.WIDTH - _LEFT - paper.EDGE) / count)


def _above(names: Sequence[str]) -> float:
    return _TOP if len(names) < _TURNED else _UPRIGHT


def _told(pairs: Pairs) -> Iterator[str]:
    """Yield the ends of what was seen, and what is not seen in colours."""
    unit, _ = matrix.cells(pairs)
    way = "from the name at the left to that above"
    yield f"in the fields: {unit}, {way}; the colour goes from none at zero to the fastest"
    known = {p: r for p, r in pairs.items() if drawable(r.metrics.get("bandwidth"))}
    order = sorted(known, key=lambda pair: known[pair].metrics["bandwidth"].value)
    for word, (a, b) in (("slowest", order[0]), ("fastest", order[-1])):
        yield f"{word}: {a} to {b}, {estimate(known[a, b].metrics['bandwidth'])}"
    routes = sorted({row.route for row in known.values() if row.route})
    if routes:
        yield f"routes: {', '.join(routes)}"
    if len(known) < len(pairs):
        yield f"{len(pairs) - len(known)} pairs have no figure: see the tables"


def _draw(names: Sequence[str], pairs: Pairs, figure: Figure) -> None:
    from matplotlib.patches import Rectangle

    side, count, above = _side(len(names)), len(names), _above(names)
    right = paper.EDGE
    axes = paper.axes(figure, above, side * count, left=_LEFT, right=right)
    axes.set_xlim(0, count)
    axes.set_ylim(count, 0)
    axes.axis("off")
    for pair, share in _shares(pairs).items():
        hollow = not pairs[pair].metrics["bandwidth"].has_interval
        x, y = names.index(pair[1]), names.index(pair[0])
        axes.add_patch(
            Rectangle((x + 0.03, y + 0.03), 0.94, 0.94, facecolor=SERIES[0],
                      alpha=_DARKEST * share, edgecolor="none", fill=not hollow)
        )  # fmt: skip
    small = 9.0 if count > _WIDE else paper.SMALL
    _, cells = matrix.cells(pairs)
    mixed = len({row.route for row in pairs.values()}) > 1  # else the text beside it has the route
    for (a, b), cell in cells.items():
        text = _field(cell if mixed else cell.rstrip("PS="), count)
        place = names.index(b) + 0.5, names.index(a) + 0.5
        axes.text(*place, text, color=INK, ha="center", va="center", fontsize=small)
    _heads(figure, names, side, above)


def _field(text: str, count: int) -> str:
    """Return the text of a field: shorter, where there are many."""
    number = text.rstrip("PS=")
    if count <= _WIDE or not number.replace(".", "", 1).isdigit():
        return label(text, 9)
    return f"{float(number):.0f}" if float(number) >= _PLAIN else number


def _heads(figure: Figure, names: Sequence[str], side: float, above: float) -> None:
    wide = (paper.WIDTH - _LEFT - paper.EDGE) / len(names)
    turned = len(names) >= _TURNED
    for n, name in enumerate(names):
        short = middle(name, _NAME if turned or len(names) < _TURNED - 1 else _NAME - 3)
        paper.write(figure, _LEFT - 8, above + side * (n + 0.5) + 4, short, SOFT, title=name,
                    ha="right", fontsize=paper.SMALL)  # fmt: skip
        how = {"rotation": 90, "ha": "center"} if turned else {"ha": "center"}
        above_it = short if turned else f"to {short}"
        paper.write(figure, _LEFT + wide * (n + 0.5), above - 8, above_it, SOFT,
                    title=name if short != name else "", fontsize=paper.SMALL, **how)  # fmt: skip


def _shares(pairs: Pairs) -> dict[tuple[str, str], float]:
    """Return how far up between zero and the fastest each pair is."""
    values = {pair: _value(row) for pair, row in pairs.items() if _value(row) > 0.0}
    return {pair: value / max(values.values()) for pair, value in values.items()}


def _value(row: Measurement) -> float:
    found = row.metrics.get("bandwidth")
    return found.value if found is not None and drawable(found) else 0.0
