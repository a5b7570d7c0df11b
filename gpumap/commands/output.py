"""Where a report and what is said beside it go: stdout, stderr and files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.commands.program import Program
    from gpumap.errors import Diagnostic
    from gpumap.model import Report


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
    """Write the report to every file, then to stdout: a closed pipe loses no file.

    Raises:
        SourceError: a file cannot be written.
    """
    from gpumap.files import write_atomic
    from gpumap.report import Style, render

    for target in output.targets:
        write_atomic(target.path, render(target.format, report, Style()))
    format_ = _format(output.format, program)
    width = shutil.get_terminal_size().columns
    style = Style(width, color="NO_COLOR" not in program.env and program.stdout.isatty())
    program.stdout.write(render(format_, report, style))
    program.stdout.flush()


def say(diagnostics: Iterable[Diagnostic], program: Program, text: str | None = None) -> None:
    """Write diagnostics to stderr, with the place in `text` that each one points at."""
    from gpumap.report.diagnostics import render

    program.stderr.write(render(diagnostics, text))
    program.stderr.flush()


def _format(asked: str, program: Program) -> str:
    if asked != "auto":
        return asked
    terminal = program.stdout.isatty() and program.env.get("TERM") != "dumb"
    return "rich" if terminal else "plain"
