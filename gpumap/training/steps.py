"""Steps of training, on the devices of one process or on one rank of several, and their checks.

A step: each worker makes its part of the batch on the host (input), copies it to its device
(transfer), and computes the gradient; workers exchange what their rule says (comm), for which the
early one waits for the late one (sync), and the optimizer changes the parameters (update). The
phases of a worker follow each other without a gap; what is reported is their mean over the workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np
from gpumap.engine.base import Iteration
from gpumap.engine.verify import judged, worse
from gpumap.errors import Diverged
from gpumap.model.measurements import PHASES
from gpumap.training.tasks import Data, Trainable
from gpumap.training.worker_groups import Elastic, Mean, Push, RuleSpec, partners, scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Mark
    from gpumap.engine.base import Events
    from gpumap.model import Check
    from gpumap.training.worker_groups import Exchange, LocalGroup, Rule, Worker


EXCHANGE = "exchange"  # split into sync and comm
HELD_OUT = 1024  # held-out examples for loss and accuracy
METHOD = "float32 reference"
_ALLOWED = 1e-3  # of a layer's gradient, by its length: sums of float32, and ReLUs that tip over
_AHEAD = 2  # steps under way at once: while one is computed, the next one is made
PROBE = 8  # examples of each worker, on which its gradient is verified


def phases(
    parts: Sequence[tuple[str, Mapping[int, float]]], began: float, workers: int
) -> dict[str, float]:
    """Return the mean seconds of a worker in each phase.

    An exchange begins when the last of those who take part comes: until then the others wait. An
    iteration ends with the last worker, for whom all others wait.

    Args:
        parts: phases and exchanges, in the order in which each worker did its own, and when
            each worker that took part in one had done it.
        began: when the first of them began.
        workers: how many there are.
    """
    result, since = dict.fromkeys(PHASES, 0.0), [began] * workers
    for phase, end_times in parts:
        last = max(since[worker] for worker in end_times)
        for worker, end in end_times.items():
            start, since[worker] = since[worker], end
            if phase != EXCHANGE:
                result[phase] += end - start
                continue
            ready = min(max(last, start), end)
            result["sync"] += ready - start
            result["comm"] += end - ready
    result["sync"] += sum(max(since) - end for end in since)
    return {name: max(seconds / workers, 0.0) for name, seconds in result.items()}


def note_divergence(worker: Worker) -> None:
    """Note whether a worker's parameters are no longer finite.

    The trainings of a group share it, and the first one that is checked resets it.
    """
    if not finite(read(worker, "weights")):
        worker.diverged = True


def finite(parameters: Array) -> bool:
    """Return whether all parameters are numbers."""
    return bool(np.isfinite(parameters).all())


def diverged(label: str) -> Diverged:
    """Return the error of a worker whose parameters are no longer numbers."""
    fix = "lower --rate, or look at what the network computes"
    return Diverged(f"{label}: what it trains is no longer a number", fix)


def checked(config: Config, number: int, worker: Worker, parameters: Array) -> Check:
    """Compare a worker's gradient of a few examples with the host's, part by part."""
    network, (x, y) = config.network, config.probe(number)
    worker.model.put(parameters)
    worker.session.upload(np.full_like(parameters, np.nan), worker.model.gradient)
    worker.session.synchronize()
    worker.model.load(x, y)
    worker.model.compute(1.0 / len(x))
    actual, expected = read(worker, "gradient"), network.gradient(parameters, x, y, 1.0 / len(x))
    return judged(METHOD, max(map(partial(_error, actual, expected), network.blocks())))


def same(actual: Sequence[Array], expected: Array) -> Check:
    """Check that all workers have the same bits, equal to `expected` within rounding."""
    if any(other.tobytes() != actual[0].tobytes() for other in actual[1:]):
        return judged(METHOD, float("inf"))
    return judged(METHOD, _error(actual[0], expected, slice(None)))


def held_out(config: Config, parameters: Array, what: str = "loss") -> float | None:
    """Return loss or accuracy on held-out examples; None where not known."""
    first = config.data.count
    x, y = config.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # a diverged network overflows here, and its row reports it
        result: float | None = getattr(config.network, what)(parameters, x, y)
        return result


def _error(actual: Array, expected: Array, part: slice) -> float:
    """Return a gradient's error relative to the tolerance; infinite if it is not a number."""
    length = float(np.linalg.norm(expected[part]))
    error = float(np.linalg.norm(actual[part] - expected[part]))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")


def read(worker: Worker, what: str) -> Array:
    """Return the weights or the gradient of a worker; waits."""
    buffer = getattr(worker.model, what)
    result: Array = np.empty(buffer.shape, np.float32)
    worker.session.download(buffer, result)
    worker.session.synchronize()
    return result


@dataclass(frozen=True)
class Config:
    """Training configuration: network, examples, rule and rate."""

    network: Trainable
    data: Data
    rule: RuleSpec
    counts: tuple[int, ...]  # examples of a batch that each worker has
    rate: float
    warmup: int = 0  # steps, over which the rate comes to that of all workers
    linear: bool = False  # the rate grows with the workers
    seed: int = 1
    reuse_batch: bool = False  # make one batch, and copy it to the device in each step

    @property
    def workers(self) -> int:
        """Return how many workers train."""
        return len(self.counts)

    @property
    def batch(self) -> int:
        """Return the examples of a step."""
        return sum(self.counts)

    @property
    def shares(self) -> list[float]:
        """Return the share of a batch that each worker has."""
        return [count / self.batch for count in self.counts]

    def share(self, worker: int) -> float:
        """Return what an example's loss counts in its worker's gradient.

        Where gradients are averaged it is its share of the whole batch, so that they sum up to the
        mean; else that of the worker's own part.
        """
        whole = self.rule.name == "bsp" and self.rule.average == "gradients"
        return 1.0 / (self.batch if whole else self.counts[worker])

    def rate_at(self, step: int) -> float:
        """Return the rate of a step."""
        return scaled(self.rate, self.workers if self.linear else 1, step, self.warmup)

    def first(self, step: int, worker: int) -> int:
        """Return where a worker's part of the batch of a step begins, in lock-step."""
        return step * self.batch + sum(self.counts[:worker])

    def part(self, first: int, worker: int) -> tuple[Any, Any]:
        """Return a worker's examples of a step, from position `first` on."""
        return self.data.batch(self.data.numbers(first, first + self.counts[worker]))

    @property
    def synchronous(self) -> bool:
        """Return whether each exchange is one of all workers, for which the early ones wait."""
        return self.rule.name == "bsp" and self.workers > 1

    @property
    def probes(self) -> int:
        """Return how many examples verify the gradients of all workers."""
        return sum(map(self.probed, range(self.workers)))

    def probed(self, worker: int) -> int:
        """Return how many examples of a worker verify its gradient."""
        return min(self.counts[worker], PROBE)

    def probe(self, worker: int) -> tuple[Any, Any]:
        """Return a few examples of a worker's, to verify its gradient on."""
        start = sum(self.counts[:worker])
        return self.data.batch(self.data.numbers(start, start + self.probed(worker)))


class Inputs:
    """The workers' parts of batches: new ones in each step, or the first one again."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._reused: dict[int, tuple[Any, Any]] = {}

    def at(self, first: int, worker: int) -> tuple[Any, Any]:
        """Return a worker's examples for a step, from position `first` on."""
        if not self._config.reuse_batch:
            return self._config.part(first, worker)
        if worker not in self._reused:
            self._reused[worker] = self._config.part(self._config.first(0, worker), worker)
        return self._reused[worker]


@dataclass
class Account:
    """How stale exchanges of an asynchronous training were, and how many were under way.

    An exchange of easgd is as stale as the exchanges of others since the worker's last one, one
    of gosgd as the steps that all workers have begun since the parameters were sent.
    """

    exchanges: int = 0
    stale: float = 0.0  # of all exchanges
    runs: int = 0
    under_way: int = 0  # messages, at the ends of all runs

    def exchanged(self, stale: float) -> None:
        """Count an exchange."""
        self.exchanges += 1
        self.stale += stale

    def ended(self, under_way: int) -> None:
        """Count a run, at whose last step so many messages were under way."""
        self.runs += 1
        self.under_way += under_way

    def sum_up(self, parts: Sequence[Account]) -> None:
        """Set all counts to the sums over the workers, of the same runs."""
        self.runs = parts[0].runs
        self.exchanges = sum(part.exchanges for part in parts)
        self.stale = sum(part.stale for part in parts)
        self.under_way = sum(part.under_way for part in parts)


class Training(Iteration):
    """Workers that take training steps; an iteration is `steps` of them."""

    phased = True
    steps = 1
    account: Account | None = None  # of one that is asynchronous

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Take the steps of `iterations`; with `events` a new account of the phases begins."""
        if events is not None:
            self.record()
        self.run(iterations * self.steps)

    def run(self, steps: int) -> None:
        """Queue steps, or take them."""
        raise NotImplementedError

    def record(self) -> None:
        """Reset the phase times."""
        raise NotImplementedError

    def parameters(self) -> Array:
        """Return the center's parameters, or the first worker's; waits; raises Diverged."""
        raise NotImplementedError

    def spent(self) -> Sequence[float]:
        """Return the seconds that each worker has computed in lock-step since `record`."""
        raise NotImplementedError


class LocalTraining(Training):
    """Workers of one process; with `whole` false they compute gradients, and nothing else."""

    def __init__(
        self, config: Config, group: LocalGroup, initial: Array, clock: Clock, *, whole: bool = True
    ) -> None:
        self._config, self._group, self._clock, self._whole = config, group, clock, whole
        self._initial = initial
        self._rule: Rule = config.rule.of(config.workers, config.seed)
        if whole:
            group.prepare(config_exchanges(config))
        self._step = 0
        self._inputs = Inputs(config)
        self._began = 0.0
        self._steps: list[list[tuple[str, dict[int, Mark]]]] = []  # their parts, by worker

    def poison(self) -> None:
        """Reset to the initial parameters."""
        self._rule = self._config.rule.of(self._config.workers, self._config.seed)
        self._group.begin(self._initial)
        self._step = 0

    def run(self, steps: int) -> None:
        """Queue steps; of each batch that waits to be computed on, the host holds a copy."""
        for _ in range(steps):
            if len(self._steps) >= _AHEAD:
                last = {n: mark for _, marks in self._steps[-_AHEAD] for n, mark in marks.items()}
                for mark in last.values():
                    at(mark)  # waits
            self._steps.append(self._take(self._step))
            self._step += 1

    def finish(self) -> None:
        """Wait for every device."""
        for worker in self._group.workers:
            worker.session.synchronize()

    def record(self) -> None:
        """Reset the phase times."""
        self._steps, self._began = [], self._clock.now()

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a worker in each phase."""
        parts = [
            (phase, {number: at(mark) for number, mark in marks.items()})
            for step in self._steps
            for phase, marks in step
        ]
        return phases(parts, self._began, self._config.workers)

    def spent(self) -> Sequence[float]:
        """Return the seconds that each worker has computed in lock-step since `record`."""
        steps = [dict(step) for step in self._steps]
        return [
            sum(at(step["compute"][n]) - at(step["transfer"][n]) for step in steps)
            for n in range(self._config.workers)
        ]

    def check(self) -> Check:
        """Return whether every worker's gradient is right.

        Raises:
            Diverged: what a worker computes is not a number.
        """
        workers = list(enumerate(self._group.workers))
        for number, worker in workers:
            note_divergence(worker)
            if worker.diverged and self._whole:
                raise diverged(_label(number, worker))
        self.poison()
        gradients = [checked(self._config, *each, self._initial) for each in workers]
        return reduce(worse, (*gradients, *self._exchanged()))

    def parameters(self) -> Array:
        """Return the center's parameters, or the first worker's; waits.

        Raises:
            Diverged: it is not a number.
        """
        result = self._group.parameters()
        if not finite(result):
            raise diverged(_label(0, self._group.workers[0]))
        return result

    def _take(self, step: int) -> list[tuple[str, dict[int, Mark]]]:
        """Queue a step; return its parts, each with a mark of every worker that took part."""
        workers = self._group.workers
        firsts = [self._config.first(step, number) for number in range(len(workers))]
        marks = [self._gradient(number, first) for number, first in enumerate(firsts)]
        parts = [(phase, {n: each[phase] for n, each in enumerate(marks)}) for phase in PHASES[:3]]
        if self._whole:
            parts += self._exchange(self._rule.before(step))
            for worker in workers:
                worker.update(self._config.rate_at(step))
            parts.append(("update", self._marked(range(len(workers)))))
            parts += self._exchange(self._rule.after(step))
        return parts

    def _gradient(self, number: int, first: int) -> dict[str, Mark]:
        """Queue a worker's gradient of the examples from `first` on; return its phases' ends."""
        worker, result = self._group.workers[number], {}
        x, y = self._inputs.at(first, number)
        result["input"] = worker.session.mark()
        worker.model.load(x, y)
        result["transfer"] = worker.session.mark()
        worker.model.compute(self._config.share(number))
        result["compute"] = worker.session.mark()
        return result

    def _exchange(self, requested: Sequence[Exchange]) -> Iterator[tuple[str, dict[int, Mark]]]:
        for exchange in requested:
            self._group.exchange(exchange, self._config.shares)
            yield EXCHANGE, self._marked(partners(exchange, self._config.workers))

    def _marked(self, numbers: Iterable[int]) -> dict[int, Mark]:
        return {number: self._group.workers[number].session.mark() for number in numbers}

    def _exchanged(self) -> Iterator[Check]:
        """Yield the check of a mean over all workers: right, and the same bits for all."""
        config, workers = self._config, self._group.workers
        if not (self._whole and config.synchronous):
            return
        gradients = config.rule.average == "gradients"
        expected = self._initial
        if gradients:
            expected = expected * 0
            for number, worker in enumerate(workers):
                worker.model.load(*config.probe(number))
                worker.model.compute(1.0 / config.probes)
                expected += read(worker, "gradient")
        self._group.exchange(Mean(config.rule.average), config.shares)
        what = "gradient" if gradients else "weights"
        yield same([read(worker, what) for worker in workers], expected)


def config_exchanges(config: Config) -> list[Exchange]:
    """Return an exchange of each kind that a training may need, for every worker."""
    n = config.workers
    if n == 1:
        return []
    if config.rule.name == "bsp":
        return [Mean(config.rule.average)]
    if config.rule.kind == "easgd" and not config.rule.asynchronous:
        return [Elastic(worker, config.rule.alpha) for worker in range(n)]
    return [Push((worker + 1) % n, worker, 0.5) for worker in range(n)]


def _label(number: int, worker: Worker) -> str:
    return f"{worker.name} (worker {number}, {worker.session.device.ref})"


def at(mark: Mark) -> float:
    """Return the host time at which a mark was reached; waits for it."""
    result: float | None = mark.session.at(mark)
    assert result is not None  # a session that runs kernels has a clock
    return result
