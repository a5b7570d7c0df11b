"""`gpumap check-files`: the maps that stand in files, by their syntax alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpumap import sources
from gpumap.commands.options import FileType, setting
from gpumap.commands.output import say
from gpumap.errors import Diagnostic, Exit, MapError, SourceError
from gpumap.escape import printable
from gpumap.parse import parse_map

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.commands.program import Program
    from gpumap.model import MapText

_KEYS = {  # where in a file its map begins
    "gpumap.toml": re.compile(r"""^[ \t]*(["']?)map\1[ \t]*=""", re.MULTILINE),
    ".theanorc": re.compile(  # a section ends where a line begins another
        r"^\[global\].*\n(?:(?!\[).*\n)*?(?=(?i:contexts)\s*[=:])", re.MULTILINE
    ),
}


@click.command("check-files")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FileType())
@setting("--strict", is_flag=True, help="A warning is a no.")
@click.pass_obj
def check_files(program: Program, *, files: tuple[Path, ...], strict: bool) -> None:
    """Check the maps that stand in files, by their syntax alone.

    A gpumap.toml has its map behind `map =`, a .theanorc behind `contexts` of [global], and a
    pyproject.toml may have none; every other FILE is a map as --map-file reads it. No device is
    looked for. Every problem is said with its file and line, and ends in exit code 2; with
    --strict a warning ends in 1. As a hook of pre-commit it is called gpumap-maps.
    """
    count, wrong, warned = 0, False, False
    for path in files:
        found, problems = _checked(path, program)
        count += found is not None
        wrong |= any(problem.severity == "error" for problem in problems)
        warned |= any(problem.severity == "warning" for problem in problems)
        say(problems, program, found.text if found else None)
    if warned and strict:
        say([Diagnostic("strict", "--strict: there are warnings", hint="see above")], program)
    if wrong or (warned and strict):
        raise click.exceptions.Exit(Exit.QUESTION if wrong else Exit.NO)
    program.stdout.write(f"{_many(count, 'map')} in {_many(len(files), 'file')}: well-formed.\n")


def _checked(path: Path, program: Program) -> tuple[MapText | None, Sequence[Diagnostic]]:
    """Return the map of a file, if it has one, and all that is wrong or odd about it."""
    try:
        found, notes = sources.written(program.cwd / path, program.env)
    except SourceError as error:
        return None, error.diagnostics
    if found is None:
        return None, [_placed(note, path, None) for note in notes]
    try:
        told = parse_map(found.text).notes
    except MapError as error:
        told = error.diagnostics
    return found, [_placed(one, path, _line(found, one)) for one in (*notes, *told)]


def _placed(told: Diagnostic, path: Path, line: int | None) -> Diagnostic:
    """Return a diagnostic that says which file it is of, and which line."""
    place = printable(str(path)) + (f", line {line}" if line else "")
    return replace(told, message=f"{place}: {told.message.removeprefix('.theanorc: ')}")


def _line(found: MapText, told: Diagnostic) -> int | None:
    """Return the line of what is told: of a setting, where it begins."""
    if found.origin == "--map-file":
        return 1 + found.text.count("\n", 0, told.span.start if told.span else 0)
    from pathlib import Path

    from gpumap.files import read_text

    text = read_text(Path(found.path or ""), "file")
    key = _KEYS[found.origin].search(text)
    return 1 + text.count("\n", 0, key.end()) if key else None


def _many(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")
