"""`gpumap compare --ab`: two measuring commands, each in a process of its own, sample by sample.

One process measures while the other is parked. Line protocol, over a pair of pipes whose numbers
stand in GPUMAPTURNS: a process writes "turn" and waits before it prepares its first case and
before each sample; "go" lets it work until it writes the next "turn", or ends. So both take the
blocks of one number right after each other, in the same order of cases, A first and B first in
turn. Every wait has an end: here the side's own time limit and a minute, there that time limit.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from click.core import ParameterSource

from gpumap.app.benchmark import GO, TURN, TURNS
from gpumap.app.comparison import (
    NO_LIMIT,
    conclusion,
    notes_of,
    refuse_broken,
    refuse_mixed,
    show_machine,
    with_verdicts,
)
from gpumap.app.remeasure import COMMANDS, GRACE, LEFT_AWAY, interruptible, last_lines, named
from gpumap.errors import (
    AbsentError,
    DeviceError,
    GpumapError,
    QuestionError,
    TimedOut,
    WrongDataError,
)
from gpumap.judge.claims import check_patterns
from gpumap.judge.compare import compare
from gpumap.judge.pairs import comparable
from gpumap.judge.several_reports import differences as differing
from gpumap.judge.several_reports import machines, surroundings, unlike
from gpumap.model import Compared, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import click

    from gpumap.app.comparison import CompareRequest
    from gpumap.app.program import Program
    from gpumap.model import Report

SIDES = ("A", "B")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_GRAMMAR = "write it as [VAR=VALUE ...] [PYTHON -m] gpumap bench ..."
_SHELL = re.compile(r"[;|&<>`$]")
_MAP = ("argument", "option")
_WHOLE = (0, 1, 5)  # exit codes of a run that came to its end
_ERRORS: dict[int, type[GpumapError]] = {
    3: AbsentError,
    4: WrongDataError,
    124: TimedOut,
}  # by a side's exit code
_LEAST, _BUDGETS = 60.0, 10.0  # the default time limit of what measures, as its help has it
_REGRESSION = "the notes list what differs between A and B"
_MAYBE = "raise --budget on both sides, and keep the machine idle"
_END = 5.0  # seconds that a process has to end
_TAIL = 1 << 16  # bytes of what it printed last


@dataclass(frozen=True, slots=True)
class Side:
    """One command: the variables that it sets, its interpreter, and the words behind gpumap."""

    name: str
    variables: Mapping[str, str]
    python: str | None  # None: this one
    argv: tuple[str, ...]
    bench: tuple[str, ...]  # the words that name what it measures
    limit: float  # seconds that it may be silent
    unset: frozenset[str]  # variables that would let it judge, or write reports

    @property
    def interpreter(self) -> list[str]:
        """Return what runs gpumap: as it is written, or this Python with this gpumap."""
        # -P: a folder "gpumap" in the working folder is not this package
        return [sys.executable, "-P"] if self.python is None else [self.python]


def sides(texts: Sequence[str]) -> tuple[Side, Side]:
    """Return both commands of ``--ab``, split without a shell.

    Raises:
        QuestionError: one is no command that measures, or they measure different things.
    """
    a, b = (_side(name, text) for name, text in zip(SIDES, texts, strict=True))
    if a.bench != b.bench:
        what = f"A is `gpumap {' '.join(a.bench)}` and B is `gpumap {' '.join(b.bench)}`"
        raise QuestionError(f"--ab: {what}", "measure the same benchmark on both sides")
    return a, b


def _side(name: str, text: str) -> Side:
    def wrong(what: str, fix: str = _GRAMMAR) -> QuestionError:
        return QuestionError(f"--ab: {name}: {what}", fix)

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise wrong(f"{text!r} cannot be split: {error}", "close the quotes") from error
    variables: dict[str, str] = {}
    while words and _VARIABLE.match(words[0]):
        variable, _, value = words.pop(0).partition("=")
        if not value:
            raise wrong(f"{variable} has no value", f"write {variable}=VALUE, or omit it")
        variables[variable] = value
    python = words[0] if words[1:3] == ["-m", "gpumap"] else None
    argv = words[3:] if python is not None else words[1:]
    if python is None and words[:1] != ["gpumap"]:
        raise wrong(f'"{" ".join(words[:1])}" is not gpumap')
    bench, command = named(argv)
    if command is None or bench[0] not in COMMANDS:
        what = " ".join(["gpumap", *argv[: len(bench) + (command is None)]])
        plain = not _SHELL.search(what)
        fix = f"use {' or '.join(COMMANDS)}" if plain else "no shell runs it: write one command"
        raise wrong(f'"{what}" measures nothing', fix)
    given = command.make_context(bench[-1], argv[len(bench) :], resilient_parsing=True)
    for param in command.params:
        on_line = given.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if on_line and param.name in LEFT_AWAY and param.name not in _MAP:
            what = f"{param.opts[0]} judges a report, or writes one"
            raise wrong(what, "give it to compare itself, or omit it")
    unset = frozenset(str(p.envvar) for p in command.params if p.name in LEFT_AWAY and p.envvar)
    return Side(
        name, variables, python, tuple(argv), tuple(bench), _limit(given), unset - {*variables}
    )


def _limit(given: click.Context) -> float:
    """Return the seconds that a side may be silent: its own time limit, and to start and report."""
    limit, budget = given.params.get("timeout"), given.params.get("budget")
    return (limit or max(_BUDGETS * (budget or 0.0), _LEAST)) + GRACE


def measured(both: Sequence[Side], program: Program) -> tuple[Report, Report]:
    """Run both commands, interleaved, and return their reports.

    Raises:
        GpumapError: a side ended without a report, does not answer, or answers something else.
    """
    from gpumap.model import io

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpumap-")))
        stack.enter_context(interruptible())
        running = [stack.enter_context(_Process(side, program, folder)) for side in both]
        for process in running:  # B starts while A is parked
            process.start()
        order = running
        while alive := [process for process in order if not process.ended]:
            for process in alive:
                process.go()
            order = order[::-1]
        a, b = (io.read(process.report) for process in running)
        return a, b


class _Process:
    """The process of a side, which works from `go` until it returns."""

    def __init__(self, side: Side, program: Program, folder: Path) -> None:
        self.side, self.ended = side, False
        self.report = folder / f"{side.name}.json"
        self._stderr = bytearray()  # the end of it: a program may print without end
        self._reader: threading.Thread | None = None
        self._program, self._turns = program, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            os.close(pipe)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def start(self) -> None:
        """Start the process, and wait until it is ready to prepare its first case."""
        side, program = self.side, self._program
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._pipes += [ours_in, ours_out]
        env = {name: value for name, value in program.env.items() if name not in side.unset}
        env |= {**side.variables, TURNS: f"{theirs_in},{theirs_out}"}
        command = [*side.interpreter, "-m", "gpumap", *_before_map(side.argv, self.report)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - what the user gave to run
                command,
                cwd=program.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs_in, theirs_out),
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            what = f"{side.name}: cannot start {side.interpreter[0]}: {why}"
            raise QuestionError(what, "write the path of a Python that has gpumap") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._reader = threading.Thread(target=self._read, args=[self._process.stderr], daemon=True)
        self._reader.start()
        self._wait()

    def _read(self, stderr: IO[bytes]) -> None:
        with stderr:
            for piece in iter(partial(os.read, stderr.fileno(), _TAIL), b""):
                self._stderr += piece
                del self._stderr[:-_TAIL]

    def go(self) -> None:
        """Let it work until it is parked again, or has ended well."""
        with suppress(BrokenPipeError):  # it has died: reading tells
            os.write(self._pipes[1], GO)
        self._wait()

    def _wait(self) -> None:
        name, limit = self.side.name, self.side.limit
        ready, _, _ = select.select(self._pipes[:1], [], [], limit)
        if not ready:
            raise TimedOut(f"{name} was silent for {limit:g} s", "see whether it runs alone")
        answer = os.read(self._pipes[0], 64)
        if answer == TURN:
            self._turns += 1
        elif answer:
            what = f"{name} wrote {answer.decode(errors='replace')!r} in place of its turn"
            raise QuestionError(what, "use one version of gpumap that has compare --ab")
        else:
            self._end()

    def _end(self) -> None:
        """Take how it ended."""
        name, self.ended = self.side.name, True
        assert self._process is not None
        try:
            code = self._process.wait(_END)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{name} closed its pipe and did not end") from error
        if code in _WHOLE and self._turns and self.report.exists():
            return
        if self._reader is not None:
            self._reader.join(_END)  # a child of its own may hold the pipe open
        output = last_lines(bytes(self._stderr))
        if code in _WHOLE and not self._turns:
            what = f"{name} ended (exit code {code}) and never took turns"
            fix = "measure devices of one process, with a gpumap that has compare --ab"
            raise QuestionError(f"{what}{f': {output}' if output else ''}", fix)
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        kind = DeviceError if code < 0 else _ERRORS.get(code, QuestionError)
        raise kind(f"{name} {how}{f': {output}' if output else ''}", "see whether it runs alone")


def _before_map(argv: Sequence[str], report: Path) -> list[str]:
    """Return a command line that writes its report; options may not stand behind a "--"."""
    stop = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:stop], "--output", f"json={report}", "--quiet", *argv[stop:]]


def differences(both: Sequence[Side], reports: Sequence[Report], program: Program) -> Iterator[str]:
    """Yield what differs between the sides: interpreter, versions, variables, devices."""

    def facts(side: Side, report: Report) -> dict[str, str]:
        own = {name: side.variables.get(name, program.env.get(name, "")) for name in names}
        return {"interpreter": side.interpreter[0], "gpumap": report.version or "", **own}

    a, b = reports
    names = [name for side in both for name in side.variables if name not in a.environment]
    yield from differing(facts(both[0], a), facts(both[1], b), SIDES)
    yield from machines(a, b, SIDES)
    yield from surroundings(a, b, SIDES)


def compare_commands(program: Program, request: CompareRequest) -> None:
    """Run two measuring commands, interleaved, and judge B against A."""
    from gpumap.app.recording import Recording

    assert request.ab is not None
    terms = replace(request.terms, confirm=False, other_machine=False)  # of variables
    pair: dict[str, Any] = {"inconclusive": request.inconclusive, "interleaved": list(request.ab)}
    with Recording(
        "compare", Compared(), program, request.output, pair, time_limit=NO_LIMIT
    ) as record:
        both = sides(request.ab)
        a, b = measured(both, program)
        for report, name in zip((a, b), SIDES, strict=True):
            refuse_broken(report, name)
        refuse_mixed(unlike(a, simulated=b.simulated))
        pair |= {"base": SIDES[0], "new": SIDES[1], **asdict(terms)}
        show_machine(record.draft, b)
        check_patterns(comparable(a), terms.judge)
        comparison = compare(a, b, terms.threshold, judge=terms.judge, interleaved=True)
        found = conclusion(comparison.verdicts, terms, comparison.remarks)
        hints = {"regression": _REGRESSION, "inconclusive": _MAYBE}
        problems = tuple(
            replace(p, diagnostic=replace(p.diagnostic, hint=hint))
            if (hint := hints.get(p.diagnostic.code))
            else p
            for p in found.problems
        )
        apart = [f"differs: {each}" for each in differences(both, (a, b), program)]
        record.draft.remarks += notes_of(
            apart or ["A and B have one environment, by what is known"]
        )
        record.draft.remarks += found.notes
        found = replace(found, problems=problems)
        record.judge = partial(with_verdicts, found=found, inconclusive=request.inconclusive)
