"""Saved reports, read back: `read` returns the report that a JSON file was written from.

Every format renders it as it rendered the original. What a run cannot have written is refused:
another tool's JSON, a truncated or edited file, a version that is not known.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpumap.errors import Diagnostic, SourceError
from gpumap.files import read_text
from gpumap.model import replace
from gpumap.model.trees import SCHEMA_VERSION, digest
from gpumap.saved.reader import report
from gpumap.saved.tree import JSON, Refused, parse
from gpumap.text import printable
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpumap.model import Report

LIMIT = 256 * 2**20  # bytes; 10,000 rows of 100 samples take a third of it
_PROVES = "measure again with --output FILE.json; a report that was edited proves nothing"
_SHOW = "measure again; gpumap report --accept-edited shows it all the same"
EDITED = Diagnostic(
    "edited", "the report was edited after gpumap wrote it", severity="warning", hint=_PROVES
)
_SHOWN = 200  # characters of what is wrong
_VERSION = 20  # of another gpumap


def read(path: Path, *, edited: bool = False) -> Report:
    """Return the report that `path` holds.

    Args:
        path: a file of `--output`.
        edited: take one that was edited too; a warning in its notes says so.

    Raises:
        SourceError: it cannot be read, or is no report that gpumap has written.
    """
    text = read_text(path, "report", LIMIT)
    tree = None
    try:
        with _uncollected():
            tree = parse(text)
            return _report(tree, edited=edited)
    except Refused as refused:
        raise _error(path, refused, tree) from refused


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage: none is made, and looking takes longer than reading a large report."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _report(tree: Any, *, edited: bool = False) -> Report:
    """Return the report of a tree; `tool` tells gpumap's reports from other JSON."""
    tool = tree.get("tool") if isinstance(tree, dict) else None
    if not isinstance(tool, dict) or tool.get("name") != "gpumap":
        raise Refused("it is JSON, but no report of gpumap", hint="name a file of --output")
    version = tree.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        hint = "read it with the gpumap that wrote it, or measure again with --output FILE.json"
        raise Refused(f"this gpumap reads version {SCHEMA_VERSION} alone", "$.schema_version", hint)
    own = tree.get("digest") == digest(tree)
    if not own and not edited:
        raise Refused("it was edited after it was written", "$.digest", _SHOW)
    found = report(tree)
    return found if own else replace(found, notes=(*found.notes, EDITED))


def _error(path: Path, refused: Refused, tree: Any) -> SourceError:
    where = "" if refused.path == "$" else f"{refused.path}: "
    said = printable(f"{where}{refused.reason}")
    cut = said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"
    place = f"cannot read the report {printable(str(path))}"
    hint = refused.hint or _hint(tree)
    beside = path.with_suffix(".json")
    if hint == JSON and beside != path and beside.exists():
        hint = f"give the report beside it, {printable(str(beside))}"
    return SourceError(f"{place}: {cut}", hint)


def _hint(tree: Any) -> str:
    """Return the fix for what a run did not write: another version may have."""
    tool = tree.get("tool") if isinstance(tree, dict) else None
    version = tool.get("version") if isinstance(tool, dict) else None
    if not isinstance(version, str) or version == __version__:
        return _PROVES
    wrote = f"gpumap {printable(version[:_VERSION])} wrote it, and this is {__version__}"
    return f"{wrote}: read it with that; or {_PROVES}"
