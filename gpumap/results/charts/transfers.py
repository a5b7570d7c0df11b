"""Charts of copies and exchanges: what each size takes, its model, and pairs of devices."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.cost_models import fit_id
from gpumap.bench.keys import BreakEvenKey, SizedKey
from gpumap.bench.registry import key
from gpumap.figures import estimate
from gpumap.report.charts import INK, RULE, SERIES, SOFT, Chart, drawable, ends, paper, short
from gpumap.results import copies
from gpumap.results.cells import named
from gpumap.results.rows import shown
from gpumap.text import label, middle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import BreakEven, Case, Estimate, Fit, Measurement, Report

    Points = Sequence[tuple[float, Estimate]]
    from gpumap.results.copies import Pairs

_CURVES = len(SERIES)
_PAYING = 6  # break-evens of a chart
_HIGH, _ROW, _BELOW, _BOTTOM = 230.0, 36.0, 46.0, 8.0  # pixels
_LEFT = 52.0
_PARTS = 48  # of a curve
_FAR = 3.0  # times the extreme times: an interval that goes on is cut off
_ROOM = 1.6  # times the largest and smallest that axes reach
_ON = 1.5  # times the largest size that was looked at: a device that won there goes on
_BESIDE = 1.1  # times a size: from one curve to the next


def transfer(report: Report) -> Iterator[Chart]:
    """Yield a chart for each backend and names that have models; decisions are below the first."""
    points = _points(report.measurements)
    groups: dict[tuple[str, ...], list[Fit]] = {}
    for fit in report.fits:
        case = fit.case
        if points.get(fit.id):
            groups.setdefault((case.bench, case.backend, named(case)), []).append(fit)
    for (bench, backend, names), fits in groups.items():
        pays = [
            one
            for one in report.break_evens
            if (one.case.backend, named(one.case)) == (backend, names) and one.decided
        ]
        title = f"Time of {bench} by size on {names}, {backend}"
        yield _chart(title, fits, points, pays)


def _points(rows: Sequence[Measurement]) -> dict[str, list[tuple[float, Estimate]]]:
    """Return what each size of a kind of copy took, one at a time."""
    found: dict[str, list[tuple[float, Estimate]]] = {}
    for row in rows:
        size, time = key(row.case), row.metrics.get("time")
        if isinstance(size, SizedKey) and size.alone and time is not None and drawable(time):
            found.setdefault(fit_id(row.case), []).append((float(size.bytes), time))
    return {id_: sorted(points, key=lambda point: point[0]) for id_, points in found.items()}


def _chart(
    title: str,
    fits: Sequence[Fit],
    points: dict[str, list[tuple[float, Estimate]]],
    pays: Sequence[BreakEven],
) -> Chart:
    shown, paying = fits[:_CURVES], pays[:_PAYING]
    lines = [_model_text(fit) for fit in shown] + [_break_even_text(one) for one in paying]
    if len(fits) > len(shown) or len(pays) > len(paying):
        lines.append("what is not drawn is in the tables")
    curves = [(fit, points[fit.id]) for fit in shown]
    height = _head(shown) + _HIGH + _BELOW + (_ROW * len(paying)) + _BOTTOM
    return Chart(title, tuple(lines), height, partial(_draw, curves, paying))


def _head(fits: Sequence[Fit]) -> float:
    return paper.legend_height(_legend(fits)) + 4.0


def _legend(fits: Sequence[Fit]) -> list[paper.Entry]:
    found = [(SERIES[n], _word(fit.case), "line") for n, fit in enumerate(fits)]
    halves = any(drawable(fit.metrics.get("n_half")) for fit in fits)
    return [*found, *([(INK, "half the bandwidth at", "ideal")] if halves else [])]


def _word(case: Case) -> str:
    sized = key(case)
    return " ".join((case.name, *(sized.way if isinstance(sized, SizedKey) else ())))


def _model_text(fit: Fit) -> str:
    if not fit.fits:
        return f"{_word(fit.case)}: no model fits; the line is the nearest one"
    figures = fit.metrics
    return (
        f"{_word(fit.case)}: latency {estimate(figures.get('latency'))}, bandwidth "
        f"{estimate(figures.get('peak_bandwidth'))}, n1/2 at {estimate(figures.get('n_half'))}"
    )


def _break_even_text(one: BreakEven) -> str:
    """Return within which sizes a device was faster."""
    ranges = [
        f"from {short(a, 'B')} on" if b is None else f"from {short(a, 'B')} to {short(b, 'B')}"
        for a, b in one.wins
    ]
    found = "; ".join(ranges) or "for no size"
    return f"{_what(one)} is faster {found}, of those up to {short(one.measured_to, 'B')}"


def _what(one: BreakEven) -> str:
    place = "x resident" if BreakEvenKey.of(one.case).resident else "x moved"
    return f"{one.workload}, {place}"


def _draw(curves: Sequence[tuple[Fit, Points]], pays: Sequence[BreakEven], figure: Figure) -> None:
    fits = [fit for fit, _ in curves]
    paper.legend(figure, _legend(fits))
    head = _head(fits)
    axes = paper.axes(figure, head, _HIGH, left=_LEFT, right=12.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(visible=True)
    sizes, times = _reach(curves, pays)
    for n, (fit, points) in enumerate(curves):
        beside = _BESIDE ** (n - (len(curves) - 1) / 2)  # so that intervals do not hide each other
        _curve(axes, fit, points, beside, times, SERIES[n])
    axes.set_xlim(*sizes)
    axes.set_ylim(*times)
    paper.decades(axes.xaxis, *sizes, "B")
    paper.decades(axes.yaxis, *times, "s")
    paper.write(figure, paper.WIDTH - 12, head + _HIGH + 36, "bytes", ha="right")
    if pays:
        below = paper.rows(figure, head + _HIGH + _BELOW, len(pays), _ROW)
        place = below.get_position()
        below.set_position((_LEFT / paper.WIDTH, place.y0, axes.get_position().width, place.height))
        below.set_xscale("log")
        below.set_xlim(*sizes)
        paper.ticks(below.xaxis, [], [])
        below.spines["bottom"].set_visible(False)
        for row, one in enumerate(pays):
            _decision(below, row, one, sizes)
            top = head + _HIGH + _BELOW + row * _ROW + 12
            paper.write(figure, _LEFT, top, f"{_what(one)}: faster")


def _reach(
    curves: Sequence[tuple[Fit, Points]], pays: Sequence[BreakEven]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return how far the axes go."""
    sizes = [size for _, points in curves for size, _ in points]
    sizes += [float(first) for one in pays for first, _ in one.wins if first > 0]
    sizes += [one.measured_to * _ON for one in pays if one.measured_to > 0]
    times = [time.value for _, points in curves for _, time in points]
    every = [end for _, points in curves for _, time in points for end in ends(time)]
    low, high = max(min(every), min(times) / _FAR), min(max(every), max(times) * _FAR)
    return (min(sizes) / _ROOM, max(sizes) * _ROOM), (low / _ROOM, high * _ROOM)


def _curve(
    axes: Axes, fit: Fit, points: Points, beside: float, span: tuple[float, float], color: str
) -> None:
    for size, time in points:
        paper.dot(axes, size * beside, time, span, color)
    sizes = [size for size, _ in points]
    places, times = _line(fit, min(sizes), max(sizes))
    axes.plot(places, times, color=color, linewidth=1.5, alpha=0.75 if fit.fits else 0.35)
    half = fit.metrics.get("n_half")
    if half is not None and drawable(half):
        axes.axvspan(*ends(half), color=color, alpha=0.12, linewidth=0)
        axes.axvline(half.value, color=color, linewidth=1.5, linestyle=(0, (2, 1.5)))


def _line(fit: Fit, low: float, high: float) -> tuple[list[float], list[float]]:
    """Return places of the model: each of its lines holds from its byte on."""
    if not low < high:
        return [], []
    step = (high / low) ** (1 / _PARTS)
    sizes = [low * step**n for n in range(_PARTS + 1)]
    found = []
    for size in sizes:
        begun = [line for line in fit.lines if line.start <= size] or list(fit.lines[:1])
        time = begun[-1].seconds(size) if begun else math.nan
        found.append((size, time if time > 0.0 else math.nan))
    return [size for size, _ in found], [time for _, time in found]


def _decision(axes: Axes, row: int, one: BreakEven, sizes: tuple[float, float]) -> None:
    """Draw where it pays as a thick line, and how far was looked as a thin one."""
    y, last = row + 0.62, min(float(one.measured_to), sizes[1])
    axes.plot([sizes[0], last], [y, y], color=RULE, linewidth=6, solid_capstyle="butt")
    for first, end in one.wins:
        until = min(last * _ON, sizes[1]) if end is None else min(float(end), last)
        axes.plot([first, until], [y, y], color=SERIES[2], linewidth=6, solid_capstyle="butt")
    found = one.metrics.get("break_even")
    if found is not None and drawable(found):
        low, high = ends(found)
        axes.plot([low, high], [y, y], color=INK, linewidth=1.5, solid_capstyle="butt")
        for place, reach in ((low, 0.09), (high, 0.09), (found.value, 0.17)):
            axes.plot([place, place], [y - reach, y + reach], color=INK, linewidth=1.5)


_NAMES_LEFT, _TOP, _UPRIGHT = 92.0, 24.0, 94.0  # pixels
_TALLEST = 46.0  # pixels of a row
_DARKEST = 0.5  # of the colour: text stays readable on it
_WIDE = 8  # devices; of more the figures need a smaller text, without route and decimals
_NAME = 12  # characters: upright they have room
_PLAIN = 10.0  # from here on a short figure needs no decimals
_TURNED = 5  # from here on names above stand upright


def matrix(report: Report) -> Iterator[Chart]:
    """Yield a chart for each matrix that has a table."""
    for title, pairs in copies.matrices(shown(report)):
        if sum(_value(row) > 0.0 for row in pairs.values()) > 1:
            yield _heat_map(f"From {title}", pairs)


def _heat_map(title: str, pairs: Pairs) -> Chart:
    names = copies.paired(pairs)
    side = _side(len(names))
    return Chart(title, tuple(_pair_text(pairs)), _above(names) + side * len(names) + 8.0,
                 partial(_draw_pairs, names, pairs))  # fmt: skip


def _side(count: int) -> float:
    return min(_TALLEST, (paper.WIDTH - _NAMES_LEFT - paper.EDGE) / count)


def _above(names: Sequence[str]) -> float:
    return _TOP if len(names) < _TURNED else _UPRIGHT


def _pair_text(pairs: Pairs) -> Iterator[str]:
    """Yield the ends of what was seen, and what is not seen in colours."""
    unit, _ = copies.pair_cells(pairs)
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


def _draw_pairs(names: Sequence[str], pairs: Pairs, figure: Figure) -> None:
    from matplotlib.patches import Rectangle

    side, count, above = _side(len(names)), len(names), _above(names)
    right = paper.EDGE
    axes = paper.axes(figure, above, side * count, left=_NAMES_LEFT, right=right)
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
    _, cells = copies.pair_cells(pairs)
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
    wide = (paper.WIDTH - _NAMES_LEFT - paper.EDGE) / len(names)
    turned = len(names) >= _TURNED
    for n, name in enumerate(names):
        short = middle(name, _NAME if turned or len(names) < _TURNED - 1 else _NAME - 3)
        paper.write(figure, _NAMES_LEFT - 8, above + side * (n + 0.5) + 4, short, SOFT, title=name,
                    ha="right", fontsize=paper.SMALL)  # fmt: skip
        how = {"rotation": 90, "ha": "center"} if turned else {"ha": "center"}
        above_it = short if turned else f"to {short}"
        paper.write(figure, _NAMES_LEFT + wide * (n + 0.5), above - 8, above_it, SOFT,
                    title=name if short != name else "", fontsize=paper.SMALL, **how)  # fmt: skip


def _shares(pairs: Pairs) -> dict[tuple[str, str], float]:
    """Return how far up between zero and the fastest each pair is."""
    values = {pair: _value(row) for pair, row in pairs.items() if _value(row) > 0.0}
    return {pair: value / max(values.values()) for pair, value in values.items()}


def _value(row: Measurement) -> float:
    found = row.metrics.get("bandwidth")
    return found.value if found is not None and drawable(found) else 0.0
