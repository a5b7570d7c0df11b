"""Text as it is written: what a terminal or a CI log could act on becomes an escape.

Messages, names, cells and reports hold the text itself. Who writes it out calls this, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def printable(text: str) -> str:
    """Return `text` with everything that a terminal or a CI log could act on written as an escape.

    Control characters, bidirectional marks, lone surrogates and unassigned code points all go:
    `str.isprintable` is false for the whole of Unicode's "other" and "separator" categories
    except the plain space. GitHub's runner obeys lines that begin with ``::`` and ``##[`` anywhere.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    if "##[" in text:
        text = text.replace("##[", r"#\x23[")
    if text.lstrip().startswith("::"):
        text = text.replace("::", r":\x3a", 1)
    return text


def written(lines: Iterable[str]) -> str:
    """Return lines as they are written, each printable."""
    return "".join(f"{printable(line)}\n" for line in lines)
