"""A report for pipes and logs: no colour, no box characters, one line for each thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.report.table import PIPED, Table, paragraph
from gpumap.report.table import lines as layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.report import Style
    from gpumap.report.parts import Shown, Text

_ELSEWHERE = ("names", "rows")  # sections of which a terminal shows the essence in others


class Part(NamedTuple):
    """A line of a report, and how it looks where there are colours."""

    text: str
    look: str = ""
    filled: bool = False  # in a pipe too: broken between words
    pasted: bool = False  # it is never broken


def render(shown: Shown, style: Style) -> str:
    """Return the report as plain text."""
    text = "".join(f"{line}\n" for line in lines(parts(shown, verbose=style.verbose), room(style)))
    return text if text.strip() else ""  # of a wrong question


def parts(shown: Shown, *, verbose: bool) -> Iterator[Part | Table]:
    """Yield the lines and tables of a report, in their order."""
    if shown.status != "error" and shown.headline is not None:  # else stderr says all that there is
        yield Part(shown.headline.text, shown.headline.level)
    for section in shown.sections(verbose):
        for part in section.parts if section.name not in _ELSEWHERE else ():
            yield from [part] if isinstance(part, Table) else _lines(part)


def _lines(text: Text) -> Iterator[Part]:
    """Yield a text line by line, indented below a title that is shown."""
    if text.gap:
        yield Part("")
    if text.headed:
        yield Part(text.title, text.look)
        yield from (Part(f"  {line}") for line in text.lines)
    else:
        how = (text.look, text.filled, text.pasted)
        yield from (Part(line, *how) for line in text.lines)


def lines(found: Iterable[Part | Table], room: int | None) -> Iterator[str]:
    """Yield parts as lines of text, a blank one before a table with a title."""
    for part in found:
        if isinstance(part, Table):
            yield from [""] if part.title else []
            yield from table_lines(part, room)
        else:
            yield from paragraph(part.text, room if part.filled else None)


def room(style: Style) -> int | None:
    """Return the columns of a line in a pipe, a file or a log; with -v as many as it takes."""
    return None if style.verbose else PIPED


def table_lines(table: Table, room: int | None) -> Iterator[str]:
    """Yield a table, its title above and what is to be said of it below."""
    yield from paragraph(table.title, room) if table.title else []
    if table.rows:
        yield from (line.text for line in layout(table, room, whole=room is None))
    for line in table.remarks:
        yield from paragraph(f"  {line}", room)
