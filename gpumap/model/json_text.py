"""Text of JSON: laid out for people, harmless on terminals; and parsed.

`json` makes and parses it: it escapes what is not ASCII, and takes the lone surrogates of a file's
name, which msgspec refuses.
"""

from __future__ import annotations

import json
from typing import Any

_VALUES = 10_000_000  # of a text: a trace of 256 MiB has as many


def text(tree: Any) -> str:
    """Return a tree as text: objects indented, a list of plain values on one line.

    It is ASCII, so that nothing in it acts on a terminal, and no command of a CI service.
    """
    return _laid_out(tree, "\n").replace("##[", r"#\u0023[") + "\n"


def _laid_out(tree: Any, line: str) -> str:
    """Return a tree as text; `line` is a line break, and the indent of what it is in."""
    inner = f"{line}  "
    if isinstance(tree, dict) and tree:
        items = (f"{_encode(key)}: {_laid_out(item, inner)}" for key, item in tree.items())
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(tree, list | tuple) and tree and isinstance(tree[0], dict):
        items = (_laid_out(item, inner) for item in tree)
        return f"[{inner}{f',{inner}'.join(items)}{line}]"
    return _encode(tree)


_encode = json.JSONEncoder(allow_nan=False).encode  # of plain values


class Refused(Exception):
    """What is wrong with a text."""


def parse(content: str) -> Any:
    """Return the tree of a JSON text.

    Raises:
        Refused: it is not JSON, or would take all memory.
    """
    if sum(map(content.count, ",[{")) > _VALUES:  # each takes many times its text
        raise Refused(f"it holds more than {_VALUES:,} values")
    try:
        return json.loads(content)
    except ValueError as error:
        raise Refused(f"it is not JSON: {error}") from error
