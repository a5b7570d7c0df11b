"""The same measurement once more: the command line of a report, in a fresh process.

Only what measures is run, and its own options alone: what a report asks to be written, or judged,
is omitted, whether given on the command line or in a variable.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpumap.app.program import ENDING
from gpumap.errors import Diagnostic, QuestionError
from gpumap.judge.compare import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.app.program import Program
    from gpumap.model import Report

COMMANDS = ("bench", "transfer-cost")  # what can be repeated
LEFT_AWAY = {
    *("output", "format_", "quiet", "verbose"),  # what is given anew
    *("argument", "option", "map_file"),
    *("limit", "base", "inconclusive", "if_absent", "strict"),  # what judges
    *(field.name for field in fields(Terms)),
}
GRACE = 60.0  # seconds beyond the run's own time limit: to start, and to write its report
_LIMIT = 600.0  # seconds, where a report does not tell its time limit
_LONGEST = 1e6  # seconds: a subprocess is not waited for longer
_LINES = 3  # of what it said when it failed


def measured_again(report: Report, program: Program) -> Report:
    """Return a report of the same command line and map, measured now.

    Raises:
        QuestionError: it could not be measured; the message says why.
    """
    from gpumap.model import io

    arguments, variables = _repeated(report)
    with tempfile.TemporaryDirectory(prefix="gpumap-") as folder:
        target = Path(folder) / "fresh.json"
        command = [*arguments, "--output", f"json={target}", "--quiet"]
        failure = _run(command, program, variables, _limit(report))
        if not target.exists():
            raise failed(failure or "it wrote no report")
        return io.read(target)


def failed(why: str) -> QuestionError:
    """Return the error of a measurement that could not be repeated."""
    message = f"it could not be measured once more: {why}"
    hint = "measure it yourself, and compare that"
    return QuestionError((Diagnostic("not-confirmed", message, hint=hint),))


def _repeated(report: Report) -> tuple[list[str], set[str]]:
    """Return the arguments that measure a report's rows again, and the variables that do not."""
    if not report.argv or report.argv[0] not in COMMANDS or report.argv[0] != report.kind:
        raise failed(f"its command line is not one of {' and '.join(COMMANDS)}")
    if report.source is None:
        raise failed("it has no map")
    words, command = named(report.argv)
    if command is None:
        word = " ".join(report.argv[len(words) : len(words) + 1])
        raise failed(f'there is no command "{word}"')
    given = (param for param in command.params if isinstance(param, click.Option))
    options = {text: p for p in given for text in (*p.opts, *p.secondary_opts)}
    kept = list(_kept(report.argv[len(words) :], options))
    if "--reference" in options and not any(word.startswith("--reference") for word in kept):
        kept += _reference(report, words[-1])
    variables = {str(p.envvar) for p in command.params if p.name in LEFT_AWAY and p.envvar}
    return [*words, *kept, f"--map={report.source.text}"], variables


def _reference(report: Report, bench: str) -> list[str]:
    """Return the option that keeps the reference, whatever it was chosen by; none without one."""
    from gpumap.bench.names import reference_of

    names = [reference_of(report, bench, bound.device.backend) for bound in report.bindings[:1]]
    return [f"--reference={name}" for name in names if name is not None]


def named(argv: Sequence[str]) -> tuple[list[str], click.Command | None]:
    """Return the words of a command line that name a command, and the command if there is one."""
    context = click.get_current_context().find_root()
    command, words = context.command, list[str]()
    while isinstance(command, click.Group):
        word = argv[len(words)] if len(words) < len(argv) else ""
        found = command.get_command(context, word)
        if found is None:
            return words, None
        command, words = found, [*words, word]
    return words, command


def _kept(arguments: Sequence[str], options: Mapping[str, click.Parameter]) -> Iterator[str]:
    """Yield the options of a command line, each with its value, but for those left away."""
    rest, maps = list(reversed(arguments)), 0
    while rest:
        word = rest.pop()
        if not maps and (word == "--" or not word.startswith("-")):  # MAP, which is given anew
            maps, rest = 1, rest[:-1] if word == "--" else rest
            continue
        name, glued, _ = word.partition("=")
        if (option := options.get(name)) is None:
            raise failed(f'its command line has "{word}", which is no option')
        takes = not glued and not getattr(option, "is_flag", False)
        whole = [word, rest.pop()] if takes and rest else [word]
        if option.name not in LEFT_AWAY:
            yield from whole


def _limit(report: Report) -> float:
    """Return the seconds that a run may take; a report may be edited."""
    limit = report.settings.get("timeout_s")
    if not isinstance(limit, int | float) or not 0.0 < limit < _LONGEST:
        limit = _LIMIT
    return limit + GRACE


def _run(
    arguments: Sequence[str], program: Program, left_away: set[str], limit: float
) -> str | None:
    """Run gpumap; return what it said last, if anything."""
    # -P: a folder "gpumap" in the working folder is not this package
    command = [sys.executable, "-P", "-m", "gpumap", *arguments]
    env = {name: value for name, value in program.env.items() if name not in left_away}
    try:
        with interruptible():
            done = subprocess.run(  # noqa: S603 - gpumap itself, with options that it knows
                command,
                cwd=program.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=limit,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise failed(f"it took longer than {limit:g} s") from error
    except (OSError, ValueError) as error:
        raise failed(getattr(error, "strerror", None) or str(error)) from error
    return last_lines(done.stderr)


def last_lines(stderr: bytes) -> str | None:
    """Return the first error of what gpumap printed, or its last lines; None if it printed none."""
    lines = [line.strip() for line in stderr.decode(errors="replace").strip().splitlines()]
    first = next((n for n, line in enumerate(lines) if line.startswith("error")), None)
    if first is None:
        shown = lines[-_LINES:]
    else:  # without the map and the carets under it
        below = takewhile(lambda line: not line.startswith("error"), lines[first + 1 :])
        shown = [lines[first], *(line for line in below if line.startswith("fix:"))]
    return "; ".join(shown) or None


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what is waited for, though a run that ends ignores it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    came: list[int] = []

    def once(number: int, _: object) -> None:
        came.append(number)
        if len(came) == 1:
            raise KeyboardInterrupt

    try:
        for number in before:
            signal.signal(number, once)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
