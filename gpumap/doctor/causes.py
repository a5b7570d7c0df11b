"""The table of causes, in the order in which they are named, and a page for each.

A page has a cause's meaning, how it is found, the fix, and the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.doctor import hardware, usage
from gpumap.doctor.evidence import Rule
from gpumap.errors import Exit
from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.explain.lookup import Topic

RULES = {**usage.CONFIGURATION, **hardware.DEVICES, **hardware.MACHINE, **usage.WORK}
_CITED = {
    "release": "Theano 1.0.5",
    "article": "the article Why is Theano rarely using the GPU?",
}
_EXITS = {"GM535": Exit.INCONCLUSIVE, "GM536": Exit.ABSENT}  # of frameworks; else the answer is no
_WORD = re.compile(r"GM[0-9]{0,3}", re.IGNORECASE)
_BRACES = re.compile(r"\{(\w+)\}")
_HEADINGS = {
    "1": "Configuration",
    "2": "Device and driver",
    "3": "Machine",
    "4": "Work",
    "5": "Frameworks",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """A rule, and what causes.toml says of it.

    code: GM and three digits, for ever: 1.. configuration, 2.. device and driver, 3.. machine,
        4.. work. key: a word for it. text, fix: one line each, words of `Shown` in braces.
    meaning, how, source: the sentences of its page.
    usual: the fixes that its page names, where the fix itself depends on what was found.
    """

    code: str
    rule: Rule
    key: str
    text: str
    fix: str
    meaning: str
    how: str
    source: str
    usual: str = ""


@cache
def table() -> Mapping[str, Cause]:
    """Return every cause by its code: its rule, and its texts of causes.toml."""
    return shipped("gpumap.doctor", "causes.toml", _table)


def _table(tables: Mapping[str, Any]) -> Mapping[str, Cause]:
    for texts in tables.values():
        texts["source"] = texts["source"].format_map(_CITED)
    return {code: Cause(code, _rule(code), **texts) for code, texts in tables.items()}


def _rule(code: str) -> Rule:
    """Return the rule of a cause; those of frameworks look at facts, and at no name of a map."""
    return RULES.get(code) or Rule("not used", lambda *_: None, _EXITS.get(code, Exit.NO))


def page(cause: Cause) -> Topic:
    """Return a cause as a topic."""
    from gpumap.explain.lookup import Topic

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
