"""`docs/gpumap.1`: the man page, in the macros of man(7)."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING

from gpumap.cli import COMMANDS
from gpumap.manual import EXAMPLES, EXITS, FILES, ORDER, VARIABLES, pages
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.manual import Option, Page

_COMMENT = r".\" Made from the commands by `make docs`; a test keeps it true."
_SPAN = re.compile(r"`([^`]+)`")
_BOLD, _ROMAN = "\x01", "\x02"  # no help text has them
_COLUMNS = 70  # of a line of source, before it is escaped: most stay under 80
# What roff reads as something else; "-" may come out as a hyphen, which no shell takes.
_ESCAPES = str.maketrans({
    "\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti",
    '"': r"\(dq", _BOLD: r"\fB", _ROMAN: r"\fR",
})  # fmt: skip


def document() -> str:
    """Return the reference of all commands as a man page."""
    lines = [_COMMENT, *_head(), *_sections(), ".SH COMMANDS"]
    for page in pages():
        lines += _page(page)
    lines += [".SH EXIT STATUS", *_tagged({t.name: f"{t.summary}. {t.text}" for t in EXITS})]
    lines += [".SH ENVIRONMENT", *_text(ORDER), *_tagged(VARIABLES)]
    lines += [".SH FILES", *_tagged(FILES), ".SH EXAMPLES", *_examples()]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a line of text that roff shows as it is, wherever it stands."""
    line = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text.translate(_ESCAPES))
    return rf"\&{line}" if line[:1] == "." else line  # a request; "'" is escaped


def _head() -> Iterator[str]:
    # a date would be one more thing to keep true
    yield f'.TH GPUMAP 1 "" "gpumap {escaped(__version__)}" "User Commands"'
    yield from (".nh", ".ad l")  # no hyphen comes into a name, and no blanks
    yield ".SH NAME"
    yield r"gpumap \- name compute devices once, and prove what they give"
    yield ".SH SYNOPSIS"
    yield r"\fBgpumap\fR \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGS\fR]..."
    yield ".SH DESCRIPTION"
    yield from _text(
        "A map such as `dev0->cuda0;dev1->cuda1` gives names to compute devices. The commands "
        "check that it is true on this machine, measure what one device, several devices and the "
        "copies between them give, and judge the figures, each with its interval. A shell reads "
        '">" and ";": quote the map. `gpumap explain` says what each word of a report means.'
    )


def _sections() -> Iterator[str]:
    for section in dict.fromkeys(section for section, _, _ in COMMANDS.values()):
        yield f".SS {section}"
        rows = {n: text for n, (where, _, text) in COMMANDS.items() if where == section}
        yield from _tagged(rows)


def _page(page: Page) -> Iterator[str]:
    yield f".SS {escaped(page.usage)}"
    for number, paragraph in enumerate(page.paragraphs):
        yield from [".PP"] if number else []  # a heading begins one
        yield from _text(paragraph)
    for option in page.options:
        yield from _option(option)


def _option(option: Option) -> Iterator[str]:
    name, _, value = option.terms.partition(" ")
    if value.startswith("/"):  # --model / --no-model: both are names
        name, value = option.terms, ""
    yield ".TP"
    yield rf"\fB{escaped(name)}\fR" + (rf" \fI{escaped(value)}\fR" if value else "")
    notes = [
        f"default: {option.default}" if option.default else "",
        option.bounds or "",
        f"variable: {option.variable}" if option.variable else "",
    ]
    said = "; ".join(note for note in notes if note)
    yield from _text(f"{option.text} [{said}]" if said else option.text)


def _tagged(entries: Mapping[str, str]) -> Iterator[str]:
    """Yield a list of words, each with its text beside it."""
    for name, text in entries.items():
        yield ".TP"
        yield rf"\fB{escaped(name)}\fR"
        yield from _text(text)


def _examples() -> Iterator[str]:
    for question, line in EXAMPLES:
        yield ".TP"
        yield from _text(question)
        yield rf"\fB{escaped(line)}\fR"


def _text(text: str) -> Iterator[str]:
    """Yield a text in lines; its code spans are bold."""
    marked = _SPAN.sub(rf"{_BOLD}\1{_ROMAN}", text)
    for line in wrap(marked, _COLUMNS, break_long_words=False, break_on_hyphens=False):
        yield escaped(line)
