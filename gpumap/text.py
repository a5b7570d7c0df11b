"""Hostile text made safe to print: names, file contents and driver strings pass through here."""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WIDTHS = (("x", 2), ("u", 4), ("U", 8))  # as Python writes them


def printable(text: str) -> str:
    """Return `text` with everything that a terminal or a CI log could act on written as an escape.

    Control characters, bidirectional marks, lone surrogates and unassigned code points all go:
    `str.isprintable` is false for the whole of Unicode's "other" and "separator" categories
    except the plain space. GitHub's runner obeys lines that begin with ``::`` and ``##[`` anywhere.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if "##[" in text:
        text = text.replace("##[", r"#\x23[")
    if text.lstrip().startswith("::"):
        text = text.replace("::", r":\x3a", 1)
    return text


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = f"{ord(character):x}"
    return next(f"\\{letter}{code:0>{n}}" for letter, n in _WIDTHS if len(code) <= n)


def width(text: str) -> int:
    """Return the number of terminal columns that printable `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me"):  # combining() misses Thai and Devanagari
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
