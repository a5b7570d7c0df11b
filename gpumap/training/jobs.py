"""Training jobs: parameters of a command line, the workers' share of each job, and checkpoints.

A checkpoint is NumPy's own format, with what its parameters are of. What N devices have learned is
one array, and one device begins with it as any number does.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal, Protocol

from gpumap.comm.algorithms import split
from gpumap.comm.local import exchange
from gpumap.dtypes import Array, np
from gpumap.engine.verify import HOLDS, hollow_array, is_hollow, lighten, played
from gpumap.errors import QuestionError, SourceError
from gpumap.files import read_bytes, write_atomic
from gpumap.model import Reason
from gpumap.training.asynchronous import AsynchronousTraining
from gpumap.training.network import ITEM, Network
from gpumap.training.steps import Config, LocalTraining
from gpumap.training.tasks import Trainable
from gpumap.training.worker_groups import LocalGroup, Optimizer, RuleSpec, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from gpumap.backends.base import Buffer, Clock, Session
    from gpumap.comm.local import Exchange, Library
    from gpumap.engine.base import Iteration
    from gpumap.model import Binding
    from gpumap.training.steps import Training


CASES = ("compute", "step")
EPOCH = 131_072  # examples of an epoch: those of the seed's program


@dataclass(frozen=True, slots=True)
class Scaling:
    """Weak: so many examples for each device. Strong: so many for all of them."""

    how: Literal["weak", "strong"]
    examples: int

    def batch(self, workers: int) -> int:
        """Return the examples of a step."""
        return self.examples * (workers if self.how == "weak" else 1)


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of `bench train`: networks, rules and cases."""

    networks: tuple[Trainable, ...]
    rules: tuple[RuleSpec, ...]
    scaling: Scaling
    optimizer: str
    rate: float
    warmup: int = 0
    linear: bool = False
    algorithm: str = "ring"
    cases: tuple[str, ...] = CASES
    reuse_batch: bool = False
    learn: int = 0  # examples, after which the loss is reported
    seed: int = 1
    start: Array | None = None  # parameters to begin with
    split: str = "balanced"  # of a batch over the devices
    rates: tuple[float, ...] = ()  # of each device, for a weighted split; none until measured

    def parts(self, workers: int) -> tuple[int, ...]:
        """Return the examples of a step that each worker has."""
        policy = self.split if self.rates or self.split != "weighted" else "balanced"
        return split(self.scaling.batch(workers), workers, policy, self.rates[:workers])

    def most(self, workers: int) -> int:
        """Return the most examples that one of `workers` workers may get."""
        uneven = self.split in ("weighted", "keras")
        return self.scaling.batch(workers) if uneven else self.scaling.examples

    def config(self, network: Trainable, rule: RuleSpec, workers: int, *, whole: bool) -> Config:
        """Return the configuration for `workers` workers; gradients alone reuse one batch."""
        return Config(
            network,
            network.data(EPOCH, self.seed),
            rule,
            self.parts(workers),
            self.rate,
            self.warmup,
            self.linear,
            self.seed,
            self.reuse_batch or not whole,
        )

    def initial(self, network: Trainable) -> Array:
        """Return the parameters that every worker begins with."""
        return _initial(network, self.seed) if self.start is None else self.start


@lru_cache(maxsize=1)  # of forty million numbers one copy is enough; read-only
def _initial(network: Trainable, seed: int) -> Array:
    return network.initial(seed)


class Workers(Protocol):
    """Workers of a training: the devices of this process, or processes."""

    comm: str

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return the bindings whose memory is on this machine."""

    def skip(self, bindings: Sequence[Binding]) -> Reason | None:
        """Return why they cannot train."""

    def begin(self) -> None:
        """Release the buffers of earlier trainings."""

    def training(self, job: Job) -> Training:
        """Take memory for a job on every worker."""

    def played(self, work: Iteration, job: Job) -> Iteration:
        """Return a job's iteration; where results are scripted, one that computes none."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Key of a training job, which all processes with the same `Params` can resolve."""

    network: str
    rule: str
    names: tuple[str, ...]
    whole: bool  # with exchange and update
    rates: tuple[float, ...] = ()  # as Params has them, when they were measured
    all: int = 1  # workers of the largest job of its group


@dataclass(frozen=True)
class Job:
    """A training job: its key, configuration and parameters."""

    spec: Spec
    config: Config
    params: Params
    most: int  # examples of a worker, in any job of its group

    @property
    def asynchronous(self) -> bool:
        """Whether each of its workers goes at its own pace."""
        return self.spec.whole and self.config.workers > 1 and self.config.rule.asynchronous

    @cached_property
    def initial(self) -> Array:
        """The parameters that every worker begins with."""
        return self.params.initial(self.config.network)

    def worker(self, name: str, session: Session) -> Worker:
        """Take memory for a worker on a session; raises OutOfMemory, Unsupported."""
        network = self.config.network
        optimizer = Optimizer(self.params.optimizer, session, network.parameters)
        return Worker(name, network.model(session, self.most), optimizer)


def job_of(params: Params, spec: Spec) -> Job:
    """Return the job of a key."""
    params = replace(params, rates=spec.rates)
    network = next(network for network in params.networks if network.name == spec.network)
    rule = next((rule for rule in params.rules if rule.name == spec.rule), params.rules[0])
    return Job(
        spec,
        params.config(network, rule, len(spec.names), whole=spec.whole),
        params,
        params.most(max(spec.all, len(spec.names))),
    )


class NoExamples:
    """Examples that have no data."""

    def __init__(self, network: Any) -> None:
        self.count, self._network = EPOCH, network

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

    def local_bindings(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return all bindings."""
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
        """Release the buffers of earlier trainings."""
        self._workers.clear()

    def training(self, job: Job) -> LocalTraining:
        """Take memory for a job on every worker."""
        assert self._clock is not None  # a plan alone has none
        workers = [self._worker(name, job) for name in job.spec.names]

        def join(buffers: Sequence[Buffer]) -> Exchange:
            sessions = [worker.session for worker in workers]
            if job.params.algorithm == "native" and self._library is not None:
                return self._library(sessions).exchange(buffers)
            return exchange(job.params.algorithm, sessions, buffers)

        hollow, config = self._is_hollow(job), job.config
        if hollow:
            config = replace(config, data=NoExamples(config.network))
        group = LocalGroup(workers, join)
        initial = hollow_array((config.network.parameters,)) if hollow else job.initial
        if job.asynchronous:
            return AsynchronousTraining(config, group, initial, self._clock)
        return LocalTraining(config, group, initial, self._clock, whole=job.spec.whole)

    def played(self, work: Iteration, job: Job) -> Iteration:
        """Return a job's iteration; where results are scripted, one that computes none."""
        nbytes = ITEM * job.config.network.parameters
        first = self._sessions[job.spec.names[0]]
        return played(work, first, nbytes) if self._is_hollow(job) else work

    def _is_hollow(self, job: Job) -> bool:
        """Return whether a scripted device has no data for a job; what it learns it computes."""
        network: Any = job.config.network
        large = self._light and ITEM * network.parameters > HOLDS
        return large and isinstance(network, Network) and not job.params.learn

    def _worker(self, name: str, job: Job) -> Worker:
        if name not in self._workers:
            if self._light:  # what computes holds all that it learns from
                holds = HOLDS if self._is_hollow(job) else sys.maxsize
                lighten(self._sessions[name], holds)
            self._workers[name] = job.worker(name, self._sessions[name])
        return self._workers[name]


_FORMAT = "gpumap-checkpoint-1"
_ITEM = 4  # bytes of a parameter
_MORE = 1 << 20  # bytes that a file may hold beside the parameters
_FIX = "write one anew: gpumap bench train --learn 5120 --checkpoint FILE"


def save_checkpoint(path: Path, network: Trainable, parameters: Array, examples: int) -> None:
    """Write a checkpoint; nothing that stood there is lost before all of it is written.

    Raises:
        SourceError: it cannot be written: the disk is full, the folder is not there.
    """
    about = {
        "format": _FORMAT,
        "network": network.name,
        "parameters": network.parameters,
        "examples": examples,
        "sha256": hashlib.sha256(parameters.tobytes()).hexdigest(),
    }
    file = BytesIO()
    np.savez(file, parameters=parameters, about=np.array(json.dumps(about)))
    write_atomic(path, file.getvalue())


def load_checkpoint(path: Path, network: Trainable) -> Array:
    """Return the parameters of a checkpoint: float32, shape (parameters,).

    Raises:
        SourceError: there is no such file, it is no checkpoint, or it is damaged.
        QuestionError: it is of another network.
    """
    name = str(path)
    about, parameters = _read(path, name, _ITEM * network.parameters + _MORE)
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise SourceError(f"{name} is no checkpoint of gpumap", _FIX)
    if about.get("sha256") != hashlib.sha256(parameters.tobytes()).hexdigest():
        text = f"{name} is damaged: its parameters are not those that were written"
        raise SourceError(text, _FIX)
    if (about.get("network"), parameters.shape) != (network.name, (network.parameters,)):
        of = about.get("network")
        text = f"{name} is of {of}, {parameters.size} parameters, and not of {network.name}"
        raise QuestionError(f"{text}, {network.parameters}", f"give one of {network.name}, or none")
    return parameters


def _read(path: Path, name: str, limit: int) -> tuple[Any, Array]:
    content = read_bytes(path, "checkpoint", limit)
    try:
        with np.load(BytesIO(content), allow_pickle=False) as data:
            parameters: Array = data["parameters"].astype(np.float32, casting="no")
            return json.loads(str(data["about"])), parameters
    except Exception as error:  # a damaged archive raises whatever its reader comes to
        why = f"{type(error).__name__}: {error}"
        raise SourceError(f"{name} is no checkpoint: {why}", _FIX) from error
