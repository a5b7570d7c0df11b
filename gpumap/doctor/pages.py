"""A page for each cause: its meaning, how it is found, the fix, and the source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.doctor.causes import table
from gpumap.explain.lookup import Topic

if TYPE_CHECKING:
    from gpumap.doctor.causes.cause import Cause

_WORD = re.compile(r"GM[0-9]{0,3}", re.IGNORECASE)
_BRACES = re.compile(r"\{(\w+)\}")
_HEADINGS = {
    "1": "Configuration",
    "2": "Device and driver",
    "3": "Machine",
    "4": "Work",
    "5": "Frameworks",
}


def page(cause: Cause) -> Topic:
    """Return a cause as a topic."""
    outcome = f"{_whose(cause)} that it holds for is {cause.rule.verdict}."
    text = f"{cause.meaning} How doctor knows: {cause.how} {outcome} Source: {cause.source}."
    return Topic(cause.code, "diagnosis", cause.key, text, _fix(cause))


def _whose(cause: Cause) -> str:
    return "A framework" if cause.code.startswith("GM5") else "A name"


def _fix(cause: Cause) -> str:
    """Return the usual fix: the evidence of a run is not known here."""
    return cause.usual or _plain(cause.fix)


def _plain(text: str) -> str:
    """Return a text whose places for words stand in capitals."""
    return _BRACES.sub(lambda found: found[1].upper(), text)


def pages(word: str = "GM") -> tuple[Topic, ...]:
    """Return the pages of a code, of codes that begin so, or of a cause's key; without one all."""
    asked, every = word.strip().casefold(), map(page, table().values())
    if _WORD.fullmatch(word.strip()):
        return tuple(one for one in every if one.name.casefold().startswith(asked))
    return tuple(one for one in every if one.summary == asked.replace(" ", "-"))


def document() -> str:
    """Return all pages as Markdown, for docs/causes.md."""
    parts = []
    for number, heading in _HEADINGS.items():
        parts.append(f"## GM{number}: {heading}")
        for cause in (one for one in table().values() if one.code[2] == number):
            outcome = f"{_whose(cause)} that it holds for is *{cause.rule.verdict}*."
            parts += [
                f"### {cause.code} {cause.key}",
                f"Says: {_plain(cause.text)}. {outcome}",
                cause.meaning,
                f"How doctor knows: {cause.how}",
                f"Fix: {_fix(cause)}",
                f"Source: {cause.source}",
            ]
    return "\n\n".join(parts) + "\n"
