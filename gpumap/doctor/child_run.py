"""Run child processes that use devices, and end one that hangs: for `preflight` and `doctor`.

A child writes a line before each step and one for what came of it. The step that hangs, or ends its
process, is named and not tried again; the rest goes on in another process while there is time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from gpumap.backends.probe import answer, in_child
from gpumap.model import Binding, Device, Reason
from gpumap.model.io import plain, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpumap.backends.probe import Ended

    Key = tuple[str, str | None, str | None]  # a step, and the names that it is of
    ChildJob = Mapping[str, Any]
    Line = Mapping[str, Any]

_LAST = 0.5  # seconds of a child's end, in which its last lines are written


class ChildRun(ABC):
    """The child processes of one run, and the step that the present one is in.

    Args:
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
    """

    module: ClassVar[str]  # that a child runs

    def __init__(self, env: Mapping[str, str], end: float) -> None:
        self._env, self._end = env, end
        self._doing: Key = ("open", None, None)
        self._read, self._complete = 0, False
        self._since, self._starved = 0.0, 0.0

    @abstractmethod
    def job(self) -> ChildJob | None:
        """Return what is left for a child to do; None for nothing."""

    @abstractmethod
    def limit(self, step: str) -> float:
        """Return the seconds that a step may take."""

    @abstractmethod
    def certain(self, step: str) -> float:
        """Return the seconds without an answer that tell that a step hangs."""

    @abstractmethod
    def take(self, line: Line) -> None:
        """Take what came of a step."""

    @abstractmethod
    def lose(self, key: Key, why: Reason) -> None:
        """Take the step that a child did not end, and why: hangs, crashes, probe-failed, no-time.

        It has no name where the child did not come to its first one.
        """

    def run(self) -> None:
        """Do all that there is time for."""
        while not self._complete and time.monotonic() < self._end and (job := self.job()):
            self._child(job)

    def _child(self, job: ChildJob) -> None:
        """Run one process until it ends, or one of its steps takes too long."""
        left = self._end - time.monotonic()
        self._doing, self._read = ("open", None, None), 0
        self._since, self._starved = time.monotonic(), 0.0
        text = json.dumps({**job, "seconds": left, "end": self._end - _LAST})
        child = in_child(self.module, (), self._env, left, text, self._over)
        self._take_lines(child.answer)
        if not self._complete:
            self.lose(self._doing, self._why(child))

    def _why(self, child: Ended) -> Reason:
        """Return what the end of a process says of the step that it was in."""
        ended = "the process that used it ended with"
        if child.code is not None and child.code < 0:
            return Reason("crashes", f"{ended} signal {-child.code}")
        if child.code is not None:
            last = child.errors.strip().rpartition("\n")[2]
            return Reason("probe-failed", last or f"{ended} exit code {child.code}")
        waited = self._waited()
        if waited >= self.certain(self._doing[0]):
            return Reason("hangs", f"no answer in {waited:.1f} s")
        return Reason("no-time", f"its time was over after {waited:.1f} s, before its end")

    def _over(self, text: str, starved: float) -> bool:
        """Return whether a step has used its time; that in which it had no core is not counted."""
        self._starved = max(self._starved, starved)
        self._take_lines(text)
        return time.monotonic() >= self._end or self._waited() >= self.limit(self._doing[0])

    def _waited(self) -> float:
        """Return the seconds of a step in which it had a core if it wanted one."""
        return time.monotonic() - self._starved - self._since

    def _take_lines(self, text: str) -> None:
        """Take the whole lines that are new."""
        lines = text.split("\n")[:-1]
        for line in map(json.loads, lines[self._read :]):
            self._since = time.monotonic() - self._starved
            if "begin" in line:
                step, name, other = line["begin"]
                self._doing = (step, name, other)
            elif "end" in line:
                self._complete = True
            else:
                self.take(line)
        self._read = len(lines)


def written(bindings: Iterable[Binding]) -> list[dict[str, Any]]:
    """Return names and their devices as a job has them."""
    return [{"name": each.name, "device": plain(each.device)} for each in bindings]


def bindings_of(job: ChildJob) -> list[Binding]:
    """Return the names of a job with their devices."""
    return [Binding(each["name"], typed(each["device"], Device)) for each in job["names"]]


def serve(lines: Callable[[ChildJob, Mapping[str, str]], Iterable[Line]]) -> None:
    """Be a child: do the job of stdin, write a line for each that comes, and one at the end."""

    def every() -> Iterator[Line]:
        yield from lines(json.load(sys.stdin), dict(os.environ))
        yield {"end": True}

    answer(int(sys.argv[-1]), every())
