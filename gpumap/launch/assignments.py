"""Assignments as a shell script has them, read as data: nothing is expanded, nothing is executed.

    file       = { [ assignment ] [ comment ] newline }       blanks on either side are dropped
    assignment = [ "export" ] key "=" ( word | array )        no blanks around the "="
    array      = "(" { word | comment | blank | newline } ")"
    word       = { bare | "'" literal "'" | '"' quoted '"' }  within a line
    key        = letter or "_" { letter | digit | "_" }
    bare       = printable { printable }                      no blank, quote, or sign of a shell
    literal    = { printable }                                no "'"
    quoted     = { printable }                                no '"', "$", "`", backslash
    comment    = "#" { any }                                  where a word could begin

Everything else is an error: what only a shell could understand must not be taken for a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 60  # characters of the user's text inside a message
_BARE = r"""[^\s'"$`;&|<>(){}\[\]*?~!\\]+"""
_LITERAL, _INNER = r"'([^'\n]*)'", r'"([^"$`\\\n]*)"'
_PART = re.compile(f"({_BARE})|{_LITERAL}|{_INNER}")
_KEY = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_SPACED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[ \t]+=")
_BLANKS = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\n]*")
_QUOTED = re.compile(
    r"[\"$`\\\n]|\Z"
)  # what ends what stands in double quotes, or must not be there
_DATA = "a cfg is read as data"
_ONE = 'write one KEY=VALUE a line; a value with blanks is in quotes: KEY="..."'


@dataclass(frozen=True, slots=True)
class Assignment:
    """A key, its value (of an array any number of words), and the line where it begins."""

    key: str
    words: tuple[str, ...]
    line: int
    is_array: bool = False


def assignments(text: str, file: str) -> Iterator[Assignment]:
    """Yield the assignments of a text, in their order.

    Args:
        text: what the file holds.
        file: what it is called, for messages.

    Raises:
        SourceError: a line has something else than an assignment; the message names the line.
    """
    return _Reader(text, file).every()


class _Reader:
    """A place in the text, and the rules of the grammar."""

    def __init__(self, text: str, file: str) -> None:
        text = text.removeprefix("\N{BYTE ORDER MARK}")
        self._text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._file = file
        self._at = 0
        self._line = 1

    def every(self) -> Iterator[Assignment]:
        """Rule: file."""
        while self._next():
            yield self._assignment()
            self._skip()
            if self._here not in ("", "\n"):
                raise self._more()

    def _next(self) -> bool:
        """Go to the next line that has something; return whether there is one."""
        self._skip()
        while self._here == "\n":
            self._at += 1
            self._line += 1
            self._skip()
        return self._here != ""

    def _assignment(self) -> Assignment:
        """Rule: assignment."""
        match = _KEY.match(self._text, self._at)
        if match is None:
            raise self._no_assignment()
        line = self._line
        self._at = match.end()
        if self._here == "(":
            return Assignment(match[1], tuple(self._array()), line, is_array=True)
        return Assignment(match[1], (self._word(),), line)

    def _array(self) -> Iterator[str]:
        """Rule: array."""
        began = self._line
        self._at += 1
        while self._next() and self._here != ")":
            yield self._word(end=")")
        if not self._here:
            self._line = began
            raise self._wrong("the array is never closed", 'end it with ")"')
        self._at += 1
        if self._here not in ("", " ", "\t", "\n"):
            raise self._more()

    def _word(self, end: str = "") -> str:
        """Rule: word."""
        parts = []
        while match := _PART.match(self._text, self._at):
            parts.append(match[match.lastindex or 0])
            self._at = match.end()
        word = "".join(parts)
        if strange := next((c for c in word if not c.isprintable()), None):
            raise self._unprintable(strange)
        if self._here not in ("", " ", "\t", "\n", *end):
            raise self._shell()
        return word

    @property
    def _here(self) -> str:
        """Return the character at this place; none at the end."""
        return self._text[self._at : self._at + 1]

    def _skip(self) -> None:
        """Go past blanks, and a comment."""
        for pattern in (_BLANKS, _COMMENT):
            if match := pattern.match(self._text, self._at):
                self._at = match.end()

    # --- what is wrong

    def _no_assignment(self) -> SourceError:
        if _SPACED.match(self._text, self._at):
            return self._wrong('there are blanks before the "="', "write KEY=VALUE without blanks")
        if not _PART.match(self._text, self._at):
            return self._shell()
        said = f'"{self._rest()}" is a command to a shell, and {_DATA}'
        return self._wrong(said, "leave only lines of KEY=VALUE")

    def _more(self) -> SourceError:
        if not _PART.match(self._text, self._at):
            return self._shell()
        return self._wrong(f'"{self._rest()}" follows the value, and {_DATA}', _ONE)

    def _shell(self) -> SourceError:
        """Name the character that no value can have here."""
        character = self._here
        if character in ("'", '"'):
            found = _QUOTED.search(self._text, self._at + 1) if character == '"' else None
            character = found[0] if found else ""
            if character in ("", "\n"):
                return self._wrong("a quote is never closed", "close it in the same line")
        if not character.isprintable():
            return self._unprintable(character)
        said = f"{character} is for a shell to understand, and {_DATA}"
        return self._wrong(said, "write the value itself; in single quotes each character is one")

    def _unprintable(self, character: str) -> SourceError:
        said = f'a value has a character that cannot be printed, "{character}"'
        return self._wrong(said, "write it anew, with plain blanks and quotes")

    def _rest(self) -> str:
        stop = self._text.find("\n", self._at)
        rest = self._text[self._at : stop if stop >= 0 else None].rstrip()
        return rest if len(rest) <= _SHOWN else f"{rest[: _SHOWN - 3]}..."

    def _wrong(self, problem: str, hint: str) -> SourceError:
        return wrong(self._file, self._line, problem, hint)


def wrong(file: str, line: int, problem: str, hint: str) -> SourceError:
    """Return the error of a line."""
    return SourceError(f"{file}, line {line}: {problem}", hint)
