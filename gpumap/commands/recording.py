"""One run, recorded: from the map on there is always a report, however the run ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import click

from gpumap import sources
from gpumap.commands import interrupts
from gpumap.commands.output import IN_RESULT, apart, emit, say
from gpumap.commands.program import lacking
from gpumap.errors import Diagnostic, Exit, GpumapError, MapError
from gpumap.judge.exit_code import exit_code, status
from gpumap.machine import orphans
from gpumap.model import MapText, Problem, Report
from gpumap.parse import parse_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from gpumap.bench.base import Decided
    from gpumap.commands.measuring import Measured
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.judge.compare import Against
    from gpumap.model import (
        Binding,
        ContextMap,
        Device,
        Diagnosis,
        Fingerprint,
        Fit,
        Measurement,
        Plan,
        Prediction,
        Probe,
        Published,
        Rank,
        Resolution,
        SelfTest,
        State,
        Trace,
        Verdict,
        Why,
    )

_GRACE = 30.0  # seconds beyond the time limit, after which no watchdog will come
_SILENT_ORIGINS = ("argument", "--map")  # the user sees where these come from
_SILENT_KINDS = ("devices", "compare", "predict")  # their map is found, or a saved report's
_NO_MAP = 'give one: gpumap check "dev0->cuda0;dev1->cuda1"; `gpumap devices` lists the devices'
_SCRIPTED = "the fake backend: every figure is scripted, none was measured"
_STOOD_IN = "a stand-in for a driver, or a simulator: no figure is of a device"


class Recording:
    """Collects what a command finds out; its end emits the report and sets the exit code.

    A fork of its process has nothing to report. Without a time limit nothing ends the run.
    """

    def __init__(
        self,
        kind: str,
        program: Program,
        output: Output,
        settings: Mapping[str, Any] | None = None,
        *,
        time_limit: float | None,
    ) -> None:
        self.source: MapText | None = None
        self.map: ContextMap | None = None
        self.resolution: Resolution | None = None
        self.devices: tuple[Device, ...] = ()
        self.probes: tuple[Probe, ...] = ()
        self.fingerprint: Fingerprint | None = None
        self.measured: list[Measured] = []
        self.plans: list[Plan] = []
        self.model: Callable[[Iterable[Measurement]], tuple[Fit, ...]] | None = None
        self.judge: Callable[[Report], Report] | None = None  # of the report, when all is known
        self.against: Against | None = None  # a base: what cannot be judged is not measured
        self.decided: Decided | None = None  # whether rows are known well enough for it
        self.verdicts: list[Verdict] = []
        self.selftest: SelfTest | None = None
        self.traces: tuple[Trace, ...] = ()
        self.prediction: Prediction | None = None
        self.published: Published | None = None
        self.diagnoses: tuple[Diagnosis, ...] = ()
        self.ranks: tuple[Rank, ...] = ()
        self.remarks: list[Diagnostic] = []  # what a command has to say beside its result
        self._said: list[Diagnostic] = []  # and what it had to say before there was one
        self.turns_left = 1  # of measuring: one for each backend with --backend all
        self.before: State | None = None
        self.after: State | None = None
        self.doing = ""  # what a time limit would cut short
        self.deliver: Callable[[Report], int] | None = None  # to who reports for several processes
        self.broken = False  # the process must not wait for others when it ends
        self.silent: Callable[[], Sequence[str]] = tuple  # other processes that do not answer
        self.kind = kind
        self._program = program
        self._output = output
        self._settings = settings or {}
        self._ignored: tuple[Diagnostic, ...] = ()  # what Theano's settings say beside a map
        self._problems: list[Problem] = []
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        self._ending = threading.Lock()
        self._process = os.getpid()
        self._time_limit = time_limit
        self._watchdog = threading.Timer(time_limit or 0.0, self._expire)
        self._watchdog.daemon = True

    def read_map(
        self,
        argument: str | None,
        option: str | None,
        file: Path | None,
        default: Callable[[], ContextMap] | None = None,
    ) -> ContextMap:
        """Find the map and parse it; `default` makes one where none is given.

        Raises:
            MapError: there is none, or it does not parse.
        """
        env, cwd = self._program.env, self._program.cwd
        self.source = sources.find(
            argument=argument, option=option, map_file=file, env=env, cwd=cwd
        )
        if self.source is not None:
            self._ignored = sources.surrounding(self.source, env=env, cwd=cwd)
            self.map = parse_map(self.source.text)
            return self.map
        self._ignored = sources.ignored(env=env, cwd=cwd)
        if default is None:
            raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
        self.map = default()
        self.source = MapText(self.map.text, "default")
        return self.map

    def use(self, bindings: Iterable[Binding]) -> None:
        """Let the map be what is really used, where that is not what was given."""
        assert self.source is not None  # it was read
        text = ";".join(f"{binding.name}->{binding.device.ref}" for binding in bindings)
        self.source, self.map = replace(self.source, text=text), parse_map(text)

    def refuse(self, diagnostic: Diagnostic, code: Exit = Exit.NO) -> None:
        """Note that the answer is no, or another exit code."""
        self._problems.append(Problem(diagnostic, code))

    def warn(self, diagnostic: Diagnostic) -> None:
        """Say at once what the result must not be read without; it stands before all notes."""
        self._said.append(diagnostic)
        if not self._output.quiet:
            say((diagnostic,), self._program)

    def take_problems(self) -> tuple[Problem, ...]:
        """Return why the answer is no, as far as is known, and forget it."""
        found, self._problems = tuple(self._problems), []
        return found

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Return what is worth knowing about the map, its source and its devices."""
        return (
            *self._said,
            *self._origin(),
            *self._ignored,
            *(self.source.notes if self.source else ()),
            *(self.map.notes if self.map else ()),
            *(self.resolution.notes if self.resolution else ()),
            *self._simulators(),
            *self.remarks,
        )

    @property
    def elapsed(self) -> float:
        """Return the seconds since this run began."""
        return time.perf_counter() - self._clock

    @property
    def simulated(self) -> bool:
        """Return whether a script, a stand-in, or a simulator of the map had a part in it."""
        return any(self._simulators())

    def __enter__(self) -> Self:
        if self._time_limit is None:
            interrupts.watch(None)
        else:
            interrupts.watch(self._time_limit + _GRACE)
            self._output, self._program = apart(self._output, self._program)
            self._watchdog.start()
        return self

    @interrupts.last
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process != os.getpid():
            return
        interrupts.ignore()  # a second Ctrl-C must not cost the report
        error = lacking(error)
        self._watchdog.cancel()
        with self._ending:  # a time limit that came first ends the process here
            stopped = isinstance(error, KeyboardInterrupt)
            stopped = stopped or (error is not None and interrupts.raised())
            self._account(error, stopped=stopped)
            ended: Why = "interrupted" if stopped else "error"
            code = self._conclude("dry run" if self.plans and not stopped else ended)
        orphans.leave()
        if self.broken:
            os._exit(code)
        if error is None or stopped or isinstance(error, GpumapError):
            raise click.exceptions.Exit(code)

    def end(self, diagnostic: Diagnostic, code: Exit, why: Why) -> NoReturn:
        """End the process with a report, from any thread: the main one may never come back."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # who reads the report may take his time
        with self._ending:
            self.refuse(diagnostic, code)
            ended: int = code
            try:
                ended = self._conclude(why)
            except click.exceptions.Exit as failed:
                ended = failed.exit_code
            except OSError:
                pass
            orphans.leave()
            os._exit(ended)

    def _expire(self) -> None:
        """End the process: its time is over."""
        where = f" while {self.doing}" if self.doing else ""
        message = f"the time limit of {self._time_limit:g} s was reached{where}"
        hint = "raise --timeout, or ask for less"
        if silent := ", ".join(self.silent()):
            message, hint = f"{message}; no answer from {silent}", "look at that process, or end it"
        self.end(Diagnostic("timeout", message, hint=hint), Exit.TIMEOUT, "time limit")

    def _account(self, error: BaseException | None, *, stopped: bool) -> None:
        """Take an error into the report; `stopped`: it is an interrupt, or came of one."""
        if isinstance(error, GpumapError):
            self._problems += [Problem(d, error.exit_code) for d in error.diagnostics]
        elif error is not None and not stopped:
            message = f"{type(error).__name__}: {error}"
            self.refuse(Diagnostic("internal", message), Exit.INTERNAL)
        if stopped:
            self.refuse(Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED)

    def _conclude(self, why: Why | Literal["dry run"]) -> int:
        """Emit what there is, and return the exit code."""
        for measured in self.measured:
            measured.stop(why)
            for diagnostic, code in measured.failures():
                self.refuse(diagnostic, code)
        report = self._report()
        if self.judge is not None:
            report = self.judge(report)
        if self.deliver is not None:
            return self.deliver(report)
        self._speak(report)
        return self._emit(report)

    def _report(self) -> Report:
        from gpumap.machine.fingerprint import environment

        code = exit_code(problem.exit for problem in self._problems)
        bindings = self.resolution.bindings if self.resolution else ()
        rows = tuple(row for measured in self.measured for row in measured.rows)
        decided = tuple(found for measured in self.measured for found in measured.decided)
        used = (*bindings, *(binding for row in rows for binding in row.case.bindings))
        found: dict[str, Device] = {}
        for binding in used:  # with --backend all several libraries drive a device: one of them
            found.setdefault(binding.device.id, binding.device)
        return Report(
            kind=self.kind,
            argv=self._program.argv,
            started=_stamp(self._started),
            ended=_stamp(datetime.now(UTC)),
            elapsed=round(self.elapsed, 6),
            status=status(code, rows, decided),
            exit_code=code,
            simulated=self.simulated,
            settings=self._settings,
            source=self.source,
            map=self.map,
            bindings=bindings,
            notes=self.notes,
            devices=self.devices or tuple(found.values()),
            backends=self.probes,
            fingerprint=self.fingerprint,
            environment=environment(self._program.env),
            before=self.before,
            after=self.after,
            measurements=rows,
            fits=self.model(rows) if self.model else (),
            break_evens=decided,
            plans=tuple(self.plans),
            verdicts=tuple(self.verdicts),
            selftest=self.selftest,
            traces=self.traces,
            prediction=self.prediction,
            published=self.published,
            diagnoses=self.diagnoses,
            ranks=self.ranks,
            errors=tuple(self._problems),
        )

    def _speak(self, report: Report) -> None:
        """Say on stderr what the report's notes and errors say; notes only where wished."""
        text = self.source.text if self.source else None
        if not self._output.quiet:
            notes = (n for n in report.notes if n not in self._said and n.code not in IN_RESULT)
            say(notes, self._program, text)
        spoken = [Exit.INTERRUPTED, Exit.INTERNAL]  # quiet, and said by `cli`
        if self._output.quiet:
            spoken.append(Exit.OK)  # what was let pass
        told = [p.diagnostic for p in report.errors if p.exit not in spoken]
        said = (d for d in told if d.code not in IN_RESULT)
        say(said, self._program, text)

    def _simulators(self) -> Iterable[Diagnostic]:
        drivers = {device.backend for device in self.devices} | {p.name for p in self.probes}
        bound = (binding.device for binding in self.resolution.bindings) if self.resolution else ()
        stand_in = any(device.facts.get("simulated") for device in self.devices)
        if "fake" in drivers:
            yield Diagnostic("simulated", _SCRIPTED, severity="note")
        elif stand_in or any(device.simulated for device in bound):
            yield Diagnostic("simulated", _STOOD_IN, severity="note")

    def _origin(self) -> Iterable[Diagnostic]:
        if self.source is None or self.kind in _SILENT_KINDS:
            return
        if self.source.origin in _SILENT_ORIGINS:
            return
        if self.source.origin == "default":
            yield by_default(self.source.text)
            return
        path = f" ({self.source.path})" if self.source.path else ""
        yield Diagnostic("source", f"the map is from {self.source.origin}{path}", severity="note")

    def _emit(self, report: Report) -> int:
        try:
            emit(report, self._output, self._program)
        except GpumapError as error:
            say(error.diagnostics, self._program)
            return report.exit_code or error.exit_code
        return report.exit_code


def by_default(text: str) -> Diagnostic:
    """Return the note that nobody gave a map, and which one was taken."""
    message = f"no map is given: {text}"
    return Diagnostic("default-map", message, hint="--map takes one", severity="note")


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
