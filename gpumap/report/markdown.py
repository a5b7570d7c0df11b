"""A report as GitHub-flavoured Markdown: for a step's summary, a comment, a page.

The heading is the headline; status and exit code, errors and notes come next, then the tables.
Figures are written as they are. Every other text of the report is in a code span (`code`): there
nothing is a link, a mention, an emoji, HTML or formatting, and no cell ends at a `|` of a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.escape import printable
from gpumap.report.diagnostics import folded, more, remedy
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.errors import Diagnostic
    from gpumap.report import Style
    from gpumap.report.parts import Shown, Text

_ASIDE = "aside"  # the section of which the notes say the same
_NUMBER = r"-?[\d.,]+(e[+-]\d+)?"
_FIGURE = re.compile(
    rf"-|{_NUMBER}( ?[A-Za-zµ/%]{{1,9}})?( ±\d+%)?( \[{_NUMBER}, {_NUMBER}\])?( < {_NUMBER})?",
    re.ASCII,
)
_WORD = re.compile(r"[a-z0-9][a-z0-9%/ -]*")  # of our own: kinds, statuses, heads of columns
_TICKS = re.compile("`+")


def render(shown: Shown, style: Style) -> str:
    """Return the report as Markdown."""
    return "".join(f"{line}\n" for line in _lines(shown, style))


def code(text: str) -> str:
    """Return a text as a code span that shows just that; nothing for nothing."""
    shown = printable(text)
    if not shown:
        return ""
    fence = "`" * (1 + max(map(len, _TICKS.findall(shown)), default=0))
    edge = " " if shown[0] in " `" or shown[-1] in " `" else ""  # one on either side is dropped
    return f"{fence}{edge}{shown}{edge}{fence}"


def _lines(shown: Shown, style: Style) -> Iterator[str]:
    report = shown.report
    simulated = ", simulated" if report.simulated else ""
    kind, status = _word(report.kind), _word(report.status)
    yield from (f"## {code(shown.headline.text)}", "")
    yield f"gpumap {kind}: {status}, exit code {report.exit_code}{simulated}"
    yield ""
    yield from _listed("Errors", shown.errors())
    yield from _listed("Notes", shown.told())
    for section in shown.sections(style.verbose):
        if section.name != _ASIDE:
            for part in section.parts:
                yield from _tabled(part) if isinstance(part, Table) else _text(part)


def _text(text: Text) -> Iterator[str]:
    """Yield lines as a list below their title; without one as paragraphs."""
    if text.title and (text.lines or text.headed):
        title = code(text.title) if text.headed else text.title
        yield from (f"### {title}", "", *_items(text.lines))
    elif not text.title:
        for line in text.lines:
            yield from (code(line), "")


def _listed(title: str, diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield what there is to say; as much of it as on a terminal."""
    if not diagnostics:
        return
    yield f"### {title}"
    yield ""
    shown, left = folded(diagnostics)
    for found, others in shown:
        entry = "" if found.entry is None else f" in entry {found.entry}"
        hint = "" if found.hint is None else f" ({remedy(found)}: {code(found.hint)})"
        alike = f", {more(others)}" if others else ""
        yield f"- **{found.severity}**{entry}: {code(found.message)}{hint}{alike}"
    if left:
        yield f"- and {left} more; `--format json` lists them all"
    yield ""


def _items(texts: Iterable[str]) -> Iterator[str]:
    found = [f"- {code(text)}" for text in texts if text]
    if found:
        yield from (*found, "")


def _tabled(table: Table) -> Iterator[str]:
    """Yield a table with its title and remarks; a column of figures is aligned right."""
    if table.title:
        yield from (f"### {code(table.title)}", "")
    if table.rows:
        from tabulate import tabulate

        figures = [
            column in table.right or all(_FIGURE.fullmatch(row[n]) for row in table.rows)
            for n, column in enumerate(table.columns)
        ]
        text = tabulate(
            [list(map(_cell, row, figures)) for row in table.rows],
            [_word(column).replace("|", r"\|") for column in table.columns],
            "pipe",
            colalign=["right" if bare else "left" for bare in figures],
            disable_numparse=True,
        )
        yield from (*text.split("\n"), "")
    yield from _items(table.remarks)


def _cell(text: str, bare: bool) -> str:  # noqa: FBT001 - one for each column
    return text if bare and _FIGURE.fullmatch(text) else code(text).replace("|", r"\|")


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else code(text)
