"""Text as HTML. Nothing of a report is ever markup: every text goes through `shown`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONG = 48  # characters; from here on a text is broken into lines
_GOOD = ("ok", "pass", "improvement", "used")
_UNCLEAR = ("unstable", "inconclusive", "skipped", "partly", "partly used")
_BAD = ("failed", "fail", "regression", "missing", "new", "not used", "no", "error", "absent",
        "wrong-data", "timeout", "interrupted", "internal")  # fmt: skip
TONES = {
    **dict.fromkeys(_GOOD, "good"),
    **dict.fromkeys(_UNCLEAR, "unclear"),
    **dict.fromkeys(_BAD, "bad"),
}


def shown(text: str) -> str:
    """Return a text as a browser shows it: markup as it is written, no control character."""
    return escape(printable(text))


def breakable(text: str) -> str:
    """Return the same, if it is long to be broken behind commas first: ids have no blanks."""
    found = shown(text)
    return found.replace(",", ",<wbr />") if len(text) > LONG else found


def tone(word: str) -> str:
    """Return the class that colours a word which says how something ended; nothing for others."""
    return TONES.get(word) or TONES.get(word.partition(" ")[0], "")


def items(texts: Iterable[str], class_: str) -> Iterator[str]:
    """Yield texts as a list, if there are any."""
    found = [f"<li>{shown(text)}</li>" for text in texts if text]
    if found:
        yield from (f'<ul class="{class_}">', *found, "</ul>")


def section(name: str, title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a part of the page under its heading, if there is anything in it."""
    found = list(lines)
    if found:
        yield f'<section aria-labelledby="{name}">'
        yield f'<h2 id="{name}">{shown(title)}</h2>'
        yield from found
        yield "</section>"


def described(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield words with what they stand for, those with nothing left out."""
    found = [f"<div><dt>{shown(k)}</dt><dd>{shown(v)}</dd></div>" for k, v in pairs if v]
    if found:
        yield from ("<dl>", *found, "</dl>")
