"""A diagnostic as text: what is wrong, where, with a caret, and the fix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.table import paragraph
from gpumap.text import cut, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.errors import Diagnostic, Span

    Folded = tuple[Diagnostic, Sequence[Diagnostic]]

_AROUND = 32  # characters of the map that are shown before and after the place, at least
_MARKED = 48  # characters of the place itself
_WIDTH = 80  # columns where there is no terminal
SHOWN = 100  # a hostile map of 100,000 entries must not flood a terminal; JSON has them all
_ALIKE = 3  # that say the same of other rows or entries; of more the first one stands for all
_OWN = re.compile(r'[0-9][0-9.]*|"[^"]*"')  # what tells one text from the next
_ROW = re.compile(r"^[^\s\[]+\[[^]]*\]\S*")  # the row that a message begins with

_PASTED = " -m pip "  # in a line to paste: in two pieces a shell would run the first of them
_INSET = 2  # columns before a place


def render(
    diagnostics: Iterable[Diagnostic], text: str | None = None, columns: int | None = None
) -> str:
    """Return the diagnostics, each with its place in `text` where it has one.

    Where `columns` are given, those of a terminal, lines are broken between words.
    """
    shown, left = folded(diagnostics)
    lines = [line for found, others in shown for line in _lines(found, text, others, columns)]
    if left:
        lines.append(f"... and {left} more; --format json lists them all")
    return "".join(f"{line}\n" for line in fitted(lines, columns))


def folded(diagnostics: Iterable[Diagnostic]) -> tuple[list[Folded], int]:
    """Return the diagnostics that are shown, and how many are left out.

    Where many rows or entries have one, it is the first with the others.
    """
    every = list(diagnostics)
    groups: dict[object, list[Diagnostic]] = {}
    for found in every:
        groups.setdefault(_likeness(found), []).append(found)
    many = {id(d): group for group in groups.values() if len(group) > _ALIKE for d in group}
    groups_of = ((found, many.get(id(found), [found])) for found in every)
    firsts: list[Folded] = [(found, group[1:]) for found, group in groups_of if found is group[0]]
    return firsts[:SHOWN], sum(1 + len(others) for _, others in firsts[SHOWN:])


def _likeness(found: Diagnostic) -> object:
    """Return what two diagnostics have in common that say the same of other entries or rows."""
    message, hint = found.message.removeprefix(f"{found.name}: "), found.hint or ""
    if found.entry is not None or _ROW.match(message):
        message, hint = (_OWN.sub("", _ROW.sub("", text)) for text in (message, hint))
    return found.severity, found.code, found.entry is None, message, hint


def fitted(lines: Sequence[str], columns: int | None) -> Iterator[str]:
    """Yield printable lines that a terminal has room for; what a caret points into stays whole."""
    for number, line in enumerate(map(printable, lines)):
        pointed = any(near.lstrip().startswith("^") for near in lines[number : number + 2])
        yield from [line] if pointed or _PASTED in line else paragraph(line, columns)


def _lines(
    diagnostic: Diagnostic,
    text: str | None,
    others: Sequence[Diagnostic] = (),
    columns: int | None = None,
) -> Iterator[str]:
    entry = "" if diagnostic.entry is None else f" in entry {diagnostic.entry}"
    yield f"{diagnostic.severity}{entry}: {diagnostic.message}"
    if text and diagnostic.span is not None:
        yield from place(text, diagnostic.span, columns or _WIDTH)
    if diagnostic.hint is not None:
        yield f"  {remedy(diagnostic)}: {diagnostic.hint}"
    if others:
        yield f"  {more(others)}"


def remedy(found: Diagnostic) -> str:
    """Return what the hint of a diagnostic is called: of an error it is its fix."""
    return "fix" if found.severity == "error" else "hint"


def more(others: Sequence[Diagnostic]) -> str:
    """Return how many more there are like the one that is shown, and in which entries."""
    entries = units.ranges(d.entry for d in others if d.entry is not None)
    where = f", in entries {cut(entries, _MARKED)}" if entries else ""
    return f"and {len(others)} more like it{where}"


def place(text: str, span: Span, columns: int = _WIDTH) -> Iterator[str]:
    """Yield a place in a text with what is around it, and a line that points at it.

    The whole text where it fits the columns, else a few characters before and behind.
    """
    room = columns - _INSET
    whole = len(text) <= room and width(printable(text)) <= room  # of a hostile one no more is seen
    around = len(text) if whole else _AROUND
    start, stop = max(0, span.start - around), min(len(text), span.stop + around)
    before = ("…" if start > 0 else "") + printable(text[start : span.start])
    marked = cut(printable(text[span.start : span.stop]), _MARKED)
    after = printable(text[span.stop : stop]) + ("…" if stop < len(text) else "")
    yield f"  {before}{marked}{after}"
    yield "  " + " " * width(before) + "^" + "~" * (width(marked) - 1)
