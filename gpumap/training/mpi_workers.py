"""Training between processes: the steps of each rank, and rank 0's view of them.

All ranks run the same command line, so that a `Spec` of a few words is enough for each of them to
know its part. A rank waits for its device after every phase; what a phase takes is its own time.

A core's array is the host's own and is exchanged in place; arrays of other devices come to the host
and go back. Every rank exchanges in the same order, so that each message has a receiver.
"""

from __future__ import annotations

import hashlib
import time
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

from gpumap.bench.verify import judged, worse
from gpumap.distributed.mpi import exchange
from gpumap.dtypes import Array, np
from gpumap.errors import DeviceError, Diverged, GpumapError
from gpumap.kernels import training
from gpumap.training import steps
from gpumap.training.jobs import job_of
from gpumap.training.mpi_asynchronous import Apart
from gpumap.training.steps import PHASES
from gpumap.training.workers import Mean, Meet, Push, partners

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.bench.base import Round
    from gpumap.bench.mpi_ranks import MpiRanks
    from gpumap.distributed.mpi import MpiExchange, NativeExchange
    from gpumap.model import Binding, Check, Reason
    from gpumap.training.jobs import Job, Params, Spec
    from gpumap.training.steps import Account
    from gpumap.training.workers import Exchange, Worker


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
        if needed and self._worker is None:
            self._worker = job.worker(spec.names[comm.Get_rank()], session)
        return RankTraining(job, part, self._worker if needed else None)


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
            self._apart.run(rounds, self._step_at, self._spend)
        for _ in range(0 if self._apart is not None else rounds):
            self._take()
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
        if not (self._job.spec.whole and self._course.together):
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

    def _take(self) -> None:
        """Take a step with all others; it may be a gradient alone."""
        first = self._course.first(self._step, self._rank)
        if not self._job.spec.whole:
            self._compute(first)
            return
        self._step_at(first, self._rule.before(self._step))
        self._exchange(self._rule.after(self._step))

    def _step_at(self, first: int, before: Sequence[Exchange] = ()) -> None:
        """Take a step on the examples from the place `first` on; `before` the update, exchange."""
        worker = self._compute(first)
        self._exchange(before)
        worker.update(self._course.rate_at(first // self._course.batch))
        worker.session.synchronize()
        self._spend("update")

    def _compute(self, first: int) -> Worker:
        """Compute the gradient of the examples from the place `first` on; return who did."""
        worker = self._worker
        assert worker is not None  # it runs
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
        return worker

    def _exchange(self, wanted: Sequence[Exchange]) -> None:
        assert self._team is not None  # it has a worker
        for one in wanted:
            self._meet(partners(one, self._course.workers))
            self._spend("sync")
            self._team.exchange(one, self._course.shares)
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
        return cast("Array", self._asked("parameters")[0])

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


class Landing:
    """A buffer's elements on the host: its own, where that is the device, else a copy."""

    def __init__(self, buffer: Buffer) -> None:
        """Take host memory, if it takes any; raises MemoryError."""
        self._buffer, self._session = buffer, buffer.session
        self._own = self._session.device.backend == "numpy"
        self.array: Array = buffer.native if self._own else np.empty(buffer.shape, np.float32)

    def fetch(self) -> Array:
        """Return the elements as they are now; waits for the device."""
        if not self._own:
            self._session.download(self._buffer, self.array)
        self._session.synchronize()
        return self.array

    def put(self) -> None:
        """Bring the elements back; waits, so that they may be written again."""
        if not self._own:
            self._session.upload(self.array, self._buffer)
            self._session.synchronize()


class MpiTeam:
    """One rank of a team."""

    def __init__(self, comm: Any, worker: Worker, algorithm: str) -> None:
        """Take part in `comm`, of the ranks that train."""
        self._comm, self._worker, self._algorithm = comm, worker, algorithm
        self._rank = int(comm.Get_rank())
        self.weights = Landing(worker.model.weights)
        self._gradient = Landing(worker.model.gradient)
        self._sums: dict[str, MpiExchange | NativeExchange] = {}
        self._room: Array | None = None
        self._centre: Array | None = None

    def begin(self, parameters: Array) -> None:
        """Begin with the parameters of rank 0, whatever is given here; nothing is remembered.

        Raises:
            DeviceError: what came is not what rank 0 has sent.
        """
        given = np.array(parameters, np.float32)
        sent = self._comm.bcast(_digest(given))
        self._comm.Bcast(given)
        came = _digest(given) == sent
        if self._comm.allreduce(int(came)) != self._comm.Get_size():
            here = "here" if not came else "on another rank"
            raise DeviceError(f"the first parameters came {here} as others than rank 0 has sent")
        self._worker.model.put(given)
        self._worker.session.synchronize()
        self._worker.optimizer.reset()
        if self._centre is not None:
            self._centre[:] = given

    def prepare(self, wanted: Sequence[Exchange]) -> None:
        """Take the memory that exchanges need; raises MemoryError."""
        for one in wanted:
            if isinstance(one, Mean):
                self._sum(one)
            elif isinstance(one, Meet):
                self._keep_centre()
            else:
                self.room()

    def exchange(self, wanted: Exchange, shares: Sequence[float]) -> None:
        """Do an exchange, and return when this rank's part of it is over."""
        if isinstance(wanted, Mean):
            self._mean(wanted, shares[self._rank])
        elif isinstance(wanted, Meet):
            self._meet(wanted)
        else:
            self._push(wanted)

    def parameters(self) -> Array:
        """Return what was trained: the centre's parameters, or this rank's own; waits."""
        found: Array = self.weights.fetch() if self._centre is None else self._centre
        return found.copy()

    def _mean(self, wanted: Mean, share: float) -> None:
        landing = self._landing(wanted)
        array = landing.fetch()
        if wanted.of == "parameters":
            training.scaled(array, share, array)
        self._sum(wanted).run()
        landing.put()

    def _landing(self, wanted: Mean) -> Landing:
        return self._gradient if wanted.of == "gradients" else self.weights

    def _sum(self, wanted: Mean) -> MpiExchange | NativeExchange:
        if wanted.of not in self._sums:
            array = self._landing(wanted).array
            self._sums[wanted.of] = exchange(self._algorithm, self._comm, array)
        return self._sums[wanted.of]

    def _meet(self, wanted: Meet) -> None:
        self._keep_centre()
        if self._rank == 0:
            self._keep(wanted)
        elif self._rank == wanted.worker:
            array = self.weights.fetch()
            self._comm.Send(array, 0)
            self._comm.Recv(array, 0)
            self.weights.put()

    def _keep(self, wanted: Meet) -> None:
        """Let a worker meet the centre, which rank 0 has."""
        assert self._centre is not None  # it was prepared
        if wanted.worker == 0:
            training.elastic(self.weights.fetch(), self._centre, wanted.share)
            self.weights.put()
            return
        came = self.room()
        self._comm.Recv(came, wanted.worker)
        training.elastic(came, self._centre, wanted.share)
        self._comm.Send(came, wanted.worker)

    def _push(self, wanted: Push) -> None:
        if self._rank == wanted.sender:
            self._comm.Send(self.weights.fetch(), wanted.receiver)
        elif self._rank == wanted.receiver:
            came = self.room()
            self._comm.Recv(came, wanted.sender)
            training.blend(self.weights.fetch(), came, wanted.share)
            self.weights.put()

    def room(self) -> Array:
        """Return where this rank takes in what others send."""
        if self._room is None:
            self._room = np.empty(self.weights.array.shape, np.float32)
        return self._room

    def _keep_centre(self) -> None:
        """Let rank 0 have a centre, which begins as it is now."""
        if self._rank == 0 and self._centre is None:
            self.room()
            self._centre = self.weights.fetch().copy()


def _digest(array: Array) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
