"""Text of JSON: laid out for people, harmless on terminals; and parsed.

`json` makes and parses it: it escapes what is not ASCII, and takes the lone surrogates of a file's
name, which msgspec refuses.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MEASURE_AGAIN = "measure again with --output FILE.json"
MEASURED = f"{MEASURE_AGAIN}; a report that was edited proves nothing"
_VALUES = 10_000_000  # of a text: a trace of 256 MiB has as many
ANOTHER_FORM = "give the JSON report of the same run, which --output FILE.json writes"


def text(tree: Any) -> str:
    """Return a tree as text: objects indented, a list of plain values on one line.

    It is ASCII, so that nothing in it acts on a terminal, and no command of a CI service.
    """
    return _laid_out(tree, "\n").replace("##[", r"#\u0023[") + "\n"


def _laid_out(tree: Any, line: str) -> str:
    """Return a tree as text; `line` is a line break, and the indent of what it is in."""
    inner = f"{line}  "
    if isinstance(tree, dict) and tree:
        if _is_flat(tree):
            return f"{{{inner}{_leaf(f',{inner}')(tree)[1:-1]}{line}}}"
        items = (f"{_leaf()(key)}: {_laid_out(item, inner)}" for key, item in tree.items())
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}"
    if isinstance(tree, list | tuple) and tree and isinstance(tree[0], dict):
        items = (_laid_out(item, inner) for item in tree)
        return f"[{inner}{f',{inner}'.join(items)}{line}]"
    return _leaf()(tree)


def _is_flat(tree: dict[str, Any]) -> bool:
    return not any(isinstance(item, dict | list | tuple) for item in tree.values())


@cache
def _leaf(separator: str = ", ") -> Callable[[Any], str]:
    """Return what writes plain values, with `separator` between them; made once for many."""
    return json.JSONEncoder(allow_nan=False, separators=(separator, ": ")).encode


class Refused(Exception):
    """What is wrong with a text, where in it, and the fix."""

    def __init__(self, reason: str, path: str = "$", hint: str = MEASURE_AGAIN) -> None:
        self.reason, self.path, self.hint = reason, path, hint
        super().__init__(reason)


def parse(content: str) -> Any:
    """Return the tree of a JSON text.

    Raises:
        Refused: it is not JSON, or would take all memory.
    """
    if sum(map(content.count, ",[{")) > _VALUES:  # each takes many times its text
        raise Refused(f"it holds more than {_VALUES:,} values", hint="name a file of --output")
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error.msg.lower()} (line {error.lineno}, column {error.colno})"
        is_json = content.lstrip().startswith(("{", "["))
        raise Refused(reason, hint=MEASURED if is_json else ANOTHER_FORM) from error
    except ValueError as error:
        raise Refused(f"it is not JSON: {error}", hint=MEASURED) from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
