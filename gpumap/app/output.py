"""Reports to stdout and files, messages and progress to stderr."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self

from gpumap.app.program import Program, columns, rank_of, silence
from gpumap.errors import Diagnostic, SourceError
from gpumap.report import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from gpumap.engine.base import Settings
    from gpumap.model import Report

    Form = Callable[[str, Style], str]  # what is said, in a format and a style

_STDOUT, _STDERR = 1, 2
_COLUMNS = 80  # of a terminal that does not know


class Target(NamedTuple):
    """A file that a report is written to, and the form it takes there."""

    format: str
    path: Path


class Output(NamedTuple):
    """What the user requested of the output."""

    format: str = "auto"
    targets: tuple[Target, ...] = ()
    quiet: bool = False
    verbose: bool = False


def reserve_stdout(program: Program) -> Program:
    """Keep stdout for the report: what a driver prints there goes to stderr from now on."""
    try:
        if program.stdout.fileno() != _STDOUT:
            return program
    except (OSError, ValueError):  # none of the system's
        return program
    program.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    encoding, errors = program.stdout.encoding, program.stdout.errors
    stream = open(kept, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - a descriptor, to the end
    return program._replace(stdout=stream)


def emit(report: Report, output: Output, program: Program) -> None:
    """Write the report to every file, then to stdout: neither costs the other the result.

    Raises:
        SourceError: a file could not be written; one diagnostic for each of them.
    """
    from gpumap.results.shown import render

    deliver(lambda format_, style: render(format_, report, style), output, program)


def deliver(form: Form, output: Output, program: Program) -> None:
    """Write what `form` makes to every file, then to stdout, each in its format.

    Raises:
        SourceError: a file could not be written; one diagnostic for each of them.
    """
    failures = _write(form, output)
    format_ = _format(output.format, program)
    text = form(format_, _style(format_, program)._replace(verbose=output.verbose))
    try:
        program.stdout.write(text)
        program.stdout.flush()
    except OSError:
        silence(program.stdout)
        raise
    if failures:
        raise SourceError(failures)


def say(diagnostics: Iterable[Diagnostic], program: Program, text: str | None = None) -> None:
    """Write diagnostics to stderr, with the place in `text` that each one points at."""
    every = tuple(diagnostics)
    if not every:
        return
    from gpumap.report.diagnostics import render

    with suppress(OSError):  # a closed stderr must not lose the result
        program.stderr.write(render(every, text, columns(program.stderr)))
        program.stderr.flush()


def speak(
    report: Report,
    notes: Iterable[Diagnostic],
    output: Output,
    program: Program,
    silent: Collection[int] = (),
) -> None:
    """Write a report's notes and errors to stderr, but for what its text on stdout has.

    Args:
        report: what is shown on stdout.
        notes: those of its notes that are worth it; `output.quiet` leaves them out.
        output: what was requested.
        program: whose stderr it is.
        silent: exit codes of errors that are left out.
    """
    from gpumap.results import spec_of

    on_stdout = spec_of(report).in_sections
    text = report.source.text if report.source else None
    if not output.quiet:
        say((note for note in notes if note.code not in on_stdout), program, text)
    errors = (p for p in report.errors if p.exit not in silent)
    shown = (p.diagnostic for p in errors if p.exit or not output.quiet)  # 0: it was let pass
    say((error for error in shown if error.code not in on_stdout), program, text)


def _write(form: Form, output: Output) -> tuple[Diagnostic, ...]:
    """Write every file that can be written; return what is wrong with the others."""
    from gpumap.files import write_atomic

    failures: list[Diagnostic] = []
    for target in output.targets:
        try:
            text = form(target.format, Style(verbose=output.verbose))
            write_atomic(target.path, text)
        except SourceError as error:
            failures += error.diagnostics
    return tuple(failures)


def _style(format_: str, program: Program) -> Style:
    if format_ != "rich":  # the only one that looks at it
        return Style()
    color = "NO_COLOR" not in program.env and program.stdout.isatty()
    return Style(_width(program), color)


def _width(program: Program) -> int:
    """Return how wide stdout is, or as COLUMNS has it."""
    with suppress(ValueError):
        if (given := int(program.env.get("COLUMNS", ""))) > 0:
            return given
    return columns(program.stdout) or _COLUMNS


def _format(requested: str, program: Program) -> str:
    if requested != "auto":
        return requested
    if not program.stdout.isatty() or program.env.get("TERM") == "dumb":
        return "plain"
    rank, _ = rank_of(program)  # what mpirun makes a terminal for it may be a file of the user's
    return "rich" if rank is None else "plain"


_BEAT = 30.0  # seconds from one line of a log to the next, and to the first
_OFTEN = 0.5  # seconds from one look at a terminal to the next


class Progress:
    """Tells what is being done, as long as its context lasts.

    It writes a line now and then in a log; on a terminal one line, again and again.
    """

    def __init__(self, program: Program, output: Output, settings: Settings) -> None:
        command = " ".join(program.argv[: 2 if program.argv[:1] == ("bench",) else 1])
        self.doing = f"{command}: looking for devices"
        self._stream, self._settings = program.stderr, settings
        self._quiet = output.quiet or settings.dry_run
        self._live = program.stderr.isatty()
        self.over = threading.Event()  # at the end of the run
        self._start = monotonic()
        self._thread = threading.Thread(target=self.beat, daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Tell nothing more; a terminal has room for what comes."""
        self.over.set()
        if self._live and not self._quiet and self._thread.is_alive():
            self._thread.join(_OFTEN)
            self._write("")

    def beat(self) -> None:
        """Tell that the run goes on, whatever it waits for."""
        while not self.over.wait(_OFTEN if self._live else _BEAT):
            spent = f"{monotonic() - self._start:.0f} s of {self._settings.budget:g} s"
            self._write(f"gpumap: {self.doing}, {spent}")

    def _write(self, line: str) -> None:
        """Write a line; on a terminal in the place of the last one."""
        from gpumap.report.diagnostics import fitted

        if self._live:
            width = (columns(self._stream) or _COLUMNS) - 1
            text = f"\r{line[:width]:{width}}\r"
        else:
            text = "".join(f"{part}\n" for part in fitted([line], columns(self._stream)))
        with suppress(OSError, ValueError):  # a closed stderr must not lose the result
            self._stream.write(text)
            self._stream.flush()
