"""The paper of all charts: matplotlib, with our colours, and lengths in pixels.

Colours are stand-ins here: `svg` makes of each the variable of the page that is named after it, so
that a picture follows the reader's scheme. Text stays text, in the page's font.
"""

from __future__ import annotations

import logging
import math
import warnings
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

from gpumap.extras import install
from gpumap.report.charts import INK, PAGE, RULE, SERIES, SOFT, Chart, ends, short, tidied, titled
from gpumap.text import label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpumap.model import Estimate

    Entry: TypeAlias = tuple[str, str, str]  # of a legend: its colour, its word, its sign
    # Above a row: its name, short and whole; on the right what it comes to.
    Label: TypeAlias = tuple[str, str, str]

WIDTH = 440.0  # pixels; a phone shows it a fifth smaller
TEXT, SMALL = 12.0, 11.0  # pixels
LINE = 18.0  # pixels from one line of text to the next
EDGE = 4.0  # pixels left of everything
BOTTOM = 26.0  # pixels below rows
_BASE = 13.0  # pixels from the top of a row to the line that its texts stand on
_SIGN = 16.0  # pixels that a sign of a legend takes, with the blank behind it
_SIGNS: dict[str, tuple[float, Any]] = {
    "patch": (10.0, "-"),
    "hollow": (10.0, "-"),
    "line": (2.0, "-"),
    "ideal": (1.5, (0, (2, 1.5))),
}  # how thick, and of which dashes
_TICKS = 6  # of an axis
_FEW = 3  # powers of ten: then 2 and 5 have ticks too
_BAR = 0.32  # of a row: how high a bar is
_DOTS = 72  # to the inch: so that a pixel is matplotlib's point
_WORDS = 46  # columns of a text in a legend or above a row
_CHARACTER = 6.3  # pixels, about; a legend is broken by it
_SETTINGS = {
    "font.size": TEXT,
    "svg.fonttype": "none",  # text as text
    "svg.hashsalt": "gpumap",  # the same ids each time
    "text.parse_math": False,  # a $ is a $
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": SOFT,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "grid.color": RULE,
    "grid.linewidth": 1.0,
    "path.simplify": False,  # it would take points of no length for nothing
}


def missing() -> str | None:
    """Return what is to be done before charts can be drawn; None: nothing.

    What matplotlib logs about its fonts is left out.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        import matplotlib.figure  # noqa: F401 - not only found: it may lack what it needs
    except ImportError:
        return f"which is not installed: {install('report')}"
    except Exception as error:  # noqa: BLE001 - it reads settings, and raises whatever they cause
        text = label(f"{type(error).__name__}: {error}", 160)
        return f"which does not start: fix its settings (MPLBACKEND, matplotlibrc): {text}"
    finally:
        log.setLevel(level)
    return None


def picture(chart: Chart, name: str) -> str:
    """Return a chart as one line of SVG; `name` begins each id in it."""
    from matplotlib.figure import Figure

    with _settings():
        figure = Figure((WIDTH / _DOTS, chart.height / _DOTS), dpi=_DOTS)
        chart.draw(figure)
        stream = StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return tidied(stream.getvalue(), name)


@contextmanager
def _settings() -> Iterator[None]:
    """Let matplotlib know our settings alone, none of the user's; hide its warnings of fonts."""
    import matplotlib as mpl

    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def axes(
    figure: Figure, top: float, height: float, left: float = EDGE, right: float = EDGE
) -> Axes:
    """Return axes at a place that is given in pixels; only its lower edge is drawn."""
    whole = figure.get_figheight() * _DOTS
    place = (left / WIDTH, 1 - (top + height) / whole, (WIDTH - left - right) / WIDTH,
             height / whole)  # fmt: skip
    found: Axes = figure.add_axes(place)
    for side in ("left", "top", "right"):
        found.spines[side].set_visible(False)
    found.tick_params(length=0, pad=5)
    found.minorticks_off()
    found.set_axisbelow(True)
    return found


def rows(figure: Figure, top: float, count: int, height: float) -> Axes:
    """Return axes of `count` rows, the first one above, a row being 1.0 high."""
    found = axes(figure, top, count * height, right=12.0)
    found.set_ylim(count, 0)
    found.set_yticks([])
    found.grid(visible=True, axis="x")
    return found


def listing(
    title: str,
    lines: Sequence[str],
    entries: Sequence[Entry],
    texts: Sequence[Label],
    high: float,
    draw: Callable[[Axes], None],
) -> Chart:
    """Return a chart of rows below a legend, which `draw` fills: a row begins with its texts."""
    height = legend_height(entries) + high * len(texts) + BOTTOM
    return Chart(
        title, tuple(lines), height, lambda figure: draw(labelled(figure, entries, texts, high))
    )


def labelled(figure: Figure, entries: Sequence[Entry], texts: Sequence[Label], high: float) -> Axes:
    """Write a legend and the texts of rows below it; return the axes of the rows."""
    legend(figure, entries)
    top = legend_height(entries)
    found = rows(figure, top, len(texts), high)
    for place, (text, whole, value) in enumerate(texts):
        y = top + place * high + _BASE
        write(figure, EDGE, y, text, title=whole)
        write(figure, WIDTH - 12, y, value, ha="right")
    return found


def ticks(axis: Any, places: Sequence[float], labels: Sequence[str]) -> None:
    """Set the ticks of an axis, and no others."""
    axis.set_ticks(list(places), list(labels))
    axis.set_ticks([], minor=True)


def inside(axis: Any) -> None:
    """Let the first label of an axis not stand out of the picture."""
    axis.get_ticklabels()[0].set_horizontalalignment("left")


def decades(axis: Any, low: float, high: float, unit: str) -> None:
    """Set ticks at powers of ten, no more of them than can be read."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / _TICKS))
    places = [10.0**power for power in range(first, last + 1, step)]
    if len(places) < _FEW:
        every = (m * 10.0**power for power in range(first - 1, last + 1) for m in (1, 2, 5))
        places = [place for place in every if low <= place <= high]
    ticks(axis, places, [short(place, unit) for place in places])


def write(
    figure: Figure, x: float, y: float, text: str, color: str = INK, *, title: str = "", **how: Any
) -> None:
    """Write a text at a place in pixels from the upper left corner, over any line there.

    One that is cut off, or short for `title`, shows the whole when it is pointed at.
    """
    whole = figure.get_figheight() * _DOTS
    shown, title = label(text, _WORDS), titled(title or text)
    how |= {"bbox": {"facecolor": PAGE, "edgecolor": "none", "pad": 1.0}, "va": "baseline"}
    found = figure.text(x / WIDTH, 1 - y / whole, shown, color=color, **how)
    if titled(shown) != title:
        found.set_gid(title)


def bar(axes: Axes, at: float, figure: Estimate, high: float) -> None:
    """Draw a figure as a bar from zero, its interval on it.

    It is hollow without an interval, and has an arrow where the axis ends before it.
    """
    how: dict[str, Any] = {"color": SERIES[0], "alpha": 0.85}
    if not figure.has_interval:
        how = {"facecolor": "none", "edgecolor": SERIES[0], "linewidth": 1.5}
    axes.barh(at, min(figure.value, high), _BAR, **how)
    whisker(axes, at, figure, (0.0, high))


def whisker(axes: Axes, at: float, figure: Estimate, span: tuple[float, float]) -> None:
    """Draw an interval across, where there is one; an arrow stands for an end beyond the axis."""
    if figure.has_interval:
        first, last = (min(max(end, span[0]), span[1]) for end in ends(figure))
        axes.plot([first, last], [at, at], color=INK, linewidth=1.5, solid_capstyle="butt")
        for end, place in zip(ends(figure), (first, last), strict=True):
            if place == end:
                axes.plot([place, place], [at - 0.08, at + 0.08], color=INK, linewidth=1.5)
    for sign, edge in zip("<>", _cut(figure, span), strict=True):
        if edge is not None:
            axes.plot([edge], [at], sign, color=INK, markersize=6, clip_on=False)


def _cut(figure: Estimate, span: tuple[float, float]) -> tuple[float | None, float | None]:
    """Return the ends of an axis that a figure goes on behind."""
    low, high = ends(figure)
    return span[0] if low < span[0] else None, span[1] if high > span[1] else None


def dot(axes: Axes, at: float, figure: Estimate, span: tuple[float, float], color: str) -> None:
    """Draw a figure upright, a dot on its interval: hollow without one.

    An arrow is at the edge of the axis where either goes on, with the value of a figure.
    """
    if figure.has_interval:
        low, high = (min(max(end, span[0]), span[1]) for end in ends(figure))
        axes.plot([at, at], [low, high], color=color, linewidth=1.5)
    for sign, edge, near in zip("v^", _cut(figure, span), (2, -8), strict=True):
        if edge is not None:
            axes.plot([at], [edge], sign, color=color, markersize=5, clip_on=False)
            if not span[0] <= figure.value <= span[1]:
                value = short(figure.value, figure.unit)
                axes.annotate(value, (at, edge), (-6, near), textcoords="offset points",
                              ha="right", color=INK)  # fmt: skip
    if span[0] <= figure.value <= span[1]:
        face = color if figure.has_interval else "none"
        axes.plot([at], [figure.value], "o", color=color, markersize=5, markerfacecolor=face)


def legend(figure: Figure, entries: Sequence[Entry]) -> None:
    """Write a legend, each word behind its sign, in as many lines as it takes."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    whole = figure.get_figheight() * _DOTS
    for (color, text, kind), (x, y) in zip(entries, _places(entries), strict=True):
        middle = 1 - (y + 7.5) / whole
        line = ([(x + 5) / WIDTH] * 2, [middle - 6 / whole, middle + 6 / whole])
        if kind != "ideal":
            line = ([x / WIDTH, (x + 10) / WIDTH], [middle, middle])
        thick, dashes = _SIGNS[kind]
        if kind == "hollow":
            corner = (x + 1) / WIDTH, middle - 4 / whole
            sign: Artist = Rectangle(corner, 8 / WIDTH, 8 / whole, fill=False, edgecolor=color)
        else:
            sign = Line2D(*line, color=color, linewidth=thick, linestyle=dashes,
                          solid_capstyle="butt")  # fmt: skip
        figure.add_artist(sign)
        write(figure, x + _SIGN, y + 11.5, text, SOFT, fontsize=SMALL)


def legend_height(entries: Sequence[Entry]) -> float:
    """Return how high a legend is."""
    return max((y for _, y in _places(entries)), default=-LINE) + LINE + 4.0


def _places(entries: Sequence[Entry]) -> Iterator[tuple[float, float]]:
    """Yield where each entry begins."""
    x, y = 0.0, 0.0
    for _, text, _ in entries:
        needed = _SIGN + min(len(text), _WORDS) * _CHARACTER
        if x > 0.0 and x + needed > WIDTH - EDGE:
            x, y = 0.0, y + LINE
        yield x + EDGE, y
        x += needed + _SIGN
