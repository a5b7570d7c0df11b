"""Options that several commands share: one decorator for each group of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gpumap.commands.output import Output, Target, say
from gpumap.errors import Diagnostic, SourceError
from gpumap.escape import printable
from gpumap.report import FORMATS, SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    F = TypeVar("F", bound=Callable[..., Any])


def setting(name: str, *others: str, **settings: Any) -> Callable[[F], F]:
    """Return click's option, with a variable of the same name that `--help` shows."""
    word = name.partition("/")[0].removeprefix("--")  # of --model/--no-model the first
    variable = f"GPUMAP_{word.replace('-', '_').upper()}"
    return click.option(name, *others, envvar=variable, show_envvar=True, **settings)


def map_argument(command: F) -> F:
    """Take the map as an argument: ``[MAP]``."""
    return click.argument("argument", metavar="[MAP]", required=False)(command)


def map_options(command: F) -> F:
    """Take the map by ``--map`` or ``--map-file``, and the backend that drives it."""
    return map_texts(
        backend_option("Drive the devices with this backend; all: measure each one.")(command)
    )


def backend_option(help_: str) -> Callable[[F], F]:
    """Name the backend that drives the devices."""
    return setting("--backend", metavar="NAME", help=help_)


def map_texts(command: F) -> F:
    """Take the map by ``--map`` or ``--map-file``."""
    for decorate in (
        click.option("--map-file", metavar="FILE", type=FileType(),
                     help="Read the map from a file."),
        click.option("--map", "option", metavar="MAP", help='The map: "dev0->cuda0;dev1->cuda1".'),
    ):  # fmt: skip
        command = decorate(command)
    return command


def timeout_option(seconds: float) -> Callable[[F], F]:
    """End a command that only looks: a driver may hang in any call."""
    return setting(
        "--timeout",
        type=DurationType(),
        default=f"{seconds:g}s",
        show_default=True,
        help="End the process after this time.",
    )


def output_options(command: F) -> F:
    """Say in which form the report comes out, and where; handed on as one `Output`."""

    def collected(*, format_: str, output: tuple[Target, ...], quiet: bool, **others: Any) -> Any:
        from gpumap.commands.places import refuse_collisions

        context = click.get_current_context()
        refuse_collisions(context, FileType, (TargetType, NewFileType))
        if output and context.get_parameter_source("output") is ParameterSource.DEFAULT_MAP:
            say(_configured(output), context.obj)  # also where it is quiet: it is not seen here
        return command(output=Output(format_, output, quiet), **others)

    wrapped = wrapped_by(collected, command)
    for decorate in (
        setting("--quiet", is_flag=True, help="No notes and no progress on stderr."),
        setting("--output", metavar="[FORMAT=]PATH", multiple=True, type=TargetType(),
                     help="Write the report to a file too; repeatable."),
        setting("--format", "format_", type=click.Choice(["auto", *FORMATS]), default="auto",
                     show_default=True,
                     help="The form of the report on stdout."),
    ):  # fmt: skip
        wrapped = decorate(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _configured(output: tuple[Target, ...]) -> Iterator[Diagnostic]:
    for target in output:
        message = f"gpumap.toml has the report written to {printable(str(target.path))}"
        yield Diagnostic("output", message, severity="note")


def wrapped_by(collected: Callable[..., Any], command: Callable[..., Any]) -> Any:
    """Return `collected` in the place of `command`, with its name, help and options."""
    wrapped: Any = partial(collected)
    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])
    return wrapped


class FileType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A path; `click.Path` would do, but pathlib takes 5 ms of every start."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        """Return the path as it is: who reads the file says what is wrong with it."""
        from pathlib import Path

        return Path(value)


class DurationType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``30``, ``30s``, ``500ms`` or ``2m``, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        from gpumap import units

        try:
            return units.duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NewFileType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A path that a file is to be written to."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; fail before anything is done if no file can be written there."""
        from pathlib import Path

        from gpumap.files import check_writable

        path = Path(value)
        try:
            if ctx is None or not ctx.resilient_parsing:  # a shell completes words
                check_writable(path)
        except SourceError as error:
            (found,) = error.diagnostics
            self.fail(f"{found.message}\n  fix: {found.hint}", param, ctx)
        return path


class TargetType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``report.json`` (the suffix tells the format) or ``FORMAT=PATH``."""

    name = "target"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Target:
        """Return where a report goes; fail before anything is measured if it cannot go there."""
        from pathlib import Path

        format_, found, path = str(value).partition("=")
        if not found:
            format_, path = SUFFIXES.get(Path(value).suffix, ""), str(value)
        if format_ not in FORMATS:
            known = ", ".join(FORMATS)
            self.fail(f"no format in {value!r}; write FORMAT=PATH with one of {known}", param, ctx)
        return Target(format_, NewFileType().convert(path, param, ctx))


edited_option = click.option(
    "--accept-edited", is_flag=True,
    help="Read a report that was edited after it was written too; a warning says so.",
)  # fmt: skip
