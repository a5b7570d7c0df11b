"""Charts: what is to be drawn; matplotlib draws it as SVG.

Text stays text, in the page's font. What is black takes the colour of the page's text; the other
colours stand out from a bright ground and from a dark one: so a chart follows its reader's scheme.
"""

from __future__ import annotations

import logging
import re
import warnings
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from gpumap.model import Estimate

COLORS = ("#3f7fc4", "#c2651b", "#3a8f5c", "#9163b8", "#cc4f58", "#74808c")
WIDTH = 400.0  # pixels; a phone shows it a tenth smaller
LINE = 18.0  # pixels from one line of text to the next
_DOTS = 72  # to the inch: so that a pixel is matplotlib's point
_LARGEST, _SMALLEST = 1e30, 1e-30  # beyond, a file was edited: no chart has room for it
_HALF = 23  # characters of a text in a legend: of no more there are two in a line
_FEW = 1000.0  # from one end of an axis to the other
_STYLE = files("gpumap.report") / "charts.mplstyle"
# What an SVG has that is a file of its own, and no part of a page.
_FILE = re.compile(r'^.*<svg[^>]*(viewBox="[^"]*")[^>]*>\s*<defs>\s*<style.*?</defs>', re.DOTALL)
_ID = re.compile(r'(?<=<g) id="[^"]*"')


class Chart(NamedTuple):
    """A picture to be drawn, `height` pixels high."""

    title: str
    height: float
    draw: Callable[[Figure], None]


def titled(title: str, most: int, count: int) -> str:
    """Return a title that says so where not all is drawn."""
    return title if count <= most else f"{title}; the first {most} of {count}, the tables have all"


def missing() -> str | None:
    """Return how to install what draws charts, where it is not there."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns of fonts and folders
    try:
        import matplotlib.figure  # noqa: F401 - not only found: it may lack what it needs
    except ImportError:
        return install("report")
    return None


def picture(chart: Chart, name: str) -> str:
    """Return a chart as one line of SVG, a part of a page; its ids are of its `name`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    stream = StringIO()
    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")  # of fonts
        mpl.rc_file(str(_STYLE))  # none of the user's settings
        mpl.rcParams["svg.hashsalt"] = name
        figure = Figure((WIDTH / _DOTS, chart.height / _DOTS), _DOTS, layout="constrained")
        chart.draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=nothing)
    svg = _ID.sub("", _FILE.sub(r"<svg \1>", stream.getvalue(), count=1))
    svg = svg.replace("<use xlink:", "<use ").replace(": #000000", ": currentColor")
    return svg.replace("\n", " ").strip()


def drawable(*figures: Estimate | None) -> bool:
    """Return whether figures have a place on an axis: above zero, and of this world."""
    return all(f and _SMALLEST < f.value < _LARGEST for f in figures)


def ends(figure: Estimate) -> tuple[float, float]:
    """Return how far an interval goes below and above its figure; not at all without one."""
    if not figure.has_interval:
        return 0.0, 0.0
    low, high = max(figure.low, figure.value / 100), min(figure.high, figure.value * 100)
    return figure.value - low, high - figure.value


def legend(figure: Figure) -> None:
    """Write what each sign means, above everything."""
    texts = [text for axes in figure.axes for text in axes.get_legend_handles_labels()[1]]
    columns = 1 if max(map(len, texts)) > _HALF else 2
    found = figure.legend(loc="outside upper left", frameon=False, ncols=columns)
    for sign in filter(None, found.legend_handles):
        sign.set_alpha(1.0)  # that of a line of no good fit, too


def amounts(axis: Axis, unit: str) -> None:
    """Let a logarithmic axis have powers of ten with their unit; of few of them, 2 and 5 too."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < _FEW else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: units.short(value, unit))
