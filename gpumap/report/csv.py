"""A report as comma-separated values (RFC 4180), in long form: a line for each figure.

The columns are RECORD, one for each parameter (in the order of the alphabet), and FIGURE. `record`
tells what a line is of; its words are those of `gpumap.report.parts.Record`.

Numbers are in SI units and as exact as the report has them; what is no number is nan, inf or -inf,
what is not known is empty: both ends where there are too few samples for an interval, and a
ratio that was refused (its row has the flag `impossible`). Text is printable: a line break in it is
an escape. A spreadsheet runs what begins with = + - or @ as a formula, so such a text gets an
apostrophe before it, unless it is a number. Where the report itself holds a number, the cell is
never touched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.escape import printable

if TYPE_CHECKING:
    from gpumap.model import Estimate
    from gpumap.report import Style
    from gpumap.report.parts import Shown

RECORD = ("record", "id", "bench", "case", "names", "devices", "backend", "route")
FIGURE = ("status", "flags", "reason", "metric", "value", "low", "high", "unit", "n", "check",
          "simulated")  # fmt: skip
PARAMS = "params"  # of a record: what has columns of its own
_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"  # and what is read so where characters are full-width
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def render(shown: Shown, style: Style) -> str:  # noqa: ARG001 - every format takes a style
    """Return the report as CSV with a header, also where there is nothing to tell."""
    import csv
    import io

    records, simulated = list(shown.records()), shown.report.simulated
    keys = sorted({key for record in records for key in record.cells.get(PARAMS, {})})
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*RECORD, *keys, *FIGURE], restval="")
    writer.writeheader()
    for record in records:
        about = {**record.cells, **record.cells.get(PARAMS, {})}
        cells = {"record": record.kind, "id": record.id, **about, "simulated": simulated}
        for figure in map(_figure, record.figures.items()) if record.figures else ({},):
            line = cells | figure
            writer.writerow({key: cell(line[key]) for key in line if key != PARAMS})
    return stream.getvalue()


def _figure(item: tuple[str, Estimate]) -> dict[str, str | float | None]:
    """Return the cells of a metric; the value of one that is not known is empty."""
    name, figure = item
    known: dict[str, str | float | None] = {"metric": name, "unit": figure.unit}
    if not figure.impossible:
        known["value"] = figure.value
    if figure.has_interval:
        known |= {"low": figure.low, "high": figure.high}
    return known


def cell(value: str | float | bool | None) -> str:  # noqa: FBT001 - a cell's content
    """Return a number as exact as it is, a truth as true or false, None as nothing.

    A text is shown, and does nothing.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return "" if value is None else str(value)
    shown = printable(value)
    start = shown.lstrip(" ")[:1]
    return f"'{shown}" if start and start in _FORMULA and not _NUMBER.fullmatch(shown) else shown
