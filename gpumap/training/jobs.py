"""Training jobs: parameters of a command line, and the workers' share of each job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from gpumap.engine.verify import hollow_array
from gpumap.training.network import Order
from gpumap.training.rules import RuleSpec
from gpumap.training.splits import split
from gpumap.training.tasks import Trainable

if TYPE_CHECKING:
    from gpumap.dtypes import Array

CASES = ("compute", "step")
EPOCH = 131_072  # examples of an epoch: those of the seed's program
PROBE = 8  # examples of each worker, on which its gradient is verified


class Scaling(NamedTuple):
    """Weak: so many examples for each device. Strong: so many for all of them."""

    how: Literal["weak", "strong"]
    examples: int

    def batch(self, workers: int) -> int:
        """Return the examples of a step."""
        return self.examples * (workers if self.how == "weak" else 1)


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of `bench train`: the network, rules and cases."""

    network: Trainable
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


class Spec(NamedTuple):
    """Key of a training job, which all processes with the same `Params` can resolve."""

    rule: str
    names: tuple[str, ...]
    whole: bool  # with exchange and update
    rates: tuple[float, ...] = ()  # as Params has them, when they were measured
    all: int = 1  # workers of the largest job of its group


@dataclass(frozen=True)
class Job:
    """A training: a network, by a rule, on so many workers."""

    spec: Spec
    params: Params
    rule: RuleSpec
    data: Order
    counts: tuple[int, ...]  # examples of a batch that each worker has
    most: int  # examples of a worker, in any job of its group
    hollow: bool = False  # of scripted devices that have no data

    @cached_property
    def initial(self) -> Array:
        """The parameters that every worker begins with."""
        if self.hollow:
            return cast("Array", hollow_array((self.params.network.parameters,)))
        return _initial(self.params.network, self.params.seed)

    @property
    def batch(self) -> int:
        """Return the examples of a step."""
        return sum(self.counts)

    def share(self, worker: int) -> float:
        """Return what an example's loss counts in its worker's gradient.

        Where gradients are averaged it is its share of the whole batch, so that they sum up to the
        mean; else that of the worker's own part.
        """
        whole = not self.rule.asynchronous
        return 1.0 / (self.batch if whole else max(self.counts[worker], 1))

    def first(self, step: int, worker: int) -> int:
        """Return where a worker's part of the batch of a step begins, where all take as many."""
        return step * self.batch + sum(self.counts[:worker])

    def part(self, first: int, count: int) -> tuple[Any, Any]:
        """Return so many examples, from position `first` on."""
        if self.hollow:  # a network of layers
            network = cast("Any", self.params.network)
            return hollow_array((count, network.inputs)), hollow_array((count, network.last.units))
        return self.data.batch(self.data.numbers(first, first + count))

    @property
    def probes(self) -> int:
        """Return how many examples verify the gradients of all workers."""
        return sum(min(count, PROBE) for count in self.counts)

    def probe(self, worker: int) -> tuple[Any, Any]:
        """Return a few examples of a worker's, to verify its gradient on."""
        return self.part(self.first(0, worker), min(self.counts[worker], PROBE))


@lru_cache(maxsize=1)  # of forty million numbers one copy is enough; read-only
def _initial(network: Trainable, seed: int) -> Array:
    return network.initial(seed)


def job_of(params: Params, spec: Spec) -> Job:
    """Return the job of a key."""
    params = replace(params, rates=spec.rates)
    rule = next((rule for rule in params.rules if rule.name == spec.rule), params.rules[0])
    workers = len(spec.names)
    most = params.most(max(spec.all, workers))
    data = params.network.data(EPOCH, params.seed)
    return Job(spec, params, rule, data, params.parts(workers), most)
