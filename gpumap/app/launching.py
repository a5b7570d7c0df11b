"""The processes of `gpumap run`: found, started, proved, and told of when they have ended.

Where processes really run: what the kernel says of each, beside what was planned.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from dataclasses import dataclass
from subprocess import SubprocessError
from typing import TYPE_CHECKING

from gpumap.app.command import not_executed, tell
from gpumap.errors import QuestionError
from gpumap.escape import printable
from gpumap.files import target_state
from gpumap.launch.placement import Place, contradiction
from gpumap.launch.streams import Sink
from gpumap.launch.supervisor import LIMITS, Run
from gpumap.text import width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.launch.process import Order, Process
    from gpumap.launch.supervisor import Ending, Output
    from gpumap.launch.watching import Watch

_COLOURS = (36, 33, 35, 32, 34, 31)  # of names, in turn
_LONGEST = 40  # columns of a name before its lines
_SHOWN = 5  # last lines of who failed
_LISTED = 8
_NO_READER = "it is a FIFO without a reader"
_UNWRITTEN = {  # the fix, where it is not another folder
    errno.EMFILE: LIMITS,
    errno.ENFILE: LIMITS,
    errno.ENAMETOOLONG: "shorten the name in the map",
}
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class Job:
    """A process to start: whose it is, and where it is to be; without a place it names itself."""

    name: str
    about: str  # told of it where it fails
    order: Order
    place: Place | None = None


class Launching:
    """Starts jobs, and says how they went."""

    def __init__(self, program: Program, jobs: Sequence[Job], *, quiet: bool) -> None:
        self._program = program
        self._jobs = jobs
        self._quiet = quiet
        self._files: list[int] = []
        self._outputs: list[tuple[Output | None, Output | None]] = []

    def to_our_streams(self) -> None:
        """Let each process have the streams of this one, as a program in a shell has them."""
        self._outputs = [(None, None) for _ in self._jobs]

    def to_nothing(self) -> None:
        """Show nothing of what the processes print; their last lines are kept."""
        self._files.append(os.open(os.devnull, os.O_WRONLY))
        sink = Sink(self._files[-1], vital=False)
        self._outputs = [((sink, None), (sink, None)) for _ in self._jobs]

    def to_files(self, folder: Path) -> None:
        """Let each process have files of its own.

        Raises:
            QuestionError: one of them cannot be written.
        """

        def opened(name: str) -> Sink:
            path = self._program.cwd / folder / name
            target_state(path)
            # O_NONBLOCK: the open itself would wait for who reads a FIFO
            flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK
            self._files.append(os.open(path, flags, 0o666))
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
            where = error.filename or folder
            message = _NO_READER if error.errno == errno.ENXIO else error.strerror
            fix = _UNWRITTEN.get(error.errno or 0, "choose another folder")
            raise QuestionError(f"cannot write {where}: {message}", fix) from error

    def go(self, grace: float, limit: float | None, watch: Watch | None = None) -> int:
        """Run it all, say how it ended, and return the exit code."""
        return self._report_end(self.run(grace, limit, watch), limit)

    def run(self, grace: float, limit: float | None, watch: Watch | None = None) -> Ending:
        """Run it all, looked at by `watch`, and return how it ended."""
        if not self._outputs:
            self._outputs = list(_prefixed(self._program, self._jobs))
        with Run(grace=grace, limit=limit, watch=watch) as running:
            processes = self._start(running)
            for job, process in zip(self._jobs, processes, strict=True):
                if watch:  # a name that is the cores to which its process is bound has all its work
                    place = job.place
                    bound = place and place.cores and place.cores == place.device.cores
                    watch.add(process.pid, job.name if bound else None)
            self._prove(processes)
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
            return running.start(job.name, job.order, out, err)
        except SubprocessError as error:
            message = f"{job.name} cannot be bound to its cores"
            raise QuestionError(message, "leave it unbound: --no-bind") from error
        except OSError as error:
            if error.filename is not None:
                raise not_executed(self._program, job.order.path, error) from error
            message = f"cannot start {job.name}: {error.strerror}"
            raise QuestionError(message, LIMITS) from error

    def _prove(self, processes: Sequence[Process]) -> None:
        """Say whether the processes are where they were to be."""
        pairs = zip((job.place for job in self._jobs), processes, strict=True)
        bound = [(place, process) for place, process in pairs if place and place.cores]
        wrong = []
        for place, process in bound:
            if message := contradiction(place, process.pid):
                wrong.append(f"warning: {place.name} (process {process.pid}) {message}")
        if bound and not self._quiet:
            right, total = len(bound) - len(wrong), len(processes)
            wrong.append(f"bound as planned: {right} of {total} process{'es' * (total > 1)}")
        for line in wrong:
            self._say(line)

    def _report_end(self, ending: Ending, limit: float | None) -> int:
        """Say how it ended, and return the exit code."""
        if ending.survivors:
            which = ", ".join(map(str, ending.survivors[:_LISTED]))
            self._say(f"warning: the kernel does not end what was started: process {which}")
        if ending.why == "closed":
            raise next(s.failed for s in self._sinks if s.failed and s.vital)
        if ending.why == "timeout":
            self._say(f"error: the time limit of {limit:g} s was reached: all processes were ended")
            self._say("  fix: raise --timeout, or request less")
        elif ending.why == "failed" and ending.process is not None:
            self._failed(ending.process)
        return ending.code

    @property
    def _sinks(self) -> Iterator[Sink]:
        return (output[0] for pair in self._outputs for output in pair if output)

    def _failed(self, process: Process) -> None:
        about = next(job.about for job in self._jobs if job.name == process.name)
        self._say(f"error: {process.name} ({about}) {ended(process.code or 0)}")
        last = [line.decode(errors="backslashreplace") for line in process.last[-_SHOWN:]]
        for line in last:
            self._say(f"  {line}")
        if not last:
            self._say("  it has printed nothing")

    def _say(self, text: str) -> None:
        tell(self._program, text)


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
    """Yield where the lines of each name go, and with which prefix: coloured on a terminal."""
    streams = (program.stdout, program.stderr)
    for stream in streams:
        stream.flush()
    sinks = [Sink(stream.fileno(), vital=stream is program.stdout) for stream in streams]
    plain = "NO_COLOR" in program.env or program.env.get("TERM") == "dumb"
    coloured = [stream.isatty() and not plain for stream in streams]
    names = (printable(job.name) for job in jobs)
    shown = [n if len(n) <= _LONGEST else f"{n[: _LONGEST - 1]}…" for n in names]
    widest = max(map(width, shown))
    for number, name in enumerate(shown):
        padding = " " * (widest - width(name))
        colour = _COLOURS[number % len(_COLOURS)]
        outputs: list[Output] = []
        for stream, sink, c in zip(streams, sinks, coloured, strict=True):
            shown_name = f"\x1b[{colour}m[{name}]\x1b[0m" if c else f"[{name}]"
            prefix = f"{shown_name}{padding} ".encode(stream.encoding, "gpumap")
            outputs.append((sink, prefix))
        yield outputs[0], outputs[1]


def _file_name(name: str) -> str:
    """Return a name as that of a file, different for different names."""
    return "".join(
        c if c in _SAFE or (c == "." and n) else "".join(f"%{b:02x}" for b in c.encode())
        for n, c in enumerate(name)
    )
