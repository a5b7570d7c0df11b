"""The command line: the group, the one place that turns errors into exit codes, the streams."""

from __future__ import annotations

import io
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.app.program import Ended, columns, escape, hear_signals, interrupted, own, silence
from gpumap.errors import Exit, GpumapError
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.program import Program

# of the help: its commands, where in gpumap.commands each lives, its first line (a test compares)
SECTIONS = {
    "Map": {
        "check": ("map:check", "Check that every name of a map is a device that works."),
        "check-files": ("map:check_files", "Check the maps in files, by their syntax alone."),
        "devices": ("map:devices", "List the devices of each backend, and why one has none."),
        "doctor": ("map:doctor", "Say for each name whether its device is used; if not, why."),
        "preflight": ("map:preflight", "Say in limited time whether this machine may take a job."),
        "env": ("map:env", "Print a block for an issue: versions, devices, map, variables."),
    },
    "Measure": {
        "bench": ("bench:bench", "Measure a benchmark on the devices of a map."),
        "transfer-cost": ("measure:transfer_cost", "Measure copies between host and devices."),
        "predict": ("measure:predict", "Predict what more devices would give; measure nothing."),
        "scale": ("measure:scale", "Run a program on one name, two ...: how much faster is it?"),
        "selftest": ("measure:selftest", "Test gpumap here: round trips of data, false alarms."),
    },
    "Judge": {
        "compare": ("judge:compare", "Judge a new report, or command, against another."),
        "report": ("judge:report", "Show saved reports again: one, or several side by side."),
        "explain": ("judge:explain", "Say what a word of a report means, and what to do about it."),
    },
    "Run": {
        "trace": ("run:trace", "Run a script that uses gpumap; show what ran where."),
        "watch": ("run:watch", "Run a program; show which devices it used, and how busy."),
        "run": ("run:run", "Run a command once for each name of a map, on its device."),
        "exec": ("run:exec_", "Become a command on the device of this rank's entry of the map."),
    },
}
COMMANDS = {name: where for section in SECTIONS.values() for name, where in section.items()}
_CONFIG: dict[str, tuple[type, ...]] = {
    "map": (str,), "backend": (str,), "format": (str,), "quiet": (bool,), "limit": (str, list),
}  # fmt: skip
_BEFORE_COMMANDS = (["run"], ["exec"], ["scale"], ["watch"])  # which stand behind "--"
_COMPLETE = "_GPUMAP_COMPLETE"
_UNKNOWN = r"(?s)No such (?:command|option):? '?(.*?)'?\.?$"
_VARIABLE = r" \(env var: '[A-Z_]+'\)"  # which click names whether it was set or not
_NO_CHOICE = r"(?s)'(.*)' is not one of '"


class LazyGroup(click.Group):
    """A group that knows its commands by name, and imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return every command, in the order of the sections."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        module, _, attribute = COMMANDS.get(cmd_name, ("",))[0].partition(":")
        return getattr(import_module(f"gpumap.commands.{module}"), attribute) if module else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands, each with its first line, under the heading of their section."""
        for section, names in SECTIONS.items():
            with formatter.section(section):  # none is imported: help comes at once
                formatter.write_dl([(name, text) for name, (_, text) in names.items()])


@click.group(
    cls=LazyGroup,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="gpumap", message="%(prog)s %(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    """Name your devices once. Prove what they give you.

    A map such as "dev0->cuda0;dev1->cuda1" gives names to compute devices.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    else:
        ctx.default_map = _configured(ctx.obj)


def parameters(command: Sequence[str]) -> dict[str, click.Parameter]:
    """Return the options of a command by name, without those that only show something."""
    found: Any = group
    for word in command:
        found = found.get_command(click.Context(found), word)
    return {str(param.name): param for param in found.params if not param.is_eager}


def main(argv: Sequence[str] | None = None) -> int:
    """Run gpumap and return its exit code."""
    hear_signals()
    return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: list[str]) -> int:
    _buffer()
    for stream in (sys.stdout, sys.stderr):
        escape(stream)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
        code = Exit.CLOSED_PIPE
    except OSError as error:
        silence(sys.stdout)
        code = _complain(f"cannot write the result: {error.strerror}")
    try:
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
    return code


def _buffer() -> None:
    """Buffer a stdout that PYTHONUNBUFFERED left raw: a raw write may be short in silence."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        buffer = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(buffer, encoding=sys.stdout.encoding)


def _run(arguments: list[str]) -> int:
    try:
        words, command = _parted(arguments)
        program = own(tuple(arguments), command)
        if _COMPLETE in program.env:
            return _complete(program.env[_COMPLETE])
        with group.make_context("gpumap", words, obj=program) as ctx:
            group.invoke(ctx)
    except (click.exceptions.Exit, Ended) as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - the last net
        return failed(error, arguments)
    return 0


def failed(error: BaseException, arguments: list[str]) -> int:
    """Say what went wrong, and return its exit code."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException | GpumapError):
        return _refused(error, arguments)
    if isinstance(error, OSError) and error.filename is None:
        raise error  # of the streams: `main` knows
    return _internal(error)  # the last net: exit 70, and nothing lost; a library may exit, too


def _parted(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return what is gpumap's own, and the command after the first "--" of `run` and its like."""
    if arguments[:1] not in _BEFORE_COMMANDS or "--" not in arguments:
        return [*arguments], ()  # click takes the words away that it reads
    place = arguments.index("--")
    return arguments[:place], tuple(arguments[place + 1 :])


def _refused(error: click.ClickException | GpumapError, arguments: list[str]) -> int:
    """Say what is wrong with the question, and return its exit code."""
    if isinstance(error, GpumapError):
        from gpumap.report.diagnostics import render

        sys.stderr.write(render(error.diagnostics, columns=columns(sys.stderr)))
        return error.exit_code
    message = error.format_message().replace("\n\t", " ")  # choices, each in a line
    message = re.sub(_VARIABLE, "", message, count=1)
    if isinstance(error, click.UsageError):
        if re.match(_UNKNOWN, error.message):
            message = error.message  # what click would offer, `_advice` does
        message += _advice(error, message, arguments)
    return _complain(message)


def _configured(program: Program) -> dict[str, Any]:
    """Return the settings of gpumap.toml as defaults of every command's options."""
    from gpumap import config

    path = config.find(program.cwd, program.env.get("HOME"))
    if path is None:
        return {}
    settings = config.read(path, own=True)
    config.check(settings, _CONFIG, path)
    shared = {"format_" if k == "format" else k: v for k, v in settings.items() if k != "map"}
    if isinstance(shared.get("limit"), str):  # one needs no list
        shared["limit"] = [shared["limit"]]
    return dict.fromkeys(COMMANDS, shared)


def _advice(error: click.UsageError, message: str, arguments: list[str]) -> str:
    """Return where a refused value is from, the fix, and where the options are listed."""
    origin = _origin(error) if isinstance(error, click.BadParameter) else None
    fix = _spelled(error) or _quoting(error, message, arguments)
    return (
        (f"\n  the value is from {origin}" if origin else "")
        + (f"\n  fix: {fix}" if fix else "")
        + (f"\n  see: {error.ctx.command_path} --help" if error.ctx else "")
    )


def _quoting(error: click.UsageError, message: str, arguments: list[str]) -> str:
    """Return the fix for a map or a command that click, or a shell, took for something else."""
    option, extra = isinstance(error, click.NoSuchOption), "unexpected extra argument" in message
    dashed = any(a.startswith("-") and "->" in a[1:] and "=" not in a for a in arguments)
    if option and dashed:
        return 'write a map that begins with "-" behind --map='
    apart = "--" in arguments or "->" in arguments
    if not apart and arguments[:1] in _BEFORE_COMMANDS and (option or extra):
        return f'put "--" before the command: gpumap {arguments[0]} MAP -- COMMAND'
    if extra or "->" in arguments:
        return 'quote the map, a shell reads ">" and ";": "dev0->cuda0;dev1->cuda1"'
    return ""


def _spelled(error: click.UsageError) -> str:
    """Return what a command, option or choice that is not known may have meant."""
    from gpumap.text import nearest

    if isinstance(error, click.NoSuchOption) and error.option_name == "--map-file":
        return "write --map @FILE"
    known = _known(error)
    found = re.match(_UNKNOWN, error.message) or re.search(_NO_CHOICE, error.message)
    close = nearest(found[1].lstrip("-"), known) if found else ()
    return f"did you mean {known[close[0]]}?" if close else ""


def _known(error: click.UsageError) -> dict[str, str]:
    """Return the words that an error is about, each as it is to be typed."""
    if isinstance(error, click.BadParameter):
        type_ = error.param.type if error.param else None
        return {str(c): str(c) for c in type_.choices} if isinstance(type_, click.Choice) else {}
    if error.ctx is None:
        return {}
    if isinstance(error, click.NoSuchOption):
        every = (text for param in error.ctx.command.get_params(error.ctx) for text in param.opts)
        return {text[2:]: text for text in every if text.startswith("--")}
    if not isinstance(error.ctx.command, click.Group):
        return {}
    found = {name: name for name in error.ctx.command.list_commands(error.ctx)}
    if error.ctx.command is group:  # `gpumap dot` is for one of them
        bench = group.get_command(error.ctx, "bench")
        assert isinstance(bench, click.Group)
        found |= {name: f"bench {name}" for name in bench.list_commands(error.ctx)}
    else:  # `bench transfer-cost` is for one of gpumap's own
        found |= {name: f"gpumap {name}" for name in SECTIONS["Measure"] if name != "bench"}
    return found


def _origin(error: click.BadParameter) -> str | None:
    """Return where a refused value came from, if not from the command line."""
    if error.ctx is None or error.param is None or error.param.name is None:
        return None
    source = error.ctx.get_parameter_source(error.param.name)
    if source is ParameterSource.ENVIRONMENT:
        return f"the variable {error.param.envvar}"
    return "gpumap.toml" if source is ParameterSource.DEFAULT_MAP else None


def _complete(instruction: str) -> int:
    """Answer a shell by click's completion of commands, options and choices."""
    from click.shell_completion import shell_complete

    try:
        if shell_complete(group, {}, "gpumap", _COMPLETE, instruction) == 0:
            return 0
    except (KeyError, ValueError):  # a shell sets COMP_WORDS and COMP_CWORD too
        pass
    shells = "bash_source, zsh_source or fish_source"
    return _complain(f"{_COMPLETE} is {instruction!r}, not {shells}\n  fix: unset it")


def _complain(message: str, code: Exit = Exit.QUESTION) -> Exit:
    from gpumap.report.diagnostics import fitted

    lines = f"error: {message}".split("\n")
    try:
        sys.stderr.write("".join(f"{line}\n" for line in fitted(lines, columns(sys.stderr))))
    except OSError:
        silence(sys.stderr)
    return code


def _internal(error: BaseException) -> Exit:
    """Keep the traceback in a file: a user should not have to read one."""
    if interrupted():  # what was cut short made an error of it
        return Exit.INTERRUPTED
    if isinstance(error, MemoryError):
        message = "the host ran out of memory\n  fix: choose a smaller size, or raise the limit"
        return _complain(message)
    import tempfile
    import traceback

    trace = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="gpumap-", suffix=".traceback", delete=False, errors="backslashreplace"
        ) as file:
            file.write(trace)
        where = file.name
    except OSError:  # no folder for it: then the user has to read it
        where = f"this traceback:\n{trace}"
    what = f"gpumap itself failed: {type(error).__name__}: {error}"
    return _complain(f"{what}\n  fix: report it with {where}", Exit.INTERNAL)
