"""The workers of a training, as the benchmark sees them: devices of this process, or processes.

Each of them is a rank (`gpumap.training.ranks`). A training is commands to all of its ranks: to
threads of this process, or by rank 0 of a job to all of its processes.
"""

from __future__ import annotations

import sys
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from gpumap.backends.base import Clock
from gpumap.bench.exchanges import Commanded, Ranks, without_kernels
from gpumap.comm import threads
from gpumap.comm.local import exchange
from gpumap.engine.verify import HOLDS, is_hollow, judged, lighten, worse
from gpumap.model import replace
from gpumap.model.measurements import PHASES
from gpumap.training import steps
from gpumap.training.jobs import job_of
from gpumap.training.network import ITEM, Network
from gpumap.training.ranks import RankTraining
from gpumap.training.steps import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.backends.base import Buffer, Exchange, Library, Session
    from gpumap.bench.exchanges import Command
    from gpumap.comm.base import ProcessComm
    from gpumap.dtypes import Array
    from gpumap.engine.base import Events
    from gpumap.model import Binding, Check, Reason
    from gpumap.training.jobs import Job, Params, Spec


class Training(Commanded):
    """All ranks of a training; an iteration is `steps` of them.

    To poison it resets to the initial parameters.
    """

    phased = True
    steps = 1

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Take the steps of `iterations`; with `events` a new account of the phases begins."""
        self.run(iterations * self.steps, anew=events is not None)

    def run(self, steps: int, *, anew: bool = False) -> None:
        """Queue steps, or take them; `anew`: phases are those from here on."""
        self._command("run", steps, anew)

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a rank in each phase."""
        spent = self._answers("phases")
        return {phase: sum(each[phase] for each in spent) / len(spent) for phase in PHASES}

    def spent(self) -> Sequence[float]:
        """Return the seconds that each rank has computed, as `phases` has them."""
        return [phases["compute"] for phases in self._answers("phases")]

    def check(self) -> Check:
        """Return the worst of the ranks' checks, of which all must have the same bits.

        Raises:
            Diverged: what a rank computes is not a number.
        """
        checks, digests = zip(*self._answers("check"), strict=True)
        worst: Check = reduce(worse, checks)
        return worst if len({*digests}) == 1 else judged(steps.METHOD, float("inf"))

    def parameters(self) -> Array:
        """Return the trained parameters; waits; raises Diverged."""
        return cast("Array", self._command("parameters")[0])

    def _answers(self, name: str) -> list[Any]:
        """Return what the ranks answer; one that has no part in the training has no answer."""
        return [answer for answer in self._command(name) if answer is not None]


# --- the devices of this process


class LocalWorkers(Ranks):
    """A worker for each session; several trainings of one group share them, one after the other."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        clock: Clock | None = None,
        library: Callable[[Sequence[Session]], Library] | None = None,
        comm: str = "local",
    ) -> None:
        """Take the sessions by name; of a plan there are none. `library` does the exchange."""
        self.comm = comm
        self._sessions, self._clock, self._library = sessions, clock or Clock(), library
        self._workers: dict[str, Worker] = {}

    def skip(self, bindings: Sequence[Binding]) -> Reason | None:
        """Return why they cannot train."""
        opened = [self._sessions[b.name] for b in bindings if b.name in self._sessions]
        return without_kernels(opened)

    def begin(self) -> None:
        """Release the buffers of earlier trainings."""
        self._workers.clear()

    def sessions(self, job: Job) -> Sequence[Session]:
        """Return those of a job's workers."""
        return [self._sessions[name] for name in job.spec.names]

    def command(self, job: Job) -> Command:
        """Take memory for a job on every worker; return what lets all of them do something."""
        clock = self._clock
        workers = [self._worker(name, job) for name in job.spec.names]
        ranks = threads.Ranks(len(workers), self._join, clock)
        job = replace(job, hollow=is_hollow(workers[0].session, _nbytes(job)))

        def make(comm: threads.Threads) -> RankTraining:
            worker, number = workers[comm.rank], comm.rank
            label = f"{worker.name} (worker {number}, {worker.session.device.ref})"
            return RankTraining(job, comm, worker, clock, label)

        _ = job.initial  # once, before each thread would make it
        made = ranks.run(make)

        def command(name: str, *arguments: Any) -> list[Any]:
            return ranks.run(lambda comm: getattr(made[comm.rank], name)(*arguments))

        return command

    def _join(self, algorithm: str, buffers: Sequence[Buffer]) -> Exchange:
        """Return the exchange of a buffer of each rank."""
        if algorithm == "native" and self._library is not None:
            return self._library([buffer.session for buffer in buffers])(buffers)
        return exchange(algorithm, buffers)

    def _worker(self, name: str, job: Job) -> Worker:
        if name not in self._workers:
            learns = not isinstance(job.params.network, Network) or job.params.learn
            if learns or _nbytes(job) <= HOLDS:  # what computes holds all that it learns from
                lighten(self._sessions[name], sys.maxsize)
            self._workers[name] = Worker(name, self._sessions[name], job)
        return self._workers[name]


def _nbytes(job: Job) -> int:
    return ITEM * job.params.network.parameters


# --- processes


class TrainingMaker:
    """Makes this rank's part of each training; all share one worker."""

    def __init__(self, params: Params, clock: Clock) -> None:
        self._params, self._clock = params, clock
        self._parts: dict[int, ProcessComm] = {}  # the first ranks alone, by how many they are
        self._worker: Worker | None = None

    def __call__(self, spec: Spec, comm: ProcessComm, session: Session) -> RankTraining | None:
        """Return this rank's part, if it has one; collective."""
        size = len(spec.names)
        if size not in self._parts:  # made by all ranks, whether they are in it or not
            self._parts[size] = comm if size == comm.size else comm.part(size)
            self._parts[size].aside = comm.aside
        if comm.rank >= size:
            return None
        job = job_of(self._params, spec)  # a user's class may fail: others are past what is common
        if self._worker is None:
            self._worker = Worker(spec.names[comm.rank], session, job)
        return RankTraining(
            job, self._parts[size], self._worker, self._clock, str(session.device.ref)
        )
