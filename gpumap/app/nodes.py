"""`gpumap report --nodes DIR`: reports of preflight from several nodes, and two lists of them."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.output import Output, deliver
from gpumap.errors import QuestionError, SourceError
from gpumap.files import write_atomic
from gpumap.model import io
from gpumap.results.nodes import Node, table
from gpumap.results.several import render

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NONE = "each node writes one: gpumap preflight --output DIR/$(hostname).json"


def show_nodes(program: Program, folder: Path, output: Output) -> None:
    """Show the nodes of a folder, and write passing.txt and failing.txt there, a name in each line.

    A report that cannot be read is of a node that fails.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise QuestionError(f"{folder} has no report (*.json)", _NONE)
    for path in files:
        if not _NODE.fullmatch(path.stem):  # in a list of nodes it would be others, or several
            raise QuestionError(f"{path.name!r} is not called as a node is", _NONE)
    nodes = list(map(_node, files))
    for name, fit in (("passing.txt", True), ("failing.txt", False)):
        write_atomic(folder / name, "".join(f"{each.name}\n" for each in nodes if each.fit is fit))
    deliver(partial(render, table(nodes)), output, program)


def _node(path: Path) -> Node:
    try:
        return Node.of(path.stem, io.read(path))
    except SourceError as error:
        return Node(path.stem, "cannot-tell", str(error))
