"""The complete form of a report: its keys are what scripts, limits and `compare` stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model.io import written

if TYPE_CHECKING:
    from gpumap.model import Report
    from gpumap.report import Style


def render(report: Report, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as JSON: objects indented, each list of plain values on one line."""
    return written(report)
