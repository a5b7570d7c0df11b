"""Saved reports, shown again: one as its run did, several side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.app.output import Output, deliver, emit, speak
from gpumap.errors import QuestionError
from gpumap.model import io
from gpumap.results import several

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.model import Report


def show_reports(
    program: Program, *, files: tuple[Path, ...], schema: bool, nodes: Path | None, output: Output
) -> None:
    """Show one report as its run did, several side by side; nodes; or the schema."""
    if [schema, bool(files), nodes is not None].count(True) != 1:
        fix = "gpumap report FILE.json, gpumap report --nodes DIR, or gpumap report --schema"
        raise QuestionError("name saved reports, a folder of nodes' reports, or the schema", fix)
    if nodes is not None:
        from gpumap.app.nodes import show_nodes

        _refuse_one(output)
        show_nodes(program, nodes, output)
    elif schema:
        from gpumap.model.json_text import text
        from gpumap.model.schema import published

        program.stdout.write(text(published()))
    else:
        _show(files, output, program)


def _show(files: Sequence[Path], output: Output, program: Program) -> None:
    if len(files) == 1:
        found = io.read(files[0])
        emit(found, output, program)
        speak(found, found.notes, output, program)  # as its run did
        return
    _refuse_one(output)
    table = several.table(_labelled(files, list(map(io.read, files))))
    deliver(partial(several.render, table), output, program)


def _refuse_one(output: Output) -> None:
    """Refuse a format that is of one report, before anything is read."""
    for format_ in (output.format, *(target.format for target in output.targets)):
        if format_ not in (*several.FORMATS, "auto"):
            fix = f"name one FILE, or take one of {', '.join(several.FORMATS)}"
            raise QuestionError(f"{format_} is a format of one report", fix)


def _labelled(paths: Sequence[Path], reports: Sequence[Report]) -> list[several.Saved]:
    """Return the reports by their files' names; where these are the same, by their paths."""
    names = [path.name for path in paths]
    labels = [n if names.count(n) == 1 else str(p) for n, p in zip(names, paths, strict=True)]
    return list(map(several.Saved, labels, reports))
