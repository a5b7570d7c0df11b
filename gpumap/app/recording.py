"""One run, recorded: from the map on there is always a report, however the run ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from gpumap import sources
from gpumap.app import interrupts
from gpumap.app.draft import Draft
from gpumap.app.output import IN_RESULT, apart, emit, say
from gpumap.app.program import Ended, lacking
from gpumap.errors import Diagnostic, Exit, GpumapError, MapError
from gpumap.judge.headline import headline
from gpumap.machine import orphans
from gpumap.model import MapText
from gpumap.parse import parse_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.progress import Progress
    from gpumap.model import ContextMap, Report, Why

_NO_MAP = 'give one: gpumap check "dev0->cuda0;dev1->cuda1"; `gpumap devices` lists the devices'


class Recording:
    """Collects what a command finds out; its end emits the report and sets the exit code.

    A fork of its process has nothing to report. Without a time limit nothing ends the run.
    """

    progress: Progress  # of a run that measures

    def __init__(
        self,
        kind: str,
        program: Program,
        output: Output,
        settings: Mapping[str, Any] | None = None,
        *,
        time_limit: float | None,
    ) -> None:
        self.draft = Draft(kind, program, settings or {})
        self.limit = interrupts.TimeLimit(time_limit, self._expired)
        self.ending = interrupts.Ending()
        self.judge: Callable[[Report], Report] | None = None  # of the report, when all is known
        self.deliver: Callable[[Report], int] | None = None  # to who reports for several processes
        self._program = program
        self._output = output

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
        env, cwd, draft = self._program.env, self._program.cwd, self.draft
        draft.source = sources.find(
            argument=argument, option=option, map_file=file, env=env, cwd=cwd
        )
        if draft.source is not None:
            draft.ignored = sources.surrounding(draft.source, env=env, cwd=cwd)
            draft.map = parse_map(draft.source.text)
            return draft.map
        draft.ignored = sources.ignored(env=env, cwd=cwd)
        if default is None:
            raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
        draft.map = default()
        draft.source = MapText(draft.map.text, "default")
        return draft.map

    def warn(self, diagnostic: Diagnostic) -> None:
        """Say at once what the result must not be read without; it stands before all notes."""
        self.draft.warned.append(diagnostic)
        if not self._output.quiet:
            say((diagnostic,), self._program)

    def __enter__(self) -> Self:
        self.limit.watch()
        if self.limit.seconds is not None:
            self._output, self._program = apart(self._output, self._program)
            self.limit.start()
        return self

    @interrupts.last
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.ending.process != os.getpid():
            return
        interrupts.ignore()  # a second Ctrl-C must not cost the report
        error = lacking(error)
        self.limit.cancel()
        with self.ending.lock:  # a time limit that came first ends the process here
            stopped = isinstance(error, KeyboardInterrupt)
            stopped = stopped or (error is not None and interrupts.raised())
            self.draft.account(error, stopped=stopped)
            ended: Why = "interrupted" if stopped else "error"
            code = self._conclude("dry run" if self.draft.plans and not stopped else ended)
        orphans.leave()
        if self.ending.broken:
            os._exit(code)
        if error is None or stopped or isinstance(error, GpumapError):
            raise Ended(code)

    def end(self, diagnostic: Diagnostic, code: Exit, why: Why) -> NoReturn:
        """End the process with a report, from any thread: the main one may never come back."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)  # who reads the report may take his time
        with self.ending.lock:
            self.draft.refuse(diagnostic, code)
            ended: int = code
            with suppress(OSError):
                ended = self._conclude(why)
            orphans.leave()
            os._exit(ended)

    def _expired(self, diagnostic: Diagnostic) -> None:
        self.end(diagnostic, Exit.TIMEOUT, "time limit")

    def _conclude(self, why: Why | Literal["dry run"]) -> int:
        """Emit what there is, and return the exit code."""
        self.draft.stop(why)
        report = self.draft.report()
        if self.judge is not None:
            report = self.judge(report)
        report = replace(report, headline=headline(report))
        if self.deliver is not None:
            return self.deliver(report)
        try:
            return self._emit(report)  # the answer comes first
        finally:
            self._speak(report)

    def _speak(self, report: Report) -> None:
        """Say on stderr what the report's notes and errors say; notes only where wished."""
        text = self.draft.source.text if self.draft.source else None
        if not self._output.quiet:
            warned = self.draft.warned
            notes = (n for n in report.notes if n not in warned and n.code not in IN_RESULT)
            say(notes, self._program, text)
        spoken = [Exit.INTERRUPTED, Exit.INTERNAL]  # quiet, and said by `cli`
        if self._output.quiet:
            spoken.append(Exit.OK)  # what was let pass
        told = [p.diagnostic for p in report.errors if p.exit not in spoken]
        said = (d for d in told if d.code not in IN_RESULT)
        say(said, self._program, text)

    def _emit(self, report: Report) -> int:
        try:
            emit(report, self._output, self._program)
        except GpumapError as error:
            say(error.diagnostics, self._program)
            return report.exit_code or error.exit_code
        return report.exit_code
