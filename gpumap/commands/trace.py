"""`gpumap trace`: run a script that uses gpumap, and show what ran where and what was moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType, NewFileType
from gpumap.commands.options import map_texts, output_options, setting

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("path", metavar="[MAP] SCRIPT", type=FileType())
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@map_texts
@setting(
    "--backend",
    metavar="NAME",
    help="What drives the devices of each `gpumap.open()` that names no backend.",
)
@setting(
    "--perfetto",
    metavar="FILE",
    type=NewFileType(),
    help="Write the trace for ui.perfetto.dev and chrome://tracing.",
)
@output_options
@click.pass_obj
def trace(program: Program, /, *, path: Path, arguments: tuple[str, ...], **options: Any) -> None:
    """Run a script that uses gpumap; show what ran where, and what was moved unasked.

    SCRIPT runs as `python SCRIPT ARGS...` would; all arguments after it are its own. MAP (or
    --map) and --backend are what `gpumap.open()` finds in it. The result comes after the script's
    own output: to keep them apart, use --output. The exit code is 0 if the script ended well, 1 if
    it did not or opened no context, 2 if it is not Python, 3 if a device is not there, or failed. A
    script that calls os._exit or os.exec* ends gpumap too: there is no result then, and the files
    of --output and --perfetto, emptied before it runs, stay empty.
    """
    from gpumap.app.tracing import TraceRequest, trace_script

    argument = None
    if arguments and "->" in str(path) and not path.exists():
        as_path = type(path)
        argument = next(word for word in program.argv if as_path(word) == path)  # as it is typed
        path, arguments = as_path(arguments[0]), arguments[1:]
    trace_script(program, TraceRequest(path, arguments, argument, **options))
