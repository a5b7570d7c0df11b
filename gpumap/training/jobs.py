"""Trainings as a command line describes them, and what each of their workers is to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

from gpumap.distributed.algorithms import split
from gpumap.dtypes import Array
from gpumap.training.optimizers import Chosen, Optimizer
from gpumap.training.steps import Course
from gpumap.training.tasks import Task
from gpumap.training.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.base import Round
    from gpumap.model import Binding, Reason
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
    """What is trained, how, and what is measured of it."""

    tasks: tuple[Task, ...]
    rules: tuple[Chosen, ...]
    scaling: Scaling
    optimizer: str
    rate: float
    warmup: int = 0
    linear: bool = False
    algorithm: str = "ring"
    cases: tuple[str, ...] = CASES
    kept: bool = False
    learn: int = 0  # examples, after which the loss is told
    seed: int = 1
    start: Array | None = None  # parameters to begin with
    split: str = "balanced"  # of a batch over the devices
    rates: tuple[float, ...] = ()  # of each device, for a weighted split; none until measured

    def parts(self, workers: int) -> tuple[int, ...]:
        """Return the examples of a step that each worker has."""
        policy = self.split if self.rates or self.split != "weighted" else "balanced"
        return split(self.scaling.batch(workers), workers, policy, self.rates[:workers])

    def most(self, workers: int) -> int:
        """Return how many examples one of so many workers may be given at most."""
        uneven = self.split in ("weighted", "keras")
        return self.scaling.batch(workers) if uneven else self.scaling.examples

    def course(self, task: Task, rule: Chosen, workers: int, *, whole: bool) -> Course:
        """Return what so many workers do; a gradient alone needs no new batch for each step."""
        return Course(
            task,
            task.data(EPOCH, self.seed),
            rule,
            self.parts(workers),
            self.rate,
            self.warmup,
            self.linear,
            self.seed,
            self.kept or not whole,
        )

    def initial(self, task: Task) -> Array:
        """Return the parameters that every worker begins with."""
        return _initial(task, self.seed) if self.start is None else self.start


@lru_cache(maxsize=1)  # of forty million numbers one copy is enough, and nobody changes it
def _initial(task: Task, seed: int) -> Array:
    return task.initial(seed)


class Workers(Protocol):
    """Whoever trains: the devices of this process, or processes."""

    comm: str

    def beside(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return those whose memory is this machine's."""

    def skip(self, bindings: Sequence[Binding]) -> Reason | None:
        """Return why they cannot train."""

    def begin(self) -> None:
        """Let go of what the trainings before have taken."""

    def training(self, job: Job) -> Training:
        """Take memory for a job on every worker."""

    def played(self, work: Round, job: Job) -> Round:
        """Return the round of a job; where results are scripted, one that does not compute them."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A training in a few words, that all who have the same `Params` understand."""

    network: str
    rule: str
    names: tuple[str, ...]
    whole: bool  # with exchange and update
    rates: tuple[float, ...] = ()  # as Params has them, when they were measured
    all: int = 1  # workers of the largest job of its group


@dataclass(frozen=True)
class Job:
    """A training: what its workers are to do, and with what."""

    spec: Spec
    course: Course
    params: Params
    optimizer: str
    algorithm: str
    most: int  # examples that a worker is ever given, in any job of its group

    @property
    def asynchronous(self) -> bool:
        """Whether each of its workers goes at its own pace."""
        return self.spec.whole and self.course.workers > 1 and self.course.rule.asynchronous

    @cached_property
    def initial(self) -> Array:
        """The parameters that every worker begins with."""
        return self.params.initial(self.course.task)

    def worker(self, name: str, session: Session) -> Worker:
        """Take memory for a worker on a session; raises OutOfMemory, Unsupported."""
        task = self.course.task
        optimizer = Optimizer(self.optimizer, session, task.parameters)
        return Worker(name, task.model(session, self.most), optimizer)


def job_of(params: Params, spec: Spec) -> Job:
    """Return what a training is in full."""
    params = replace(params, rates=spec.rates)
    task = next(task for task in params.tasks if task.name == spec.network)
    rule = next((rule for rule in params.rules if rule.name == spec.rule), params.rules[0])
    return Job(
        spec,
        params.course(task, rule, len(spec.names), whole=spec.whole),
        params,
        params.optimizer,
        params.algorithm,
        params.most(max(spec.all, len(spec.names))),
    )
