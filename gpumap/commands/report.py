"""`gpumap report`: saved reports, shown again; several of them side by side, or over time."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING

import click

from gpumap.commands.options import FileType, edited_option, output_options, setting
from gpumap.errors import Diagnostic, QuestionError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.judge.select import Selector
    from gpumap.model import Report
    from gpumap.report.beside import Saved, View

_COLUMNS = ("row", "metric")  # of the table side by side, before the reports


class SelectorType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``dot.many[size=1024].speedup``."""

    name = "selector"

    def convert(
        self, value: str | Selector, param: click.Parameter | None, ctx: click.Context | None
    ) -> Selector:
        """Return what a text selects; fail with the place of what cannot be."""
        from gpumap.judge.select import Selector
        from gpumap.report.diagnostics import render

        if isinstance(value, Selector):
            return value
        try:
            return Selector.parse(value)
        except QuestionError as error:
            said = render(error.diagnostics, value).rstrip("\n")
            self.fail(said.removeprefix("error: "), param, ctx)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, type=FileType())
@setting(
    "--over-time",
    metavar="SELECTOR",
    type=SelectorType(),
    help="Follow a figure through the reports in the order of their runs: dot.many.speedup, or "
    "dot.many[size=1024].speedup.",
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of reports instead.")
@edited_option
@output_options
@click.pass_obj
def report(
    program: Program,
    *,
    files: tuple[Path, ...],
    over_time: Selector | None,
    schema: bool,
    accept_edited: bool,
    output: Output,
) -> None:
    """Show saved reports again: one in any format, several side by side.

    A FILE is JSON that --output has written. Several become one table, rows joined by id, each
    figure with its ratio to the first report; verdicts are for `gpumap compare`. The exit code is
    0 if they could be shown, whatever theirs was, and 2 if not.
    """
    if schema == bool(files):
        fix = "gpumap report FILE.json, or gpumap report --schema"
        raise QuestionError("name a saved report or ask for the schema: one of the two", fix)
    if schema:
        _print_schema(program)
    elif len(files) == 1 and over_time is None:
        _show_one(files[0], output, program, edited=accept_edited)
    else:
        _show_all(files, over_time, output, program, edited=accept_edited)


def _print_schema(program: Program) -> None:
    from gpumap.report.json import written
    from gpumap.saved.schema import published

    program.stdout.write(written(published()))


def _show_one(path: Path, output: Output, program: Program, *, edited: bool) -> None:
    """Show a report as its run did, and say on stderr what the run said."""
    from gpumap.commands.output import IN_RESULT, emit, say

    (found,) = _read((path,), edited=edited)
    text = found.source.text if found.source else None
    said = () if output.quiet else found.notes
    let_pass = (problem.diagnostic for problem in found.errors if problem.exit or not output.quiet)
    say(said, program, text)
    say((error for error in let_pass if error.code not in IN_RESULT), program, text)
    emit(found, output, program)


def _show_all(
    paths: Sequence[Path],
    over_time: Selector | None,
    output: Output,
    program: Program,
    *,
    edited: bool,
) -> None:
    from gpumap.commands.output import deliver
    from gpumap.report.beside import FORMATS, OverTime, SideBySide, render

    _only(tuple(FORMATS), output)
    saved = _labelled(paths, _read(paths, edited=edited))
    view: View = SideBySide(saved) if over_time is None else OverTime.of(saved, over_time)
    if isinstance(view, OverTime) and not view.lines:
        raise QuestionError(f"no report has a figure of {over_time}", _others(saved, over_time))
    deliver(partial(render, view), output, program)


def _only(known: Sequence[str], output: Output) -> None:
    """Refuse a format that is of one report, before anything is read."""
    asked = [output.format, *(target.format for target in output.targets)]
    for format_ in asked:
        if format_ not in (*known, "auto"):
            fix = f"name one FILE, or take one of {', '.join(known)}"
            raise QuestionError(f"{format_} is a format of one report", fix)


def _read(paths: Sequence[Path], *, edited: bool) -> list[Report]:
    """Return the reports.

    Raises:
        SourceError: with one diagnostic for each that cannot be read.
    """
    from gpumap import saved

    found: list[Report] = []
    wrong: list[Diagnostic] = []
    for path in paths:
        try:
            found.append(saved.read(path, edited=edited))
        except SourceError as error:
            wrong += error.diagnostics
    if wrong:
        raise SourceError(tuple(wrong))
    gc.freeze()  # what was read stays: to look for garbage in it takes longer than to show it
    return found


def _labelled(paths: Sequence[Path], reports: Sequence[Report]) -> list[Saved]:
    """Return the reports by their files' names; where these are the same, by more of the path."""
    from gpumap.report.beside import Saved

    names = [path.name for path in paths]
    wished = [n if names.count(n) == 1 else str(p) for n, p in zip(names, paths, strict=True)]
    labels: list[str] = []
    for wish in wished:
        labels.append(_free(wish, (*_COLUMNS, *labels)))
    return [Saved(*each) for each in zip(labels, map(str, paths), reports, strict=True)]


def _free(wish: str, taken: Sequence[str]) -> str:
    """Return a label that nothing else has."""
    number = 2
    label = wish
    while label in taken:
        label = f"{wish} ({number})"
        number += 1
    return label


def _others(saved: Sequence[Saved], selector: Selector | None) -> str:
    """Return what could have been asked for instead."""
    from difflib import get_close_matches

    from gpumap.judge.beside import lines
    from gpumap.judge.select import taken_apart

    assert selector is not None
    known = [f"{taken_apart(x.id)[0]}.{x.metric}" for x in lines([each.report for each in saved])]
    asked = f"{selector.bench}.{selector.case}.{selector.metric}"
    near = get_close_matches(asked, dict.fromkeys(known), 3, 0.0)
    return f"there are {', '.join(near)}" if near else "none of them has a figure"
