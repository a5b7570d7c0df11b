"""`gpumap check-files`: the maps that stand in files, by their syntax alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.app.output import say
from gpumap.commands.option_types import FileType
from gpumap.commands.options import setting

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.errors import Diagnostic


@click.command("check-files")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FileType())
@setting("--strict", is_flag=True, help="Treat warnings as errors (exit code 1).")
@click.pass_obj
def check_files(program: Program, *, files: tuple[Path, ...], strict: bool) -> None:
    """Check the maps that stand in files, by their syntax alone.

    A gpumap.toml has its map behind `map =`, a .theanorc behind `contexts` of [global], and a
    pyproject.toml may have none; every other FILE is a map as --map-file reads it. No device is
    looked for. Every problem is said with its file and line, and ends in exit code 2; with
    --strict a warning ends in 1. As a hook of pre-commit it is called gpumap-maps.
    """
    from pathlib import Path

    from gpumap.app import checking

    def tell(problems: Iterable[Diagnostic], text: str | None) -> None:
        say(problems, program, text)

    code, said = checking.check_files(files, Path(program.cwd), program.env, tell, strict=strict)
    if code:
        raise click.exceptions.Exit(code)
    program.stdout.write(said)
