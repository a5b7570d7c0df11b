"""The sessions of a map as the workers of `bench train`, in one process."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpumap.bench.verify import HOLDS, hollow_array, is_hollow, lighten, played
from gpumap.distributed.local import exchange
from gpumap.model import Reason
from gpumap.training.asynchronous import AsynchronousTraining
from gpumap.training.jobs import EPOCH
from gpumap.training.network import ITEM, Network
from gpumap.training.steps import LocalTraining
from gpumap.training.workers import LocalTeam

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Buffer, Clock, Session
    from gpumap.bench.base import Round
    from gpumap.bench.exchanges import Library
    from gpumap.distributed.local import Exchange
    from gpumap.model import Binding
    from gpumap.training.jobs import Job
    from gpumap.training.workers import Worker


class NoExamples:
    """Examples that have no data."""

    def __init__(self, task: Any) -> None:
        self.count, self._network = EPOCH, task

    def numbers(self, start: int, stop: int) -> Any:
        """Return the places themselves."""
        return range(start, stop)

    def batch(self, numbers: Any) -> tuple[Any, Any]:
        """Return arrays of the shapes of so many examples."""
        widths = self._network.inputs, self._network.last.units
        x, y = (hollow_array((len(numbers), width)) for width in widths)
        return x, y


class LocalWorkers:
    """A worker for each session; several trainings of one group share them, one after the other."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        clock: Clock | None = None,
        library: Callable[[Sequence[Session]], Library] | None = None,
    ) -> None:
        """Take the sessions by name; of a plan there are none. `library` does the exchange."""
        self.comm = "local" if library is None else "nccl"
        self._sessions, self._clock, self._library = sessions, clock, library
        self._workers: dict[str, Worker] = {}
        self._light = any(is_hollow(session, sys.maxsize) for session in sessions.values())

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return all of them."""
        return bindings

    def skip(self, bindings: Sequence[Binding]) -> Reason | None:
        """Return why they cannot train."""
        opened = [self._sessions[b.name] for b in bindings if b.name in self._sessions]
        lacking = [session for session in opened if "kernels" not in session.features]
        if lacking:
            text = f"{lacking[0].device.backend} runs no kernels of gpumap's"
            return Reason("unsupported", text)
        return None

    def begin(self) -> None:
        """Let go of what the trainings before have taken."""
        self._workers.clear()

    def training(self, job: Job) -> LocalTraining:
        """Take memory for a job on every worker."""
        assert self._clock is not None  # a plan alone has none
        workers = [self._worker(name, job) for name in job.spec.names]

        def join(buffers: Sequence[Buffer]) -> Exchange:
            sessions = [worker.session for worker in workers]
            if job.algorithm == "native" and self._library is not None:
                return self._library(sessions).exchange(buffers)
            return exchange(job.algorithm, sessions, buffers)

        hollow, course = self._is_hollow(job), job.course
        if hollow:
            course = replace(course, data=NoExamples(course.task))
        team = LocalTeam(workers, join)
        initial = hollow_array((course.task.parameters,)) if hollow else job.initial
        if job.asynchronous:
            return AsynchronousTraining(course, team, initial, self._clock)
        return LocalTraining(course, team, initial, self._clock, whole=job.spec.whole)

    def played(self, work: Round, job: Job) -> Round:
        """Return the round of a job; where results are scripted, one that does not compute them."""
        nbytes = ITEM * job.course.task.parameters
        return played(work, self._first(job), nbytes) if self._is_hollow(job) else work

    def _is_hollow(self, job: Job) -> bool:
        """Return whether a scripted device has no data for a job; what it learns it computes."""
        task: Any = job.course.task
        large = self._light and ITEM * task.parameters > HOLDS
        return large and isinstance(task, Network) and not job.params.learn

    def _first(self, job: Job) -> Session:
        return self._sessions[job.spec.names[0]]

    def _worker(self, name: str, job: Job) -> Worker:
        if name not in self._workers:
            if self._light:  # what computes holds all that it learns from
                holds = HOLDS if self._is_hollow(job) else sys.maxsize
                lighten(self._sessions[name], holds)
            self._workers[name] = job.worker(name, self._sessions[name])
        return self._workers[name]
