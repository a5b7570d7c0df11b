"""Where a report and what is said beside it go: stdout, stderr and files."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.program import columns, silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import TextIO

    from gpumap.app.program import Program
    from gpumap.errors import Diagnostic
    from gpumap.model import Report
    from gpumap.report import Style

    Form = Callable[[str, Style], str]  # what is said, in a format and a style

_STDOUT, _STDERR = 1, 2
_LINKS = 8  # that are followed: /dev/stdout is the second of two
_COLUMNS = 80  # of a terminal that does not know
# Codes of what is the result: stdout has it.
IN_RESULT = ("diagnosis", "nothing-to-diagnose", "works-here")


class Target(NamedTuple):
    """A file that a report is written to, and the form it takes there."""

    format: str
    path: Path


class Output(NamedTuple):
    """What the user asked of the output."""

    format: str = "auto"
    targets: tuple[Target, ...] = ()
    quiet: bool = False
    verbose: bool = False


def apart(output: Output, program: Program) -> tuple[Output, Program]:
    """Keep stdout for the report: what a driver prints there goes to stderr from now on.

    A file of the output that is stdout by another name is so still.
    """
    try:
        if program.stdout.fileno() != _STDOUT:
            return output, program
    except (OSError, ValueError):  # none of the system's
        return output, program
    program.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    encoding, errors = program.stdout.encoding, program.stdout.errors
    stream = open(kept, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - a descriptor, to the end
    return _moved(output, kept) if output.targets else output, program.to(stream, program.stderr)


def _moved(output: Output, kept: int) -> Output:
    from pathlib import Path

    from gpumap.files import STREAMS

    STREAMS.append(kept)
    found = (
        target._replace(path=Path(f"/dev/fd/{kept}")) if _is_stdout(target.path) else target
        for target in output.targets
    )
    return output._replace(targets=tuple(found))


def _is_stdout(path: Path) -> bool:
    """Return whether a path leads to this process's stdout by its number."""
    text = os.fspath(path)
    for _ in range(_LINKS):
        folder, name = os.path.split(text)
        if name == str(_STDOUT) and os.path.realpath(folder) in _descriptors():
            return True
        try:
            text = os.path.join(folder, os.readlink(text))  # noqa: PTH118, PTH115 - as text
        except (OSError, ValueError):
            return False
    return False


def _descriptors() -> tuple[str, str]:
    return f"/proc/{os.getpid()}/fd", "/dev/fd"


def emit(report: Report, output: Output, program: Program) -> None:
    """Write the report to every file, then to stdout: neither costs the other the result.

    Raises:
        SourceError: a file could not be written; one diagnostic for each of them.
    """

    def form(format_: str, style: Style) -> str:
        from gpumap.report import render

        return render(format_, report, style)

    deliver(form, output, program)


def deliver(form: Form, output: Output, program: Program) -> None:
    """Write what `form` makes to every file, then to stdout, each in its format.

    Raises:
        SourceError: a file could not be written; one diagnostic for each of them.
    """
    failures = _write(form, output) if output.targets else ()
    show(form, output.format, program, verbose=output.verbose)
    if failures:
        from gpumap.errors import SourceError

        raise SourceError(failures)


def show(form: Form, asked: str, program: Program, *, verbose: bool = False) -> None:
    """Write to stdout what `form` makes of the format that was asked for."""
    format_ = _format(asked, program)
    text = form(format_, _style(format_, program)._replace(verbose=verbose))
    try:
        program.stdout.write(text)
        program.stdout.flush()
    except OSError:
        silence(program.stdout)
        raise


def say(diagnostics: Iterable[Diagnostic], program: Program, text: str | None = None) -> None:
    """Write diagnostics to stderr, with the place in `text` that each one points at."""
    every = tuple(diagnostics)
    if not every:
        return
    from gpumap.report.diagnostics import render

    with suppress(OSError):  # a closed stderr must not lose the result
        program.stderr.write(render(every, text, columns(program.stderr)))
        program.stderr.flush()


def _write(form: Form, output: Output) -> tuple[Diagnostic, ...]:
    """Write every file that can be written; return what is wrong with the others."""
    from gpumap.errors import SourceError
    from gpumap.files import write_atomic
    from gpumap.report import Style

    failures: list[Diagnostic] = []
    for target in output.targets:
        try:
            text = form(target.format, Style(verbose=output.verbose))
            write_atomic(target.path, text)
        except SourceError as error:
            failures += error.diagnostics
    return tuple(failures)


def _style(format_: str, program: Program) -> Style:
    from gpumap.report import Style

    if format_ != "rich":  # the only one that looks at it
        return Style()
    color = "NO_COLOR" not in program.env and program.stdout.isatty()
    return Style(_width(program), color, _draws(program.stdout))


def _width(program: Program) -> int:
    """Return how wide stdout is, or as COLUMNS has it."""
    with suppress(ValueError):
        if (given := int(program.env.get("COLUMNS", ""))) > 0:
            return given
    return columns(program.stdout) or _COLUMNS


def _draws(stream: TextIO) -> bool:
    """Return whether lines can be drawn: a terminal of Latin-1 has none."""
    try:
        "─".encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _format(asked: str, program: Program) -> str:
    if asked != "auto":
        return asked
    if not program.stdout.isatty() or program.env.get("TERM") == "dumb":
        return "plain"
    from gpumap.app.own_rank import rank_of

    rank, _ = rank_of(program)  # what mpirun makes a terminal for it may be a file of the user's
    return "rich" if rank is None else "plain"
