"""Reports as text: one file per format, each `render(shown, style)`; nothing is computed.

A format with a dash is one function of a file: `gab-bigger` is `bigger` in `gab`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gpumap.report.parts import Shown

FORMATS = (
    "plain", "rich", "json", "csv", "markdown", "junit", "github", "html",
    "gab-bigger", "gab-smaller", "bmf", "openmetrics",
)  # fmt: skip
SUFFIXES = {
    ".txt": "plain", ".json": "json", ".csv": "csv", ".md": "markdown", ".xml": "junit",
    ".html": "html", ".prom": "openmetrics",
}  # fmt: skip


class Style(NamedTuple):
    """How wide a text may be, whether it may have colours, and how much.

    `verbose`: tables with every row and column, as wide as they come.
    """

    width: int = 80
    color: bool = False
    verbose: bool = False


def render(format_: str, shown: Shown, style: Style) -> str:
    """Return a report in one of FORMATS but JSON, ending in a line break unless it is empty."""
    file, _, function = format_.partition("-")
    found = import_module(f"gpumap.report.{file}")
    text: str = getattr(found, function or "render")(shown, style)
    return text
