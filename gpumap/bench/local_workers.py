"""The sessions of a map as the workers of `bench train`, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.training import LocalTraining
from gpumap.model import Reason
from gpumap.parallel.comm.local import exchange
from gpumap.parallel.team import LocalTeam

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Buffer, Clock, Session
    from gpumap.bench.exchanges import Library
    from gpumap.bench.train import Job
    from gpumap.model import Binding
    from gpumap.parallel.team import Queued, Worker


class LocalWorkers:
    """A worker for each session; several trainings of one group share them, one after the other."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        clock: Clock | None = None,
        library: Callable[[Sequence[Session]], Library] | None = None,
    ) -> None:
        """Take the sessions by name; of a plan there are none. `library` exchanges by itself."""
        self.comm = "local" if library is None else "nccl"
        self._sessions, self._clock, self._library = sessions, clock, library
        self._workers: dict[str, Worker] = {}

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

        def join(buffers: Sequence[Buffer]) -> Queued:
            sessions = [worker.session for worker in workers]
            if job.algorithm == "native" and self._library is not None:
                return self._library(sessions).exchange(buffers)
            return exchange(job.algorithm, sessions, buffers)

        team = LocalTeam(workers, join)
        return LocalTraining(job.course, team, job.initial, self._clock, whole=job.spec.whole)

    def _worker(self, name: str, job: Job) -> Worker:
        if name not in self._workers:
            self._workers[name] = job.worker(name, self._sessions[name])
        return self._workers[name]
