"""One run, recorded: from the map on there is always a report, however the run ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from gpumap.app.output import Output, Progress, emit, reserve_stdout, say, speak
from gpumap.app.program import Ended, Program, TimeLimit, ignore_signals, interrupted, to_the_end
from gpumap.errors import Diagnostic, Exit, GpumapError
from gpumap.judge.exit_status import STATUS, exit_code, status
from gpumap.judge.phrases import texts
from gpumap.machine import process_control
from gpumap.model import MapText, Problem, Report, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap import model
    from gpumap.engine.runner import Runner


class Recording:
    """Collects what a command finds out; its end emits the report and sets the exit code.

    A fork of its process has nothing to report. Without a time limit nothing ends the run.
    """

    progress: Progress  # of a run that measures

    def __init__(
        self, draft: Draft, output: Output, time_limit: float = 0.0, late: Exit = Exit.TIMEOUT
    ) -> None:
        """Record a command into a draft; `late` is the exit code where its time limit ends it."""
        self.draft = draft
        self.limit = TimeLimit(time_limit, lambda found: self.end(found, late, "time limit"))
        self.broken = False  # the process must not wait for others when it ends
        self.judge: Callable[[Report], Report] | None = None  # of the report, when all is known
        self.own = 0  # what the user's program ended with: the exit code, where gpumap has no worse
        self._program = draft.program
        self._output = output
        self.process = os.getpid()  # a fork of it has no end of its own
        self._end = threading.Lock()  # whichever thread comes first makes the end

    def warn(self, diagnostic: Diagnostic) -> None:
        """Say at once what the result must not be read without; it stands before all notes."""
        self.draft.warned.append(diagnostic)
        if not self._output.quiet:
            say((diagnostic,), self._program)

    def __enter__(self) -> Self:
        if self.limit.seconds:
            self._program = reserve_stdout(self._program)
            self.limit.start()
        return self

    @to_the_end
    def __exit__(self, _: object, error: BaseException | None, *trace: object) -> None:
        if self.process != os.getpid():
            return
        ignore_signals()  # a second Ctrl-C must not cost the report
        self.limit.cancel()
        with self._end:  # a time limit that came first ends the process here
            stopped = isinstance(error, KeyboardInterrupt)
            stopped = stopped or (error is not None and interrupted())
            self.draft.account(error, stopped=stopped)
            ended: model.Why = "interrupted" if stopped else "error"
            code = self._conclude("dry run" if self.draft.plans and not stopped else ended)
        process_control.kill_orphans()
        if self.broken:
            os._exit(code)
        if error is None or stopped or isinstance(error, GpumapError):
            raise Ended(self.own if self.own and code in (Exit.OK, Exit.NO) else code)

    def end(self, diagnostic: Diagnostic, code: Exit, why: model.Why) -> NoReturn:
        """End the process with a report, from any thread: the main one may never come back."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # who reads the report may take his time
        with self._end:
            if (progress := getattr(self, "progress", None)) is not None:  # of a run that measures
                progress.stop()
            self.draft.refuse(diagnostic, code)
            ended: int = code
            with suppress(OSError):
                ended = self._conclude(why)
            process_control.kill_orphans()
            os._exit(ended)

    def _conclude(self, why: model.Why | Literal["dry run"]) -> int:
        """Emit what there is, and return the exit code."""
        self.draft.stop(why)
        report = self.draft.report()
        if self.judge is not None:
            report = self.judge(report)
        from gpumap.results import headline

        report = replace(report, headline=headline(report))
        try:
            return self._emit(report)  # the answer comes first
        finally:
            notes = (note for note in report.notes if note not in self.draft.warned)
            said = (Exit.INTERRUPTED, Exit.INTERNAL)  # the first needs no word, `cli` has the other
            speak(report, notes, self._output, self._program, said)

    def _emit(self, report: Report) -> int:
        try:
            emit(report, self._output, self._program)
        except GpumapError as error:
            say(error.diagnostics, self._program)
            undecided = report.status == STATUS[Exit.INCONCLUSIVE]
            return error.exit_code if undecided else report.exit_code or error.exit_code
        return report.exit_code


# --- a report in the making

_SILENT_ORIGINS = ("argument", "--map")  # the user sees where these come from
_SILENT_KINDS = ("devices", "compare", "predict")  # their map is found, or a saved report's
_ABOVE = "the error above says why"
_SCRIPTED = "the fake backend: every figure is scripted, none was measured"
_STOOD_IN = "a stand-in for a driver, or a simulator: no figure is of a device"
_EXITS = dict.fromkeys(("wrong-data", "over-ceiling", "diverged"), Exit.WRONG_DATA)


class Measuring:
    """The rows of one benchmark, as they come; stopped at any moment, every case has its row."""

    def __init__(self, runner: Runner | None, plan: model.Plan) -> None:
        self.rows: list[model.Measurement] = []
        self._runner = runner
        self._plan = plan

    def stop(self, why: model.Why | Literal["dry run"]) -> None:
        """Add what there is of the current group, and a skipped row for what never began."""
        from gpumap.model import Measurement, Reason

        rows, stopped = [*self.rows], Reason("stopped", why)
        if self._runner and why != "dry run":
            rows += self._runner.unfinished(why)
        rows += [Measurement(c, "skipped", c.skip or stopped) for c in self._plan.cases]
        found: dict[str, model.Measurement] = {}
        for row in rows:  # the first of a case is what is known of it
            found.setdefault(row.case.id, row)
        self.rows = list(found.values())

    def failures(self) -> Iterator[Problem]:
        """Yield what each failure means for the exit code."""
        for row in self.rows:
            if row.status == "failed" and (reason := row.reason) is not None:
                message, hint = f"{row.case.id}: {reason.text}", texts("failures").get(reason.code)
                diagnostic = Diagnostic(reason.code, message, hint=hint)
                yield Problem(diagnostic, _EXITS.get(reason.code, Exit.ABSENT))


class Draft:
    """What is known of a run so far."""

    def __init__(
        self, kind: str, result: model.Result, program: Program, settings: Mapping[str, Any]
    ) -> None:
        """Begin a run; `result` has what is known of it: nothing, as yet."""
        self.kind = kind
        self.result = result
        self.program = program
        self.settings = settings
        self.source: MapText | None = None
        self.map: model.ContextMap | None = None
        self.resolution: model.Resolution | None = None
        self.devices: tuple[model.Device, ...] = ()
        self.backends: tuple[model.DeviceLibrary, ...] = ()
        self.fingerprint: model.Fingerprint | None = None
        self.before: model.State | None = None
        self.after: model.State | None = None
        self.measured: list[Measuring] = []
        self.plans: list[model.Plan] = []
        self.complete: Callable[[Sequence[model.Measurement]], Sequence[model.Measurement]] = tuple
        self.fit: Callable[[Iterable[model.Measurement]], tuple[model.Fit, ...]] | None = None
        self.ranks: tuple[model.Rank, ...] = ()
        self.warned: list[Diagnostic] = []  # said before there was a result
        self.remarks: list[Diagnostic] = []  # said beside the result
        self.problems: list[Problem] = []
        self.started = datetime.now(UTC)
        self._clock = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Return the seconds since this run began."""
        return time.perf_counter() - self._clock

    @property
    def simulated(self) -> bool:
        """Return whether a script, a stand-in, or a simulator of the map had a part in it."""
        return any(self._simulators())

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Return what is worth knowing about the map, its source and its devices."""
        return (
            *self.warned,
            *self._origin(),
            *(self.source.notes if self.source else ()),
            *(self.map.notes if self.map else ()),
            *(self.resolution.notes if self.resolution else ()),
            *self._simulators(),
            *self.remarks,
        )

    def refuse(self, diagnostic: Diagnostic, code: Exit = Exit.NO) -> None:
        """Note that the answer is no, or another exit code."""
        self.problems.append(Problem(diagnostic, code))

    def account(self, error: BaseException | None, *, stopped: bool) -> None:
        """Take an error into the report; `stopped`: it is an interrupt, or came of one."""
        if isinstance(error, Ended):
            self.refuse(Diagnostic("program", "the program cannot be run", hint=_ABOVE))
        elif isinstance(error, GpumapError):
            self.problems += [Problem(d, error.exit_code) for d in error.diagnostics]
        elif error is not None and not stopped:
            message = f"{type(error).__name__}: {error}"
            self.refuse(Diagnostic("internal", message), Exit.INTERNAL)
        if stopped:
            self.refuse(Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED)

    def stop(self, why: model.Why | Literal["dry run"]) -> None:
        """Complete the rows of what was measured, with what their failures mean."""
        for measured in self.measured:
            measured.stop(why)
            self.problems += measured.failures()

    def report(self) -> Report:
        """Return the report."""
        from gpumap.machine.fingerprint import environment

        code = exit_code(problem.exit for problem in self.problems)
        rows = self.complete([row for measured in self.measured for row in measured.rows])
        return Report(
            kind=self.kind,  # type: ignore[arg-type]
            argv=self.program.argv,
            started=stamp(self.started),
            ended=stamp(datetime.now(UTC)),
            elapsed=round(self.elapsed, 6),
            status=status(code, rows),  # type: ignore[arg-type]
            exit_code=code,  # type: ignore[arg-type]
            simulated=self.simulated,
            settings=dict(self.settings),
            source=self.source,
            map=self.map,
            bindings=self._bindings,
            notes=self.notes,
            devices=self.devices or self._driven(rows),
            backends=self.backends,
            fingerprint=self.fingerprint,
            environment=environment(self.program.env),
            before=self.before,
            after=self.after,
            result=self._result(rows) if self.measured else self.result,
            ranks=self.ranks,
            errors=tuple(self.problems),
        )

    def _result(self, rows: Sequence[model.Measurement]) -> model.Result:
        """Return the result with all that was measured."""
        from gpumap.bench.rows import with_claims

        return replace(
            self.result,
            measurements=with_claims(rows),
            plans=tuple(self.plans),
            fits=self.fit(rows) if self.fit else (),
        )

    @property
    def _bindings(self) -> tuple[model.Binding, ...]:
        return self.resolution.bindings if self.resolution else ()

    def _driven(self, rows: Iterable[model.Measurement]) -> tuple[model.Device, ...]:
        """Return each device that was used, once."""
        used = (*self._bindings, *(binding for row in rows for binding in row.case.bindings))
        found: dict[str, model.Device] = {}
        for binding in used:  # with --backend all several libraries drive a device: one of them
            found.setdefault(binding.device.id, binding.device)
        return tuple(found.values())

    def _simulators(self) -> Iterable[Diagnostic]:
        drivers = {device.backend for device in self.devices} | {p.name for p in self.backends}
        stand_in = any(device.facts.get("simulated") for device in self.devices)
        if "fake" in drivers:
            yield Diagnostic("simulated", _SCRIPTED, severity="note")
        elif stand_in or any(binding.device.simulated for binding in self._bindings):
            yield Diagnostic("simulated", _STOOD_IN, severity="note")

    def _origin(self) -> Iterable[Diagnostic]:
        source = self.source
        if source is None or self.kind in _SILENT_KINDS or source.origin in _SILENT_ORIGINS:
            return
        if source.origin == "default":
            message, hint = f"no map is given: using {source.text}", "name one: gpumap COMMAND MAP"
            yield Diagnostic("default-map", message, hint=hint, severity="note")
            return
        path = f" ({source.path})" if source.path else ""
        yield Diagnostic("source", f"the map is from {source.origin}{path}", severity="note")


def stamp(moment: datetime) -> str:
    """Return a moment as reports write it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
