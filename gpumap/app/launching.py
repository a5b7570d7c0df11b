"""The processes of a command: started, and told of when they have ended."""

from __future__ import annotations

import errno
import os
import signal
import stat
from subprocess import SubprocessError
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpumap.app.command import not_executed, tell
from gpumap.errors import QuestionError
from gpumap.escape import printable
from gpumap.files import target_state
from gpumap.launch.streams import Sink
from gpumap.launch.supervisor import LIMITS, Run
from gpumap.text import width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.launch.process import Job, Process
    from gpumap.launch.supervisor import Ending, Output
    from gpumap.launch.watching import Watch

_LONGEST = 40  # columns of a name before its lines
_SHOWN = 5  # last lines of who failed
_LISTED = 8


class Launching:
    """Starts jobs, and says how they went."""

    def __init__(self, program: Program, jobs: Sequence[Job]) -> None:
        self._program = program
        self._jobs = jobs
        self._files: list[int] = []
        self._outputs: list[tuple[Output | None, Output | None]] = []

    def to_our_streams(self) -> None:
        """Let each process have the streams of this one, as a program in a shell has them."""
        self._outputs = [(None, None) for _ in self._jobs]

    def to_nothing(self) -> None:
        """Show nothing of what the processes print; their last lines are kept."""
        self._files.append(os.open(os.devnull, os.O_WRONLY))
        sink = Sink(self._files[-1])
        self._outputs = [((sink, None), (sink, None)) for _ in self._jobs]

    def to_files(self, folder: Path) -> None:
        """Let each process have files of its own.

        Raises:
            QuestionError: one of them cannot be written.
        """

        def opened(name: str) -> Sink:
            path = self._program.cwd / folder / name
            target_state(path)
            # a FIFO without a reader would be waited for
            self._files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o666))
            os.set_blocking(self._files[-1], True)
            return Sink(self._files[-1])

        try:
            (self._program.cwd / folder).mkdir(parents=True, exist_ok=True)
            for job in self._jobs:
                name = _file_name(job.name)
                self._outputs.append(((opened(f"{name}.out"), None), (opened(f"{name}.err"), None)))
        except OSError as error:
            for descriptor in self._files:  # or there is no room to say it
                os.close(descriptor)
            message = f"cannot write {error.filename or folder}: {error.strerror}"
            full = error.errno in (errno.EMFILE, errno.ENFILE)
            fix = LIMITS if full else "choose another folder, or shorten the names"
            raise QuestionError(message, fix) from error

    def go(self, grace: float, limit: float | None, watch: Watch | None = None) -> int:
        """Run it all, say how it ended, and return the exit code."""
        return self._report_end(self.run(grace, limit, watch), limit)

    def run(self, grace: float, limit: float | None, watch: Watch | None = None) -> Ending:
        """Run it all, looked at by `watch`, and return how it ended."""
        if not self._outputs:
            self._outputs = list(_prefixed(self._program, self._jobs))
        with Run(grace=grace, limit=limit, watch=watch) as running:
            for process in self._start(running):
                place = process.job.place
                if watch:
                    watch.add(process.pid, place.name if place and place.cores else None)
            ending = running.wait()
        if watch:
            watch.end()
        for descriptor in self._files:
            os.close(descriptor)
        return ending

    def _start(self, running: Run) -> list[Process]:
        pairs = zip(self._jobs, self._outputs, strict=True)
        found = [self._started(running, job, *output) for job, output in pairs]
        for file in self._files:  # what was in it is lost only now that something was started
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.ftruncate(file, 0)
        return found

    def _started(self, running: Run, job: Job, out: Output | None, err: Output | None) -> Process:
        """Start a process, or say why it cannot be started as planned."""
        try:
            return running.start(job, out, err)
        except SubprocessError as error:
            message = f"{job.name} cannot be bound to its cores"
            raise QuestionError(message, "leave it unbound: --no-bind") from error
        except OSError as error:
            if error.filename is not None:
                raise not_executed(self._program, job.path, error) from error
            message = f"cannot start {job.name}: {error.strerror}"
            raise QuestionError(message, LIMITS) from error

    def _report_end(self, ending: Ending, limit: float | None) -> int:
        """Say how it ended, and return the exit code."""
        if ending.survivors:
            which = ", ".join(map(str, ending.survivors[:_LISTED]))
            what = f"warning: the kernel does not end what was started: process {which}"
            tell(self._program, what)
        if ending.why == "closed":
            raise next(s.failed for s in self._sinks if s.failed)
        if ending.why == "timeout":
            what = f"error: the time limit of {limit:g} s was reached: all processes were ended"
            tell(self._program, what, "  fix: raise --timeout, or request less")
        elif ending.why == "failed" and ending.process is not None:
            self._failed(ending.process)
        return ending.code

    @property
    def _sinks(self) -> Iterator[Sink]:
        return (output[0] for pair in self._outputs for output in pair if output)

    def _failed(self, process: Process) -> None:
        what = f"{process.job.name} ({process.job.about}) {ended(process.code or 0)}"
        last = [line.decode(errors="backslashreplace") for line in process.last[-_SHOWN:]]
        shown = [f"  {line}" for line in last] or ["  it has printed nothing"]
        tell(self._program, f"error: {what}", *shown)


def ended(code: int) -> str:
    """Return what a process ended with."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"


def _prefixed(program: Program, jobs: Sequence[Job]) -> Iterator[tuple[Output, Output]]:
    """Yield where the lines of each name go, and with which prefix."""
    streams = (program.stdout, program.stderr)
    for stream in streams:
        stream.flush()
    sinks = [Sink(stream.fileno()) for stream in streams]
    names = (printable(job.name) for job in jobs)
    shown = [n if len(n) <= _LONGEST else f"{n[: _LONGEST - 1]}…" for n in names]
    widest = max(map(width, shown))
    for name in shown:
        prefix = f"[{name}]{' ' * (widest - width(name))} "
        out, err = (
            (sink, prefix.encode(stream.encoding, "gpumap"))
            for stream, sink in zip(streams, sinks, strict=True)
        )
        yield out, err


def _file_name(name: str) -> str:
    """Return a name as that of a file, different for different names."""
    quoted = quote(name, safe="", errors="surrogateescape")
    return quoted.replace(".", "%2E", 1) if quoted.startswith(".") else quoted
