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
from typing import TYPE_CHECKING, Any, Protocol, cast

from gpumap.comm.base import exchange as engine_exchange
from gpumap.comm.mpi import Mpi
from gpumap.dtypes import Array, np
from gpumap.engine.verify import judged, worse
from gpumap.errors import DeviceError, Diverged, GpumapError
from gpumap.kernels import blend, elastic, scaled
from gpumap.model.measurements import PHASES
from gpumap.training import steps
from gpumap.training.jobs import job_of
from gpumap.training.mpi_asynchronous import AsynchronousRank
from gpumap.training.worker_groups import Elastic, Mean, Push, partners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.comm.base import RankInfo
    from gpumap.engine.base import Iteration
    from gpumap.model import Binding, Check, Reason
    from gpumap.training.jobs import Job, Params, Spec
    from gpumap.training.steps import Account
    from gpumap.training.worker_groups import Exchange, Worker


class TrainingFactory:
    """Factory of this rank's part of each training; all share one worker."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._worker: Worker | None = None

    def begin(self) -> None:
        """Release the worker of earlier trainings."""
        self._worker = None

    def make(self, spec: Spec, comm: Any, session: Session) -> RankTraining:
        """Return this rank's part; collective, also for ranks that are not needed."""
        job = job_of(self._params, spec)
        needed = comm.rank < job.config.workers
        part = comm.native.Split(0 if needed else 1, comm.rank)
        if needed and self._worker is None:
            self._worker = job.worker(spec.names[comm.rank], session)
        return RankTraining(job, part, self._worker if needed else None)


class RankTraining:
    """One rank's part of a training; without a worker it does nothing."""

    def __init__(self, job: Job, comm: Any, worker: Worker | None) -> None:
        self._job, self._config, self._comm, self._worker = job, job.config, comm, worker
        self._rank = int(comm.Get_rank())
        self._group = None if worker is None else MpiGroup(comm, worker, job.params.algorithm)
        if self._group is not None and job.spec.whole:
            self._group.prepare(steps.config_exchanges(job.config))
        self._asynchronous: AsynchronousRank | None = None
        if self._group is not None and job.asynchronous:
            self._asynchronous = AsynchronousRank(job.config, comm, self._group)
        self._rule = job.config.rule.of(job.config.workers, job.config.seed)
        self._step = 0
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._since = 0.0
        self._inputs = steps.Inputs(job.config)
        self._failure: GpumapError | None = None

    def poison(self) -> None:
        """Reset to the parameters of rank 0."""
        if self._group is not None:
            self._rule = self._config.rule.of(self._config.workers, self._config.seed)
            self._group.begin(self._job.initial)
            self._step = 0
            if self._asynchronous is not None:
                self._asynchronous.begin()

    def record(self) -> None:
        """Reset the phase times."""
        self._spent = dict.fromkeys(PHASES, 0.0)

    def phases(self) -> tuple[Mapping[str, float], Account | None] | None:
        """Return the seconds of this rank in each phase, and how stale its exchanges were."""
        account = None if self._asynchronous is None else self._asynchronous.account
        return None if self._worker is None else (dict(self._spent), account)

    def run(self, iterations: int) -> None:
        """Take steps; the last one ends when all have taken it."""
        if self._worker is None:
            return
        self._since = time.perf_counter()
        if self._asynchronous is not None:
            self._asynchronous.run(iterations, self._step_at, self._spend)
        for _ in range(0 if self._asynchronous is not None else iterations):
            self._take()
            self._step += 1
        self._comm.Barrier()
        self._spend("sync")

    def check(self) -> tuple[Check, str] | None:
        """Check this rank's gradient and exchange; return a digest of the exchanged array.

        Raises:
            Diverged: what it trains is no longer a number.
            GpumapError: a network of the user's own has failed in a step.
        """
        worker = self._worker
        if worker is None:
            return None
        steps.note_divergence(worker)
        failure, self._failure = self._failure, None
        if worker.diverged and self._job.spec.whole:
            failure = failure or steps.diverged(str(worker.session.device.ref))
        failed = self._comm.allreduce(int(failure is not None))
        if failure is not None:
            raise failure
        if failed:  # another rank reports it
            return judged(steps.METHOD, 0.0), ""
        self.poison()
        gradient = steps.checked(self._config, self._rank, worker, self._job.initial)
        if not (self._job.spec.whole and self._config.synchronous):
            return gradient, ""
        actual, expected = self._exchanged(worker)
        return worse(gradient, steps.same([actual], expected)), hashlib.sha256(
            actual.tobytes()
        ).hexdigest()

    def parameters(self) -> Array | None:
        """Return the trained parameters, on rank 0 only.

        Raises:
            Diverged: it is not a number.
        """
        if self._group is None or self._worker is None:
            return None
        result: Array = (self._asynchronous or self._group).parameters()
        if self._rank:
            return None
        if not steps.finite(result):
            raise steps.diverged(str(self._worker.session.device.ref))
        return result

    def _take(self) -> None:
        """Take a synchronous step, or only compute its gradient."""
        first = self._config.first(self._step, self._rank)
        if not self._job.spec.whole:
            self._compute(first)
            return
        self._step_at(first, self._rule.before(self._step))
        self._exchange(self._rule.after(self._step))

    def _step_at(self, first: int, before: Sequence[Exchange] = ()) -> None:
        """Take a step on the examples from position `first` on; `before` the update, exchange."""
        worker = self._compute(first)
        self._exchange(before)
        worker.update(self._config.rate_at(first // self._config.batch))
        worker.session.synchronize()
        self._spend("update")

    def _compute(self, first: int) -> Worker:
        """Compute the gradient of the examples from position `first` on; return the worker."""
        worker = self._worker
        assert worker is not None  # it runs
        x, y = self._inputs.at(first, self._rank)
        self._spend("input")
        worker.model.load(x, y)
        worker.session.synchronize()
        self._spend("transfer")
        try:
            worker.model.compute(self._config.share(self._rank))
        except GpumapError as error:  # the others wait in the exchange: report it afterwards
            self._failure = self._failure or error
        worker.session.synchronize()
        self._spend("compute")
        return worker

    def _exchange(self, requested: Sequence[Exchange]) -> None:
        assert self._group is not None  # it has a worker
        for one in requested:
            self._wait_for(partners(one, self._config.workers))
            self._spend("sync")
            self._group.exchange(one, self._config.shares)
            self._spend("comm")

    def _wait_for(self, ranks: Sequence[int]) -> None:
        """Wait for all ranks of an exchange, if this rank is one of them."""
        if len(ranks) == self._config.workers:
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
        """Return this rank's mean, and the expected one."""
        config, group = self._config, self._group
        assert group is not None  # it has a worker
        gradients = config.rule.average == "gradients"
        expected = np.array(self._job.initial)
        if gradients:
            worker.model.load(*config.probe(self._rank))
            worker.model.compute(1.0 / config.probes)
            self._comm.Allreduce(steps.read(worker, "gradient"), expected)
        group.exchange(Mean(config.rule.average), config.shares)
        return steps.read(worker, "gradient" if gradients else "weights"), expected


class Ranks(Protocol):
    """All ranks of a job, as rank 0 commands them."""

    @property
    def table(self) -> Sequence[RankInfo]:
        """Return what is known of each rank."""
        ...

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return the bindings whose memory is on this machine."""
        ...

    def begin(self) -> None:
        """Let every rank give back its buffers."""

    def make(self, job: Any) -> int:
        """Take memory for a job on every rank; return its number."""
        ...

    def call(self, *command: Any) -> list[Any]:
        """Let every rank do a command; return their answers."""
        ...


class MpiTraining(steps.Training):
    """Rank 0's view of a training on all ranks."""

    def __init__(self, ranks: Ranks, number: int, account: Account | None) -> None:
        self._ranks, self._number, self.account = ranks, number, account

    def poison(self) -> None:
        """Reset to the initial parameters."""
        self._ranks.call("poison", self._number)

    def run(self, steps: int) -> None:
        """Take steps."""
        self._ranks.call("run", self._number, steps)

    def record(self) -> None:
        """Reset the phase times."""
        self._ranks.call("query", self._number, "record")

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a rank in each phase."""
        answers = [one for one in self._gather_results("phases") if one is not None]
        result, accounts = zip(*answers, strict=True)
        if self.account is not None:
            self.account.sum_up(accounts)
        return {phase: sum(one[phase] for one in result) / len(result) for phase in PHASES}

    def spent(self) -> Sequence[float]:
        """Return the seconds that each rank has computed since `record`."""
        return [one[0]["compute"] for one in self._gather_results("phases") if one is not None]

    def check(self) -> Check:
        """Return the worst of the ranks' checks; raises Diverged, by the name of the rank."""
        result = [one for one in self._gather_results("check") if one is not None]
        worst: Check = reduce(worse, (check for check, _ in result))
        if len({digest for _, digest in result}) > 1:
            return judged(steps.METHOD, float("inf"))
        return worst

    def parameters(self) -> Array:
        """Return the trained parameters; raises Diverged, by the name of the rank."""
        return cast("Array", self._gather_results("parameters")[0])

    def _gather_results(self, what: str) -> list[Any]:
        """Return the answers of all ranks; raise the error of the first that failed."""
        answers = self._ranks.call("query", self._number, what)
        for info, (problem, _) in zip(self._ranks.table, answers, strict=True):
            if problem is not None:
                code, text, hint = problem
                kind = Diverged if code == Diverged.code else DeviceError
                raise kind(f"{info.label}: {text}", hint)
        return [result for _, result in answers]


class MpiWorkers:
    """The ranks as workers, as rank 0 sees them."""

    comm = "mpi"

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return the bindings whose memory is on this machine."""
        return self._ranks.local_bindings(bindings)

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

    def played(self, work: Iteration, job: Job) -> Iteration:  # noqa: ARG002 - the contract's
        """Return the iteration: what ranks exchange is on the host, and real."""
        return work


class HostStaging:
    """Host staging buffer: the buffer itself on a host device, else a copy."""

    def __init__(self, buffer: Buffer) -> None:
        """Take host memory, if it takes any; raises MemoryError."""
        self._buffer, self._session = buffer, buffer.session
        self._on_host = self._session.device.backend == "numpy"
        self.array: Array = buffer.native if self._on_host else np.empty(buffer.shape, np.float32)

    def read(self) -> Array:
        """Copy the elements to the host and return them; waits for the device."""
        if not self._on_host:
            self._session.download(self._buffer, self.array)
        self._session.synchronize()
        return self.array

    def put(self) -> None:
        """Copy the elements back; waits, so that they may be written again."""
        if not self._on_host:
            self._session.upload(self.array, self._buffer)
            self._session.synchronize()


class MpiGroup:
    """One rank of a worker group."""

    def __init__(self, comm: Any, worker: Worker, algorithm: str) -> None:
        """Join `comm`, of the ranks that train."""
        self._comm, self._worker, self._algorithm = comm, worker, algorithm
        self._rank = int(comm.Get_rank())
        self.weights = HostStaging(worker.model.weights)
        self._gradient = HostStaging(worker.model.gradient)
        self._sums: dict[str, Callable[[], None]] = {}
        self._room: Array | None = None
        self._center: Array | None = None

    def begin(self, parameters: Array) -> None:
        """Reset to the parameters of rank 0.

        Raises:
            DeviceError: the received parameters are not those that rank 0 has sent.
        """
        given = np.array(parameters, np.float32)
        sent = self._comm.bcast(_digest(given))
        self._comm.Bcast(given)
        received = _digest(given) == sent
        if self._comm.allreduce(int(received)) != self._comm.Get_size():
            here = "here" if not received else "on another rank"
            raise DeviceError(f"the first parameters came {here} as others than rank 0 has sent")
        self._worker.model.put(given)
        self._worker.session.synchronize()
        self._worker.optimizer.reset()
        if self._center is not None:
            self._center[:] = given

    def prepare(self, requested: Sequence[Exchange]) -> None:
        """Take the memory that exchanges need; raises MemoryError."""
        for one in requested:
            if isinstance(one, Mean):
                self._sum(one)
            elif isinstance(one, Elastic):
                self._create_center()
            else:
                self.room()

    def exchange(self, requested: Exchange, shares: Sequence[float]) -> None:
        """Do an exchange, and return when this rank's part of it is over."""
        if isinstance(requested, Mean):
            self._mean(requested, shares[self._rank])
        elif isinstance(requested, Elastic):
            self._exchange_center(requested)
        else:
            self._push(requested)

    def parameters(self) -> Array:
        """Return the center's parameters, or this rank's; waits."""
        result: Array = self.weights.read() if self._center is None else self._center
        return result.copy()

    def _mean(self, requested: Mean, share: float) -> None:
        staging = self._staging(requested)
        array = staging.read()
        if requested.of == "parameters":
            scaled(array, share, array)
        self._sum(requested)()
        staging.put()

    def _staging(self, requested: Mean) -> HostStaging:
        return self._gradient if requested.of == "gradients" else self.weights

    def _sum(self, requested: Mean) -> Callable[[], None]:
        if requested.of not in self._sums:
            array = self._staging(requested).array
            self._sums[requested.of] = engine_exchange(self._algorithm, Mpi(self._comm), array)
        return self._sums[requested.of]

    def _exchange_center(self, requested: Elastic) -> None:
        self._create_center()
        if self._rank == 0:
            self._serve_center(requested)
        elif self._rank == requested.worker:
            array = self.weights.read()
            self._comm.Send(array, 0)
            self._comm.Recv(array, 0)
            self.weights.put()

    def _serve_center(self, requested: Elastic) -> None:
        """Serve a worker's exchange with the center, which rank 0 has."""
        assert self._center is not None  # it was prepared
        if requested.worker == 0:
            elastic(self.weights.read(), self._center, requested.share)
            self.weights.put()
            return
        received = self.room()
        self._comm.Recv(received, requested.worker)
        elastic(received, self._center, requested.share)
        self._comm.Send(received, requested.worker)

    def _push(self, requested: Push) -> None:
        if self._rank == requested.sender:
            self._comm.Send(self.weights.read(), requested.receiver)
        elif self._rank == requested.receiver:
            received = self.room()
            self._comm.Recv(received, requested.sender)
            blend(self.weights.read(), received, requested.share)
            self.weights.put()

    def room(self) -> Array:
        """Return this rank's receive buffer."""
        if self._room is None:
            self._room = np.empty(self.weights.array.shape, np.float32)
        return self._room

    def _create_center(self) -> None:
        """Create the center on rank 0, with its current parameters."""
        if self._rank == 0 and self._center is None:
            self.room()
            self._center = self.weights.read().copy()


def _digest(array: Array) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
