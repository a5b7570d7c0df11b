"""A report for a terminal. Every text goes in as `Text`: nothing of the user's is ever markup."""

from __future__ import annotations

import io
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gpumap.escape import printable
from gpumap.report import plain
from gpumap.report.table import Table as TextTable
from gpumap.report.table import lines as layout
from gpumap.report.table import paragraph
from gpumap.text import width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.report import Style
    from gpumap.report.parts import Shown
    from gpumap.report.plain import Part

MOST = 500  # rows: more than a terminal prints at once, or than anyone scrolls back
_VERDICT = "verdict"  # the column of what was judged
_LOOKS = {
    **dict.fromkeys(("good", "used"), "bold green"),
    **dict.fromkeys(("below", "partly"), "bold yellow"),
    **dict.fromkeys(("failed", "not used"), "bold red"),
    **dict.fromkeys(("untrusted", "unclear"), "yellow"),
    "ok": "green",
    "footer": "dim",
    "bold": "bold",
}
_STYLES = {
    **dict.fromkeys(("failed", "! failed", "fail", "regression", "missing", "new"), "bold red"),
    **dict.fromkeys(("ok", "pass", "improvement"), "green"),
    **dict.fromkeys(("inconclusive", "skipped", "~ noisy", "? few"), "yellow"),
}
_KINDS = {"head": "bold", "record": "bold", "note": "dim"}  # of lines


def render(shown: Shown, style: Style) -> str:
    """Return the report with tables and colours, for a terminal of the style's width."""
    parts = plain.parts(shown, verbose=style.verbose)
    return printed(_looking(parts, style), style)


def _looking(parts: Iterable[Part | TextTable], style: Style) -> Iterator[Text]:
    for _, group in groupby(parts, type):
        found = list(group)
        yield from _tables([part for part in found if isinstance(part, TextTable)], style)
        for part in found:
            if isinstance(part, plain.Part):
                yield Text(printable(part.text), _LOOKS.get(part.look, ""), no_wrap=part.pasted)


def tables(found: Iterable[TextTable], style: Style) -> str:
    """Return tables, whatever they are of; the style's width is the terminal's."""
    return printed(_tables(found, style), style).removeprefix("\n")


def styled(line: str, look: str) -> Text:
    """Return a line that is as wide as it is."""
    return Text(line, look, no_wrap=True)


def printed(parts: Iterable[Text], style: Style) -> str:
    """Return texts as a terminal of the style's width and colours gets them."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(style.width, 1),
        height=100,  # else Rich reads LINES, and fails if that is no number
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        # a line of a table is as wide as it is, and what is there to be pasted the terminal's
        texts = [part.plain] if part.no_wrap else paragraph(part.plain, style.width)
        for text in texts:
            console.print(part if part.no_wrap else Text(text, part.style), soft_wrap=True)
    return stream.getvalue()


def _tables(every: Iterable[TextTable], style: Style) -> Iterator[Text]:
    """Yield tables, together no longer than anyone reads; what was judged is not left out."""
    shown = count = 0
    for found in every:
        most = MOST if _VERDICT in found.columns and not found.of_names else MOST - shown
        count += len(found.rows)
        if most <= 0:
            continue
        shown += min(len(found.rows), most)
        yield from (Text(""), Text(found.title, style="bold")) if found.title else ()
        if found.rows:
            yield from _grid(found._replace(rows=found.rows[:most]), style)
        yield from (Text(f"  {line}") for line in found.remarks)
    if shown < count:
        yield Text("")
        more = "--format plain or json has all of them"
        yield Text(f"the first {shown} of {count} rows are shown; {more}", style="yellow")


def _grid(table: TextTable, style: Style) -> Iterator[Text]:
    """Yield the lines of a table, its headings above a rule."""
    for line in layout(table, style.width, whole=style.verbose):
        look = _KINDS.get(line.kind, "")
        parts = [(text, _STYLES.get(cell, "")) for text, cell in line.parts]
        text = Text.assemble("  ", *parts, style=look, no_wrap=True)
        text.rstrip()
        yield text
        if line.kind == "head":
            wide = sum(width(text) for text, _ in line.parts)
            yield Text(f"  {('─' if style.signs else '-') * wide}", no_wrap=True)
