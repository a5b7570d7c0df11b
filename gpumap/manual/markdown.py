"""`docs/commands.md`: every command, option and exit code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.cli import COMMANDS
from gpumap.manual import EXAMPLES, EXITS, FILES, ORDER, VARIABLES, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.manual import Option, Page

_MADE = (
    "Made from the commands by `make docs`; a test keeps it true. It is a man page too: "
    "`man gpumap`."
)
_SPAN = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\`*\[\]<|~])")


def document() -> str:
    """Return the reference of all commands as Markdown."""
    every = tuple(pages())
    parts = ["# Commands", _MADE, *_contents(), *(part for page in every for part in _page(page))]
    parts += ["## Exit codes", *_exits(), "## Variables", ORDER, _list(VARIABLES)]
    parts += ["## Files", _list(FILES), "## Examples", *_examples()]
    return "\n\n".join(parts) + "\n"


def _contents() -> Iterator[str]:
    """Yield the commands of each section, with their places."""
    for section in dict.fromkeys(section for section, _, _ in COMMANDS.values()):
        rows = [(n, text) for n, (where, _, text) in COMMANDS.items() if where == section]
        lines = (f"- [`{name}`](#gpumap-{name}): {_escaped(text)}" for name, text in rows)
        yield "\n".join((f"**{section}**", "", *lines))


def _page(page: Page) -> Iterator[str]:
    yield f"## gpumap {page.name}"
    yield f"`{page.usage}`"  # no block: it is no line to type
    yield from map(_escaped, page.paragraphs)
    if page.options:
        yield "\n".join(map(_option, page.options))


def _option(option: Option) -> str:
    """Return an option as an item of a list."""
    notes = [
        f"default `{option.default}`" if option.default else "",
        f"`{option.bounds}`" if option.bounds else "",
        f"variable `{option.variable}`" if option.variable else "",
    ]
    said = "; ".join(note for note in notes if note)
    return f"- `{option.terms}`: {_escaped(option.text)}" + (f" ({said})" if said else "")


def _exits() -> Iterator[str]:
    rows = (f"| {topic.name} | {_escaped(topic.summary)} | {_escaped(topic.text)} |"
            for topic in EXITS)  # fmt: skip
    yield "\n".join(("| exit | meaning | when |", "| --- | --- | --- |", *rows))
    yield "`gpumap run` passes the code of its command on."


def _list(entries: Mapping[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in entries.items())


def _examples() -> Iterator[str]:
    for question, line in EXAMPLES:
        yield question
        yield f"    {line}"


def _escaped(text: str) -> str:
    """Return a text whose code spans stay, and of which nothing else is Markdown."""
    parts = _SPAN.split(text)
    return "".join(p if _SPAN.fullmatch(p) else _SPECIAL.sub(r"\\\1", p) for p in parts)
