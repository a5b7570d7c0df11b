"""Commands that measure, each run as a child process: a report's once more, or one as text."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpumap.bench.registry import commanded
from gpumap.errors import BY_EXIT, DeviceError, GpumapError, QuestionError
from gpumap.text import ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.app.program import Program
    from gpumap.model import Report

COMMANDS = ("bench", "transfer-cost")  # what measures, and can be compared
_OURS = (sys.executable, "-P", "-m")  # -P: a folder "gpumap" here is not this package
_GRAMMAR = "write it as [VAR=VALUE ...] [LAUNCHER ...] [PYTHON -m] gpumap bench ..."
_MEASURES = f"use {' or '.join(COMMANDS)}, as one command: no shell runs it"
_ALONE = "see whether it runs alone"
_WHOLE = (0, 1, 5)  # exit codes of a run that came to its end
_LINES = 2  # of what it said when it failed: an error and its fix


class Run(NamedTuple):
    """A command that measures: what starts gpumap, and the words behind that."""

    name: str  # in messages
    starts: tuple[str, ...]
    argv: tuple[str, ...]


def once_more(report: Report) -> Run:
    """Return the command line of a report.

    Raises:
        QuestionError: it is none that measures.
    """
    name, argv = "the second run of NEW", tuple(_without_output(report.argv))
    _refuse_others(name, argv)
    return Run(name, _OURS, argv)


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
    before, argv = ("env", *words[:at]), tuple(words[at + 1 :])  # VAR=VALUE, and a launcher
    _refuse_others(name, argv)
    return Run(name, before if before[-1] == "-m" else (*before, *_OURS), argv)


def words_of(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command line that name what it measures."""
    return tuple(argv[: 2 if argv[:1] == ("bench",) else 1])


def _without_output(argv: Sequence[str]) -> Iterator[str]:
    """Yield a command line without its files: what the first run has written stays."""
    rest = iter(argv)
    for word in rest:
        name, glued, _ = word.partition("=")
        if name != "--output":
            yield word
        elif not glued:
            next(rest, None)


def _refuse_others(name: str, argv: tuple[str, ...]) -> None:
    """Refuse a command line that measures nothing.

    Raises:
        QuestionError: it does not.
    """
    words = words_of(argv)
    if words[:1] not in [(known,) for known in COMMANDS] or commanded(words[-1]) is None:
        what = " ".join(["gpumap", *argv[:2]])
        raise QuestionError(f'{name}: "{what}" measures nothing', _MEASURES)


# --- a child, which ends by its own time limit


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
            env=program.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise QuestionError(f"{run.name}: cannot start {run.starts[0]}: {why}", _GRAMMAR) from error


def _failure(name: str, done: subprocess.CompletedProcess[bytes]) -> GpumapError:
    code = done.returncode
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    output = "; ".join(said[-_LINES:])
    how = ended(code)
    if code in _WHOLE:
        how += " and wrote no report"
    kind = DeviceError if code < 0 else BY_EXIT.get(code, QuestionError)
    return kind(f"{name} {how}{f': {output}' if output else ''}", _ALONE)
