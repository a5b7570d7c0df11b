"""A report as text: what stands first, and what fits; for pipes and logs without any colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.table import PIPED, Line, Table, paragraph
from gpumap.report.table import lines as layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.report import Style
    from gpumap.report.parts import Shown, Text


def render(shown: Shown, style: Style) -> str:
    """Return the report as plain text."""
    room = None if style.verbose else PIPED
    text = written(report(shown, room, verbose=style.verbose))
    return text if text.strip() else ""  # of a wrong question


def report(
    shown: Shown, room: int | None, *, verbose: bool, filled: bool = False
) -> Iterator[Line]:
    """Yield the lines of a report: its answer first.

    Args:
        shown: the report.
        room: columns of a line; None: as many as it takes.
        verbose: all of it.
        filled: break every line that is too long between words.
    """
    lines = list(_sections(shown, room, verbose=verbose, filled=filled))
    # of an error without anything to show, stderr says all that there is
    told = shown.report.status != "error" or any(line.parts for line in lines)
    if told:
        yield from _filled(shown.headline.text, room if filled else None, shown.headline.level)
    yield from lines


def _sections(shown: Shown, room: int | None, *, verbose: bool, filled: bool) -> Iterator[Line]:
    for section in shown.sections(verbose):
        for part in section.parts:
            if isinstance(part, Table):
                yield from [Line()] if part.title else []
                yield from table(part, room, whole=verbose)
            else:
                yield from _text(part, room, filled=filled)


def _text(text: Text, room: int | None, *, filled: bool) -> Iterator[Line]:
    """Yield a text line by line, indented below a title that is shown."""
    if text.gap:
        yield Line()
    wide = room if (filled or text.filled) and not text.pasted else None
    if text.headed:
        yield from _filled(text.title, wide, text.look)
    for line in text.lines:
        yield from _filled(f"  {line}", wide) if text.headed else _filled(line, wide, text.look)


def table(found: Table, room: int | None, *, whole: bool = False) -> Iterator[Line]:
    """Yield a table, its title above and what is to be said of it below."""
    if found.title:
        yield from _filled(found.title, room, "title")
    if found.rows:
        yield from layout(found, room, whole=whole)
    for remark in found.remarks:
        yield from _filled(f"  {remark}", room)


def _filled(text: str, room: int | None, look: str = "") -> Iterator[Line]:
    return (Line(look, ((line, ""),)) for line in paragraph(text, room))


def written(found: Iterable[Line]) -> str:
    """Return lines as text."""
    return "".join(f"{line.text}\n" for line in found)
