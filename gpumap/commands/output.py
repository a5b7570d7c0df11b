"""Where a report and what is said beside it go: stdout, stderr and files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path  # noqa: TC004 - nobody reads these annotations at run time
    from typing import TextIO

    from gpumap.commands.program import Program
    from gpumap.errors import Diagnostic
    from gpumap.model import Report
    from gpumap.report import Style

    Form = Callable[[str, Style], str]  # what is said, in a format and a style

IN_RESULT = ("diagnosis", "nothing-to-diagnose")  # codes of what is the result: stdout has it


@dataclass(frozen=True, slots=True)
class Target:
    """A file that a report is written to, and the form it takes there."""

    format: str
    path: Path


@dataclass(frozen=True, slots=True)
class Output:
    """What the user asked of the output."""

    format: str = "auto"
    targets: tuple[Target, ...] = ()
    quiet: bool = False


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
    failures = _write(form, output.targets) if output.targets else ()
    show(form, output.format, program)
    if failures:
        from gpumap.errors import SourceError

        raise SourceError(failures)


def show(form: Form, asked: str, program: Program) -> None:
    """Write to stdout what `form` makes of the format that was asked for."""
    format_ = _format(asked, program)
    program.stdout.write(form(format_, _style(format_, program)))
    program.stdout.flush()


def say(diagnostics: Iterable[Diagnostic], program: Program, text: str | None = None) -> None:
    """Write diagnostics to stderr, with the place in `text` that each one points at."""
    every = tuple(diagnostics)
    if not every:
        return
    from gpumap.commands.program import columns
    from gpumap.report.diagnostics import render

    with suppress(OSError):  # a stderr that nobody reads costs no one the result
        program.stderr.write(render(every, text, columns(program.stderr)))
        program.stderr.flush()


def _write(form: Form, targets: Iterable[Target]) -> tuple[Diagnostic, ...]:
    """Write every file that can be written; return what is wrong with the others."""
    from gpumap.errors import SourceError
    from gpumap.files import write_atomic
    from gpumap.report import Style

    failures: list[Diagnostic] = []
    for target in targets:
        try:
            write_atomic(target.path, form(target.format, Style()))
        except SourceError as error:
            failures += error.diagnostics
    return tuple(failures)


def _style(format_: str, program: Program) -> Style:
    from gpumap.report import Style

    if format_ != "rich":  # the only one that looks at it
        return Style()
    from shutil import get_terminal_size

    color = "NO_COLOR" not in program.env and program.stdout.isatty()
    return Style(get_terminal_size().columns, color, _draws(program.stdout))


def _draws(stream: TextIO) -> bool:
    """Return whether lines and bars can be written: a terminal of Latin-1 has none."""
    try:
        "─█▒●".encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _format(asked: str, program: Program) -> str:
    if asked != "auto":
        return asked
    if not program.stdout.isatty() or program.env.get("TERM") == "dumb":
        return "plain"
    from gpumap.commands.seating import seated

    rank, _ = seated(program)  # what mpirun makes a terminal for it may be a file of the user's
    return "rich" if rank is None else "plain"
