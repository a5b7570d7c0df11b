"""A report as one page of HTML that needs nothing else: no network, no other file.

The answer comes first, then charts, tables and the machine. The templates beside this file escape
every text; their output is XML too, so that a test can check that each element is closed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from shlex import join
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from gpumap.escape import printable
from gpumap.report.charts import Chart, missing, picture
from gpumap.report.diagnostics import folded, more, place, remedy
from gpumap.report.parts import Shown, Text, tone
from gpumap.units import counted
from gpumap.version import __version__

if TYPE_CHECKING:
    from gpumap.report import Style
    from gpumap.report.table import Table

_COLORS = {"good": "good", "below": "unclear", "untrusted": "unclear", "failed": "bad"}
_ELSEWHERE = ("verdicts", "map", "aside")  # notes say the last in other words
_PLACES = {  # sections in their order on a page, and their headings
    "diagnoses": "Diagnoses",
    "devices": "Devices",
    "plan": "Plan",
    "tables": "Tables",
    "method": "How it was measured",
}
_LONG = 48  # characters: longer texts may be broken into lines


def color(shown: Shown) -> str:
    """Return the class of the banner: the headline's, but red where the run failed."""
    failed = shown.outcome.state == "failed" and shown.report.status != "inconclusive"
    return _COLORS["failed" if failed else shown.headline.level]


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as a page in ASCII: it is the same in whatever encoding it is written."""
    found: dict[str, list[Text | Table]] = {name: [] for name in (*_PLACES, *_ELSEWHERE)}
    for section in shown.sections(False):  # noqa: FBT003 - not all of it
        found[section.name] += section.parts
    charts = list(shown.charts())
    page = _environment().get_template("report.html.j2")
    text: str = page.render(
        charts=charts,
        missing=missing() if charts else None,
        shown=shown,
        command=join(shown.report.argv),
        color=color(shown),
        found=found,
        places=_PLACES,
    )
    return text.encode("ascii", "xmlcharrefreplace").decode()


@cache
def _environment() -> Environment:
    """Return the templates: each text that they show is printable, and then escaped."""
    found = Environment(
        autoescape=True,
        finalize=lambda text: printable(text) if type(text) is str else text,
        keep_trailing_newline=True,
        loader=FunctionLoader(_part),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    found.globals |= {
        "css": Markup(_part("page.css")),  # noqa: S704 - a file of ours
        "counted": counted,
        "place": place,
        "folded": folded,
        "more": more,
        "remedy": remedy,
        "version": __version__,
    }
    found.filters |= {"classes": _classes, "picture": _picture, "tone": tone}
    return found


def _part(name: str) -> str:
    """Return a file beside this one."""
    return files("gpumap.report.html").joinpath(name).read_text(encoding="utf-8")


def _classes(table: Table) -> list[str]:
    """Return the class of each column: figures are on the right, long texts in several lines."""
    long = {n for row in table.rows for n, cell in enumerate(row) if len(cell) > _LONG}
    places = {n: "long" if n in long else "" for n in range(len(table.columns))}
    return ["n" if table.columns[n] in table.right else word for n, word in places.items()]


def _picture(chart: Chart, number: int) -> Markup:
    opening = Markup('<svg role="img" aria-label="{}" ').format(printable(chart.title))
    svg = picture(chart, f"chart-{number}").removeprefix("<svg ")
    return opening + Markup(svg)  # noqa: S704 - XML of matplotlib, which escapes each text
