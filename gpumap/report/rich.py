"""A report for a terminal. Every text goes in as `Text`: nothing of the user's is ever markup."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gpumap.report import Style, plain
from gpumap.report.parts import Shown, tone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.report.table import Line

_LOOKS = {  # of lines
    **dict.fromkeys(("good", "used"), "bold green"),
    **dict.fromkeys(("below", "partly"), "bold yellow"),
    **dict.fromkeys(("failed", "not used"), "bold red"),
    **dict.fromkeys(("untrusted", "unclear"), "yellow"),
    **dict.fromkeys(("bold", "title", "record"), "bold"),
    "head": "bold underline",
    **dict.fromkeys(("footer", "note"), "dim"),
    "ok": "green",
}
_TONES = {"good": "green", "unclear": "yellow", "bad": "bold red", "": ""}  # of cells


def render(shown: Shown, style: Style) -> str:
    """Return the report with colours, for a terminal of the style's width."""
    lines = plain.report(shown, style.width, verbose=style.verbose, filled=True)
    return printed(lines, style)


def printed(lines: Iterable[Line], style: Style) -> str:
    """Return lines, each as wide as it is, as a terminal of the style's colours gets them."""
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
    for line in lines:
        parts = [(text, _TONES[tone(cell)]) for text, cell in line.parts]
        text = Text.assemble(*parts, style=_LOOKS.get(line.look, ""))
        text.rstrip()
        console.print(text, soft_wrap=True)
    return stream.getvalue()
