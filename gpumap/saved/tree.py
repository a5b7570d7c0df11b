"""Text to plain dictionaries and lists, more strictly than Python's own reader of JSON.

What is not JSON (NaN, Infinity), what no float holds (1e400), whole numbers of more than 18 digits
and keys that stand twice are refused, each with its place.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

_DIGITS = 18  # of a whole number: what 64 bits hold
_SHOWN = 40  # characters of what is refused
JSON = "give the JSON report of the same run, which --output FILE.json writes"
_OTHERS = {  # how other forms of a report begin
    "<!doctype html": "an HTML page",
    "<?xml": "JUnit XML",
    "<testsuite": "JUnit XML",
    "record,": "CSV",
    "#": "Markdown",
}
_PLAIN = "\nmapped name "  # below the headline
_BEGIN = 2000  # characters that tell
_LAST = re.compile(r"[\\\w.+-]*\s*")  # the beginning of a word, a number or an escape


class Refused(Exception):
    """What is wrong with a saved report, and where in it; a hint if a new run is not the fix."""

    def __init__(self, reason: str, path: str = "$", hint: str | None = None) -> None:
        self.reason = reason
        self.path = path
        self.hint = hint
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class _Odd:
    """Marks a value in a tree that must not be there."""

    reason: str


def parse(text: str) -> Any:
    """Return the tree of a JSON text.

    Raises:
        Refused: it is not JSON, or holds what a report cannot hold.
    """
    if not text.strip():
        raise Refused("it is empty")
    hooks = _Hooks()
    try:
        tree = json.loads(
            text,
            parse_int=hooks.whole,
            parse_float=hooks.real,
            parse_constant=hooks.constant,
            object_pairs_hook=hooks.keyed,
        )
        if hooks.odd:
            _refuse(tree, "$")
    except json.JSONDecodeError as error:
        begin = text.lstrip()[:_BEGIN].casefold()
        plain = "plain text" if _PLAIN in begin else None
        other = next((what for sign, what in _OTHERS.items() if begin.startswith(sign)), plain)
        reason = f"it is {other}, not JSON" if other else _malformed(text, error)
        raise Refused(reason, hint=None if begin[:1] in ("{", "[") else JSON) from error
    except RecursionError as error:
        raise Refused("its brackets are nested too deeply") from error
    return tree


class _Hooks:
    """What JSON's reader asks about each number and object; notes whether anything was odd."""

    def __init__(self) -> None:
        self.odd = False

    def whole(self, digits: str) -> int | _Odd:
        if len(digits) <= _DIGITS:
            return int(digits)
        return self._refused(f"a whole number of {len(digits)} digits is too long")

    def real(self, digits: str) -> float | _Odd:
        value = float(digits)
        return value if math.isfinite(value) else self._refused(f"{_cut(digits)} is too large")

    def constant(self, word: str) -> _Odd:
        return self._refused(f"{word} is not JSON")

    def keyed(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            found[_repeated(pairs)] = self._refused("this key stands twice")
        return found

    def _refused(self, reason: str) -> _Odd:
        self.odd = True
        return _Odd(reason)


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return key


def _malformed(text: str, error: json.JSONDecodeError) -> str:
    last = _LAST.fullmatch(text, error.pos) is not None and error.pos > 0
    early = (last and not error.msg.startswith("Extra data")) or error.msg.startswith(
        "Unterminated"
    )
    said = "it ends too early" if early else f"it is not JSON: {error.msg.lower()}"
    return f"{said} (line {error.lineno}, column {error.colno})"


def _refuse(tree: Any, path: str) -> None:
    """Raise for the first odd thing in a tree, with its place."""
    if isinstance(tree, _Odd):
        raise Refused(tree.reason, path)
    if isinstance(tree, dict):
        for key, item in tree.items():
            _refuse(item, f"{path}.{_cut(key)}")
    elif isinstance(tree, list):
        for number, item in enumerate(tree):
            _refuse(item, f"{path}[{number}]")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
