"""Training jobs: parameters of a command line, and the workers' share of each job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, cast

from gpumap.comm.algorithms import split
from gpumap.engine.verify import hollow_array
from gpumap.training.optimizers import Optimizer
from gpumap.training.rules import RuleSpec
from gpumap.training.steps import Config, Worker
from gpumap.training.tasks import Trainable

if TYPE_CHECKING:
    from gpumap.backends.base import Session
    from gpumap.dtypes import Array

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
    algorithm: str = "ring"
    cases: tuple[str, ...] = CASES
    learn: int = 0  # examples, after which the loss is reported
    seed: int = 1
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
            self.seed,
            not whole,
        )


@lru_cache(maxsize=1)  # of forty million numbers one copy is enough; read-only
def _initial(network: Trainable, seed: int) -> Array:
    return network.initial(seed)


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
    hollow: bool = False  # of scripted devices that have no data

    @cached_property
    def initial(self) -> Array:
        """The parameters that every worker begins with."""
        if self.hollow:
            return cast("Array", hollow_array((self.config.network.parameters,)))
        return _initial(self.config.network, self.params.seed)

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
