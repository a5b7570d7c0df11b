"""Commands that measure, each run as a child process: a report's once more, or one as text."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from gpumap.errors import (
    AbsentError,
    DeviceError,
    GpumapError,
    QuestionError,
    TimedOut,
    WrongDataError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.app.program import Program
    from gpumap.model import Report

COMMANDS = ("bench", "transfer-cost")  # what measures, and can be compared
_OURS = (sys.executable, "-P", "-m")  # -P: a folder "gpumap" here is not this package
_KEPT = ("--output",)  # what the first run has written stays
_GRAMMAR = "write it as [VAR=VALUE ...] [LAUNCHER ...] [PYTHON -m] gpumap bench ..."
_MEASURES = f"use {' or '.join(COMMANDS)}, as one command: no shell runs it"
_ALONE = "see whether it runs alone"
_WHOLE = (0, 1, 5)  # exit codes of a run that came to its end
_ERRORS: dict[int, type[GpumapError]] = {
    3: AbsentError,
    4: WrongDataError,
    124: TimedOut,
}  # by a child's exit code
_LEAST, _BUDGETS = 60.0, 10.0  # the default time limit of what measures, as its help has it
_GRACE = 60.0  # seconds beyond its own time limit: to start, and to write its report
_LINES = 3  # of what it said when it failed


class Run(NamedTuple):
    """A command that measures: what starts gpumap, and the words behind that."""

    name: str  # in messages
    starts: tuple[str, ...]
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    limit: float  # seconds that it may take


def once_more(report: Report) -> Run:
    """Return the command line of a report.

    Raises:
        QuestionError: it is none that measures.
    """
    name, argv = "the second run of NEW", tuple(_without(report.argv, _KEPT))
    _command(name, argv)
    return Run(name, _OURS, argv, {}, float(report.settings["timeout_s"]) + _GRACE)


def of_text(name: str, text: str) -> Run:
    """Return a command as the user wrote it, split without a shell.

    Raises:
        QuestionError: it is none that measures.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise QuestionError(f"{name}: {text!r} cannot be split: {error}", _GRAMMAR) from error
    if "gpumap" not in words:
        raise QuestionError(f'{name}: "{text}" is not gpumap', _GRAMMAR)
    at = words.index("gpumap")
    settings = list(takewhile(lambda word: "=" in word, words[:at]))
    launcher, argv = tuple(words[len(settings) : at]), tuple(words[at + 1 :])
    if launcher and shutil.which(launcher[0]) is None:
        raise QuestionError(f"{name}: there is no command {launcher[0]}", _GRAMMAR)
    starts = launcher if launcher[-1:] == ("-m",) else (*launcher, *_OURS)
    variables = dict(word.split("=", 1) for word in settings)
    return Run(name, starts, argv, variables, _limit(_command(name, argv), argv, variables))


def words_of(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line that name what it measures."""
    return tuple(argv[: 2 if argv[0] == "bench" else 1])


def _without(argv: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield a command line without some options and their values."""
    rest = iter(argv)
    for word in rest:
        name, glued, _ = word.partition("=")
        if name not in options:
            yield word
        elif not glued:
            next(rest, None)


def _command(name: str, argv: Sequence[str]) -> click.Command:
    """Return the command that a command line is of.

    Raises:
        QuestionError: it measures nothing.
    """
    context = click.get_current_context().find_root()
    command: click.Command | None = context.command if argv and argv[0] in COMMANDS else None
    for word in words_of(argv) if command else ():
        command = command.get_command(context, word) if isinstance(command, click.Group) else None
    if command is None or isinstance(command, click.Group):
        what = " ".join(["gpumap", *argv[:2]])
        raise QuestionError(f'{name}: "{what}" measures nothing', _MEASURES)
    return command


def _limit(command: click.Command, argv: Sequence[str], variables: Mapping[str, str]) -> float:
    """Return the seconds that a child may take: its own time limit, and to start and report."""
    given = {option: variables.get(f"GPUMAP_{option.upper()}") for option in ("budget", "timeout")}
    before = [f"--{option}={value}" for option, value in given.items() if value]
    arguments = [*before, *argv[len(words_of(argv)) :]]
    settings = (click.get_current_context().find_root().default_map or {}).get(argv[0])
    context = command.make_context(argv[0], arguments, resilient_parsing=True, default_map=settings)
    limit, budget = (context.params.get(option) for option in ("timeout", "budget"))
    return (limit or max(_BUDGETS * (budget or 0.0), _LEAST)) + _GRACE


# --- a child


def measure(run: Run, program: Program) -> Report:
    """Run a command, and return its report.

    Raises:
        GpumapError: it ended without one; of the type that its exit code means.
    """
    from gpumap.model import io

    with tempfile.TemporaryDirectory(prefix="gpumap-") as folder:
        target = Path(folder) / "report.json"
        done = _ended(run, target, program)
        if done.returncode in _WHOLE and target.exists():
            return io.read(target)
    raise _failure(run.name, done)


def _ended(run: Run, target: Path, program: Program) -> subprocess.CompletedProcess[bytes]:
    stop = run.argv.index("--") if "--" in run.argv else len(run.argv)  # options end there
    written = ("--output", f"json={target}", "--quiet")
    try:
        return subprocess.run(  # noqa: S603 - gpumap, or what the user gave to run
            [*run.starts, "gpumap", *run.argv[:stop], *written, *run.argv[stop:]],
            cwd=program.cwd,
            env={**program.env, **run.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=run.limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"{run.name} took longer than {run.limit:g} s", _ALONE) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise QuestionError(f"{run.name}: cannot start {run.starts[0]}: {why}", _GRAMMAR) from error


def _failure(name: str, done: subprocess.CompletedProcess[bytes]) -> GpumapError:
    code, output = done.returncode, _last_lines(done.stderr)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if code in _WHOLE:
        how += " and wrote no report"
    kind = DeviceError if code < 0 else _ERRORS.get(code, QuestionError)
    return kind(f"{name} {how}{f': {output}' if output else ''}", _ALONE)


def _last_lines(stderr: bytes) -> str:
    """Return the first error of what gpumap printed with its fix, or its last lines."""
    lines = [line.strip() for line in stderr.decode(errors="replace").strip().splitlines()]
    first = next((n for n, line in enumerate(lines) if line.startswith("error")), None)
    if first is None:
        return "; ".join(lines[-_LINES:])
    below = takewhile(lambda line: not line.startswith("error"), lines[first + 1 :])
    fixes = [line for line in below if line.startswith("fix:")]  # not the map, and carets below it
    return "; ".join([lines[first], *fixes])
