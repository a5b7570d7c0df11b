"""Training between processes: the steps of each rank, and rank 0's view of them.

All ranks run the same command line, so that a `Spec` of a few words is enough for each of them to
know its part. A rank waits for its device after every phase; what a phase takes is its own time.
"""

from __future__ import annotations

import hashlib
import time
from functools import reduce
from typing import TYPE_CHECKING, Any

from gpumap.bench.verify import judged, worse
from gpumap.dtypes import Array, np
from gpumap.errors import DeviceError, Diverged, GpumapError
from gpumap.training import steps
from gpumap.training.jobs import job_of
from gpumap.training.mpi_asynchronous import Apart
from gpumap.training.mpi_workers import MpiTeam
from gpumap.training.optimizers import Mean, partners
from gpumap.training.steps import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.base import Round
    from gpumap.bench.mpi_ranks import MpiRanks
    from gpumap.model import Binding, Check, Reason
    from gpumap.training.jobs import Job, Params, Spec
    from gpumap.training.optimizers import Exchange
    from gpumap.training.steps import Account
    from gpumap.training.workers import Worker


class Trainings:
    """What makes this rank's part of each training of a command; they share one worker."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._worker: Worker | None = None

    def begin(self) -> None:
        """Let go of what the trainings before have taken."""
        self._worker = None

    def make(self, spec: Spec, comm: Any, session: Session) -> RankTraining:
        """Return this rank's part; every rank comes here, also one that is not needed."""
        job = job_of(self._params, spec)
        needed = comm.Get_rank() < job.course.workers
        part = comm.Split(0 if needed else 1, comm.Get_rank())
        worker = self._taken(job, spec, comm, session) if needed else None
        return RankTraining(job, part, worker)

    def _taken(self, job: Job, spec: Spec, comm: Any, session: Session) -> Worker:
        if self._worker is None:
            self._worker = job.worker(spec.names[comm.Get_rank()], session)
        return self._worker


class RankTraining:
    """One rank's part of a training; without a worker it only looks on."""

    def __init__(self, job: Job, comm: Any, worker: Worker | None) -> None:
        self._job, self._course, self._comm, self._worker = job, job.course, comm, worker
        self._rank = int(comm.Get_rank())
        self._team = None if worker is None else MpiTeam(comm, worker, job.algorithm)
        if self._team is not None and job.spec.whole:
            self._team.prepare(steps.course_exchanges(job.course))
        self._apart: Apart | None = None
        if self._team is not None and job.asynchronous:
            self._apart = Apart(job.course, comm, self._team)
        self._rule = job.course.rule.of(job.course.workers, job.course.seed)
        self._step = 0
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._since = 0.0
        self._inputs = steps.Inputs(job.course)
        self._failure: GpumapError | None = None

    def poison(self) -> None:
        """Begin anew, with the parameters of rank 0."""
        if self._team is not None:
            self._rule = self._course.rule.of(self._course.workers, self._course.seed)
            self._team.begin(self._job.initial)
            self._step = 0
            if self._apart is not None:
                self._apart.begin()

    def record(self) -> None:
        """Tell phases of what is run from now on."""
        self._spent = dict.fromkeys(PHASES, 0.0)

    def phases(self) -> tuple[Mapping[str, float], Account | None] | None:
        """Return the seconds of this rank in each phase, and how stale its exchanges were."""
        account = None if self._apart is None else self._apart.account
        return None if self._worker is None else (dict(self._spent), account)

    def run(self, rounds: int) -> None:
        """Take steps; the last one ends when all have taken it."""
        if self._worker is None:
            return
        self._since = time.perf_counter()
        if self._apart is not None:
            self._apart.run(rounds, self._take_apart, self._spend)
        for _ in range(0 if self._apart is not None else rounds):
            self._take(self._worker)
            self._step += 1
        self._comm.Barrier()
        self._spend("sync")

    def check(self) -> tuple[Check, str] | None:
        """Return whether this rank's gradient is right, and a digest of what it has of all.

        Raises:
            Diverged: what it trains is no longer a number.
            GpumapError: a network of the user's own has failed in a step.
        """
        worker = self._worker
        if worker is None:
            return None
        steps.look(worker)
        failure, self._failure = self._failure, None
        if worker.diverged and self._job.spec.whole:
            failure = failure or steps.diverged(str(worker.session.device.ref))
        failed = self._comm.allreduce(int(failure is not None))
        if failure is not None:
            raise failure
        if failed:  # another one says it
            return judged(steps.METHOD, 0.0), ""
        self.poison()
        alone = steps.checked(self._course, self._rank, worker, self._job.initial)
        if not self._joined():
            return alone, ""
        found, wanted = self._exchanged(worker)
        return worse(alone, steps.same([found], wanted)), hashlib.sha256(
            found.tobytes()
        ).hexdigest()

    def parameters(self) -> Array | None:
        """Return what was trained, on rank 0 alone.

        Raises:
            Diverged: it is not a number.
        """
        if self._team is None or self._worker is None:
            return None
        found: Array = (self._apart or self._team).parameters()
        if self._rank:
            return None
        if not steps.finite(found):
            raise steps.diverged(str(self._worker.session.device.ref))
        return found

    def _take(self, worker: Worker) -> None:
        """Take a step with all others."""
        self._compute(worker, self._course.first(self._step, self._rank))
        if self._job.spec.whole:
            self._exchange(self._rule.before(self._step))
            worker.update(self._course.rate_at(self._step))
            worker.session.synchronize()
            self._spend("update")
            self._exchange(self._rule.after(self._step))

    def _take_apart(self, first: int) -> None:
        """Take a step on its own, on the examples from the place `first` on."""
        assert self._worker is not None  # it runs
        self._compute(self._worker, first)
        self._worker.update(self._course.rate_at(first // self._course.batch))
        self._worker.session.synchronize()
        self._spend("update")

    def _compute(self, worker: Worker, first: int) -> None:
        x, y = self._inputs.at(first, self._rank)
        self._spend("input")
        worker.model.load(x, y)
        worker.session.synchronize()
        self._spend("transfer")
        try:
            worker.model.compute(self._course.share(self._rank))
        except GpumapError as error:  # the others wait in the exchange: it is told behind it
            self._failure = self._failure or error
        worker.session.synchronize()
        self._spend("compute")

    def _exchange(self, wanted: Sequence[Exchange]) -> None:
        assert self._team is not None  # it has a worker
        for exchange in wanted:
            self._meet(partners(exchange, self._course.workers))
            self._spend("sync")
            self._team.exchange(exchange, self._course.shares)
            self._spend("comm")

    def _meet(self, ranks: Sequence[int]) -> None:
        """Wait until all who take part have come, if this rank is one of them."""
        if len(ranks) == self._course.workers:
            self._comm.Barrier()
            return
        others = [rank for rank in ranks if rank != self._rank]
        if len(others) < len(ranks):
            for other in others:
                self._comm.sendrecv(None, other, source=other)

    def _spend(self, phase: str) -> None:
        now = time.perf_counter()
        self._spent[phase] += now - self._since
        self._since = now

    def _joined(self) -> bool:
        return self._job.spec.whole and self._course.together

    def _exchanged(self, worker: Worker) -> tuple[Array, Array]:
        """Return what this rank has after the mean, and what all should have."""
        course, team = self._course, self._team
        assert team is not None  # it has a worker
        gradients = course.rule.average == "gradients"
        wanted = np.array(self._job.initial)
        if gradients:
            worker.model.load(*course.probe(self._rank))
            worker.model.compute(1.0 / course.probes)
            self._comm.Allreduce(steps.fetched(worker, "gradient"), wanted)
        team.exchange(Mean(course.rule.average), course.shares)
        return steps.fetched(worker, "gradient" if gradients else "weights"), wanted


class MpiTraining(steps.Training):
    """Rank 0's view of a training on all ranks."""

    def __init__(self, ranks: MpiRanks, number: int, account: Account | None) -> None:
        self._ranks, self._number, self.account = ranks, number, account

    def poison(self) -> None:
        """Begin anew."""
        self._ranks.tell("poison", self._number)

    def run(self, steps: int) -> None:
        """Take steps."""
        self._ranks.tell("run", self._number, steps)

    def record(self) -> None:
        """Tell phases of what is run from now on."""
        self._ranks.tell("ask", self._number, "record")

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a rank in each phase."""
        answers = [one for one in self._asked("phases") if one is not None]
        found, accounts = zip(*answers, strict=True)
        if self.account is not None:
            self.account.sum_up(accounts)
        return {phase: sum(one[phase] for one in found) / len(found) for phase in PHASES}

    def spent(self) -> Sequence[float]:
        """Return the seconds that each rank has computed since `record`."""
        return [one[0]["compute"] for one in self._asked("phases") if one is not None]

    def check(self) -> Check:
        """Return the worst of the ranks' checks; raises Diverged, by the name of the rank."""
        found = [one for one in self._asked("check") if one is not None]
        worst: Check = reduce(worse, (check for check, _ in found))
        if len({digest for _, digest in found}) > 1:
            return judged(steps.METHOD, float("inf"))
        return worst

    def parameters(self) -> Array:
        """Return what was trained; raises Diverged, by the name of the rank."""
        found: Array = self._asked("parameters")[0]
        return found

    def _asked(self, what: str) -> list[Any]:
        """Return what each rank answers; raises what the first one says that failed."""
        answers = self._ranks.tell("ask", self._number, what)
        for seat, (problem, _) in zip(self._ranks.seats, answers, strict=True):
            if problem is not None:
                code, text, hint = problem
                kind = Diverged if code == Diverged.code else DeviceError
                raise kind(f"{seat.words}: {text}", hint)
        return [found for _, found in answers]


class MpiWorkers:
    """The ranks as workers, as rank 0 sees them."""

    comm = "mpi"

    def __init__(self, ranks: MpiRanks) -> None:
        self._ranks = ranks

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return those whose memory is this machine's."""
        return self._ranks.beside(bindings)

    def skip(self, bindings: Sequence[Binding]) -> Reason | None:  # noqa: ARG002 - the contract's
        """Return None: a device that cannot train says so when its memory is taken."""
        return None

    def begin(self) -> None:
        """Let every rank give back its buffers."""
        self._ranks.begin()

    def training(self, job: Job) -> MpiTraining:
        """Take memory for a job on every rank."""
        account = steps.Account() if job.asynchronous else None
        return MpiTraining(self._ranks, self._ranks.make(job.spec), account)

    def played(self, work: Round, job: Job) -> Round:  # noqa: ARG002 - the contract's
        """Return the round: what ranks exchange is on the host, and real."""
        return work
