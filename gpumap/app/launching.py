"""The processes of a command: started, and told of when they have ended."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from subprocess import SubprocessError
from typing import TYPE_CHECKING
from urllib.parse import quote

from gpumap.app.command import not_executed, tell
from gpumap.errors import QuestionError
from gpumap.escape import printable
from gpumap.launch.streams import Sink
from gpumap.launch.supervisor import LIMITS, Run
from gpumap.text import cut, ended, width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.launch.process import Job, Process
    from gpumap.launch.supervisor import Ending, Output, Outputs
    from gpumap.launch.watching import Watch

_LONGEST = 40  # columns of a name before its lines
_SHOWN = 5  # last lines of who failed


class Launching:
    """Starts jobs, and says how they went."""

    def __init__(self, program: Program, jobs: Sequence[Job]) -> None:
        self._program = program
        self._jobs = jobs
        self._files = ExitStack()

    def go(self, grace: float, limit: float | None, folder: Path | None = None) -> int:
        """Run it all; say how it ended, and return the exit code.

        Each line goes behind its name, or each process has files of its own in a folder.

        Raises:
            QuestionError: one of them cannot be written.
        """
        outputs = self._to_files(folder) if folder else list(_prefixed(self._program, self._jobs))
        ending = self.run(grace, limit, outputs)
        self._report_end(ending, limit)
        if ending.why == "closed":
            sinks = (sink for pair in outputs for sink, _ in pair)
            raise next(sink.failed for sink in sinks if sink and sink.failed)
        return ending.code

    def run(
        self,
        grace: float,
        limit: float | None,
        outputs: Sequence[Outputs | None],
        watch: Watch | None = None,
    ) -> Ending:
        """Run it all, and return how it ended.

        Args:
            grace: seconds that a process has to end after a signal.
            limit: seconds for all.
            outputs: of each job where its lines go; None: it has the streams of this process.
            watch: looks at the processes.
        """
        with Run(grace=grace, limit=limit, watch=watch) as running:
            for job, output in zip(self._jobs, outputs, strict=True):
                process, place = self._started(running, job, output), job.place
                if watch:
                    watch.add(process.pid, place.name if place and place.cores else None)
            ending = running.wait()
        if watch:
            watch.end()
        self._files.close()
        return ending

    def _to_files(self, folder: Path) -> list[Outputs]:
        """Open the files of each process in a folder: ``NAME.out`` and ``NAME.err``."""
        into = self._program.cwd / folder
        try:
            into.mkdir(parents=True, exist_ok=True)
            return [
                (self._file(into / f"{name}.out"), self._file(into / f"{name}.err"))
                for name in (_file_name(job.name) for job in self._jobs)
            ]
        except OSError as error:
            self._files.close()  # or there is no room to say it
            message = f"cannot write {error.filename or folder}: {error.strerror}"
            full = error.errno in (errno.EMFILE, errno.ENFILE)
            fix = LIMITS if full else "choose another folder, or shorten the names"
            raise QuestionError(message, fix) from error

    def _file(self, path: Path) -> Output:
        # a FIFO without a reader would be waited for
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o666)
        self._files.callback(os.close, number)
        os.set_blocking(number, True)
        return Sink(number), None

    def _started(self, running: Run, job: Job, outputs: Outputs | None) -> Process:
        """Start a process, or say why it cannot be started as planned."""
        try:
            return running.start(job, outputs)
        except SubprocessError as error:
            message = f"{job.name} cannot be bound to its cores"
            raise QuestionError(message, "leave it unbound: --no-bind") from error
        except OSError as error:
            if error.filename is not None:
                raise not_executed(self._program, job.path, error) from error
            message = f"cannot start {job.name}: {error.strerror}"
            raise QuestionError(message, LIMITS) from error

    def _report_end(self, ending: Ending, limit: float | None) -> None:
        """Say how it ended, and what the kernel has not."""
        if ending.survivors:
            which = ", ".join(map(str, ending.survivors))
            what = f"warning: the kernel does not end what was started: process {which}"
            tell(self._program, what)
        if ending.why == "timeout":
            what = f"error: the time limit of {limit:g} s was reached: all processes were ended"
            tell(self._program, what, "  fix: raise --timeout, or request less")
        elif ending.why == "failed" and ending.process is not None:
            self._failed(ending.process)

    def _failed(self, process: Process) -> None:
        what = f"{process.job.name} ({process.job.about}) {ended(process.code or 0)}"
        last = [line.decode(errors="backslashreplace") for line in process.last[-_SHOWN:]]
        tell(self._program, f"error: {what}", *(f"  {line}" for line in last))


def _prefixed(program: Program, jobs: Sequence[Job]) -> Iterator[Outputs]:
    """Yield where the lines of each name go, and with which prefix."""
    streams = (program.stdout, program.stderr)
    for stream in streams:
        stream.flush()
    sinks = [Sink(stream.fileno()) for stream in streams]
    names = (printable(job.name) for job in jobs)
    shown = [cut(name, _LONGEST) for name in names]
    widest = max(map(width, shown))
    for name in shown:
        prefix = f"[{name}]{' ' * (widest - width(name))} "
        out, err = (
            (sink, prefix.encode(stream.encoding, "backslashreplace"))
            for stream, sink in zip(streams, sinks, strict=True)
        )
        yield out, err


def _file_name(name: str) -> str:
    """Return a name as that of a file, different for different names."""
    quoted = quote(name, safe="", errors="surrogateescape")
    return quoted.replace(".", "%2E", 1) if quoted.startswith(".") else quoted
