"""`gpumap trace`: run a script that uses gpumap, and show what ran where and what was moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import FileType, NewFileType
from gpumap.commands.options import map_texts, output_options, setting
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.program import Program


_COMMAND = 'put "--" before a command: gpumap trace [MAP] -- COMMAND ARG...'


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("path", metavar="[MAP] SCRIPT", type=FileType(), required=False)
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
@setting(
    "--expect-used",
    is_flag=True,
    help="COMMAND only: exit code 1 instead of 0 if a name's device was not used, 5 if gpumap "
    "cannot tell.",
)
@setting(
    "--times",
    is_flag=True,
    help="COMMAND only: time OpenCL kernels and copies on the device, by events.",
)
@output_options
@click.pass_context
def trace(
    context: click.Context,
    /,
    *,
    path: Path | None,
    arguments: tuple[str, ...],
    expect_used: bool,
    times: bool,
    **options: Any,
) -> None:
    """Run a script or a program; show what it did with its devices.

    gpumap trace [MAP] -- COMMAND ARG... runs any program unmodified, and samples how busy it keeps
    each name's device and whether it uses it. A layer counts its OpenCL calls. Its exit code is
    gpumap's (128 and its number for a signal). What cannot be observed is "cannot tell", never
    "not used".

    gpumap trace [MAP] SCRIPT ARGS... runs a script that uses gpumap as `python SCRIPT ARGS...`
    would, and shows what ran where, and implicit transfers. MAP (or --map) and --backend are what
    `gpumap.open()` finds in it. The exit code is 0 if the script ended well, 1 if it did not or
    opened no context, 2 if it is not Python, 3 if a device is not there, or failed. A script that
    calls os._exit or os.exec* ends gpumap too: there is no result then, and the files of --output
    and --perfetto, emptied before it runs, stay empty.

    The result comes after the program's own output: to keep them apart, use --output.
    """
    program: Program = context.obj
    if program.command is not None:
        if arguments:
            context.fail(f"Got unexpected extra argument ({arguments[0]})")
        _trace_command(program, path, expect_used=expect_used, times=times, **options)
        return
    if path is None:
        raise click.MissingParameter(ctx=context, param=context.command.params[0])
    for name in ("expect_used", "times"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            fix = f'put the program after "--": gpumap trace {option} -- python SCRIPT'
            raise QuestionError(f"{option} is of a COMMAND", fix)
    from gpumap.app.tracing import TraceRequest, trace_script

    argument = None
    if "->" in str(path) and not path.exists():
        argument = _typed(path, program)
        path, arguments = _script(path, arguments)
    trace_script(program, TraceRequest(path, arguments, argument, **options))


def _script(map_: Path, arguments: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
    """Return the script behind a map, and its arguments.

    Raises:
        QuestionError: there is none; the words are options or a command.
    """
    if not arguments:
        raise QuestionError("no script is given, and no command", _COMMAND)
    word, path = arguments[0], type(map_)(arguments[0])
    if word.startswith("-") and not path.exists():
        raise QuestionError(f"the option {word} is behind the map", "write options before the map")
    if not path.exists():
        raise QuestionError(f"cannot read the script {word}: there is no such file", _COMMAND)
    return path, arguments[1:]


def _trace_command(program: Program, path: Path | None, **options: Any) -> None:
    from gpumap.app.watched_programs import TraceCommand, trace_command

    if options.pop("perfetto") is not None:
        fix = "omit it; of a script that uses gpumap: gpumap trace --perfetto FILE SCRIPT"
        raise QuestionError("--perfetto is of a SCRIPT: of other programs no event is seen", fix)
    argument = None if path is None else _typed(path, program)
    trace_command(program, TraceCommand(argument, **options))


def _typed(path: Path, program: Program) -> str:
    """Return an argument as it was typed: a path would lose a slash."""
    as_path = type(path)
    return next(word for word in program.argv if as_path(word) == path)
