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

from gpumap.bench.base import Round
from gpumap.bench.verify import judged, worse
from gpumap.dtypes import Array, np
from gpumap.errors import Diverged
from gpumap.training.tasks import Data, Task
from gpumap.training.workers import Chosen, Mean, Meet, Push, partners, scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Mark
    from gpumap.bench.base import Spans
    from gpumap.model import Check
    from gpumap.training.workers import Exchange, LocalTeam, Rule, Worker


PHASES = ("input", "transfer", "compute", "sync", "comm", "update")
EXCHANGE = "exchange"  # what is told apart as sync and comm
HELD_OUT = 1024  # examples that a loss is told of
METHOD = "float32 reference"
_ALLOWED = 1e-3  # of a layer's gradient, by its length: sums of float32, and ReLUs that tip over
_AHEAD = 2  # steps under way at once: while one is computed, the next one is made
PROBE = 8  # examples of each worker, on which its gradient is verified


def phases(
    parts: Sequence[tuple[str, Mapping[int, float]]], began: float, workers: int
) -> dict[str, float]:
    """Return the mean seconds of a worker in each phase.

    An exchange begins when the last of those who take part comes: until then the others wait. A
    round ends with the last worker, for whom all others wait.

    Args:
        parts: phases and exchanges, in the order in which each worker did its own, and when
            each worker that took part in one had done it.
        began: when the first of them began.
        workers: how many there are.
    """
    found, since = dict.fromkeys(PHASES, 0.0), [began] * workers
    for phase, ends in parts:
        last = max(since[worker] for worker in ends)
        for worker, end in ends.items():
            start, since[worker] = since[worker], end
            if phase != EXCHANGE:
                found[phase] += end - start
                continue
            ready = min(max(last, start), end)
            found["sync"] += ready - start
            found["comm"] += end - ready
    found["sync"] += sum(max(since) - end for end in since)
    return {name: max(seconds / workers, 0.0) for name, seconds in found.items()}


def look(worker: Worker) -> None:
    """Note whether what a worker trains is still a number.

    The trainings of a group share it, and the first one that is looked at begins it anew.
    """
    if not finite(fetched(worker, "weights")):
        worker.diverged = True


def finite(parameters: Array) -> bool:
    """Return whether all parameters are numbers."""
    return bool(np.isfinite(parameters).all())


def diverged(words: str) -> Diverged:
    """Return the error of a worker whose parameters are no longer numbers."""
    fix = "lower --rate, or look at what the network computes"
    return Diverged(f"{words}: what it trains is no longer a number", fix)


def checked(course: Course, number: int, worker: Worker, parameters: Array) -> Check:
    """Return whether a worker's gradient of a few examples is the host's, part by part."""
    task, (x, y) = course.task, course.probe(number)
    worker.model.put(parameters)
    worker.session.upload(np.full_like(parameters, np.nan), worker.model.gradient)
    worker.session.synchronize()
    worker.model.load(x, y)
    worker.model.compute(1.0 / len(x))
    found, wanted = fetched(worker, "gradient"), task.gradient(parameters, x, y, 1.0 / len(x))
    return judged(METHOD, max(map(partial(_error, found, wanted), task.blocks())))


def same(found: Sequence[Array], wanted: Array) -> Check:
    """Return whether all workers hold the same bits, those of `wanted` within rounding."""
    if any(other.tobytes() != found[0].tobytes() for other in found[1:]):
        return judged(METHOD, float("inf"))
    return judged(METHOD, _error(found[0], wanted, slice(None)))


def held_out(course: Course, parameters: Array, what: str = "loss") -> float | None:
    """Return loss or accuracy on examples behind those of the course; None where not known."""
    first = course.data.count
    x, y = course.data.batch(np.arange(first, first + HELD_OUT))
    with np.errstate(all="ignore"):  # what diverged overflows here, and is told by its row
        found: float | None = getattr(course.task, what)(parameters, x, y)
        return found


def _error(found: Array, wanted: Array, part: slice) -> float:
    """Return how far a gradient is off, in what is allowed; infinite if it is not a number."""
    length = float(np.linalg.norm(wanted[part]))
    error = float(np.linalg.norm(found[part] - wanted[part]))
    return error / (_ALLOWED * max(length, 1e-30)) if np.isfinite(error) else float("inf")


def fetched(worker: Worker, what: str) -> Array:
    """Return the weights or the gradient of a worker; waits."""
    buffer = getattr(worker.model, what)
    found: Array = np.empty(buffer.shape, np.float32)
    worker.session.download(buffer, found)
    worker.session.synchronize()
    return found


@dataclass(frozen=True)
class Course:
    """What is trained, on which examples, by which rule and at which rate."""

    task: Task
    data: Data
    rule: Chosen
    counts: tuple[int, ...]  # examples of a batch that each worker has
    rate: float
    warmup: int = 0  # steps, over which the rate comes to that of all workers
    linear: bool = False  # the rate grows with the workers
    seed: int = 1
    kept: bool = False  # one batch is made, and copied to the device in each step

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
        """Return as many examples as a worker has in a step, from the place `first` on."""
        return self.data.batch(self.data.numbers(first, first + self.counts[worker]))

    @property
    def together(self) -> bool:
        """Return whether an exchange is one of all workers, for which the early ones wait."""
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
    """The parts of batches that workers are given: new ones in each step, or the first one kept."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._kept: dict[int, tuple[Any, Any]] = {}

    def at(self, first: int, worker: int) -> tuple[Any, Any]:
        """Return a worker's examples for a step, those from the place `first` on."""
        if not self._course.kept:
            return self._course.part(first, worker)
        if worker not in self._kept:
            self._kept[worker] = self._course.part(self._course.first(0, worker), worker)
        return self._kept[worker]


@dataclass
class Account:
    """How stale exchanges of an asynchronous training were, and how many were under way.

    An exchange of easgd is as stale as the meetings of others since the worker's own last one, one
    of gosgd as the steps that all workers together have begun since the parameters were sent.
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
        """Become the sum of what each worker has counted of the same runs."""
        self.runs = parts[0].runs
        self.exchanges = sum(part.exchanges for part in parts)
        self.stale = sum(part.stale for part in parts)
        self.under_way = sum(part.under_way for part in parts)


class Training(Round):
    """Workers that take steps of a course; an iteration is so many `steps`."""

    phased = True
    steps = 1
    account: Account | None = None  # of one that is asynchronous

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:
        """Take the steps of `rounds`; with `spans` a new account of the phases begins."""
        if spans is not None:
            self.record()
        self.run(rounds * self.steps)

    def run(self, steps: int) -> None:
        """Queue steps, or take them."""
        raise NotImplementedError

    def record(self) -> None:
        """Account for the phases of what is run from now on."""
        raise NotImplementedError

    def parameters(self) -> Array:
        """Return what was trained: the centre's, or the first worker's; waits; raises Diverged."""
        raise NotImplementedError

    def spent(self) -> Sequence[float]:
        """Return the seconds that each worker has computed in lock-step since `record`."""
        raise NotImplementedError


class LocalTraining(Training):
    """Workers of one process; with `whole` false they compute gradients, and nothing else."""

    def __init__(
        self, course: Course, team: LocalTeam, initial: Array, clock: Clock, *, whole: bool = True
    ) -> None:
        self._course, self._team, self._clock, self._whole = course, team, clock, whole
        self._initial = initial
        self._rule: Rule = course.rule.of(course.workers, course.seed)
        if whole:
            team.prepare(course_exchanges(course))
        self._step = 0
        self._inputs = Inputs(course)
        self._began = 0.0
        self._steps: list[list[tuple[str, dict[int, Mark]]]] = []  # their parts, by worker

    def poison(self) -> None:
        """Begin anew."""
        self._rule = self._course.rule.of(self._course.workers, self._course.seed)
        self._team.begin(self._initial)
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
        for worker in self._team.workers:
            worker.session.synchronize()

    def record(self) -> None:
        """Tell phases of what is run from now on."""
        self._steps, self._began = [], self._clock.now()

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a worker in each phase."""
        parts = [
            (phase, {number: at(mark) for number, mark in marks.items()})
            for step in self._steps
            for phase, marks in step
        ]
        return phases(parts, self._began, self._course.workers)

    def spent(self) -> Sequence[float]:
        """Return the seconds that each worker has computed in lock-step since `record`."""
        steps = [dict(step) for step in self._steps]
        return [
            sum(at(step["compute"][n]) - at(step["transfer"][n]) for step in steps)
            for n in range(self._course.workers)
        ]

    def check(self) -> Check:
        """Return whether every worker's gradient is right.

        Raises:
            Diverged: what a worker computes is not a number.
        """
        workers = list(enumerate(self._team.workers))
        for number, worker in workers:
            look(worker)
            if worker.diverged and self._whole:
                raise diverged(_words(number, worker))
        self.poison()
        alone = [checked(self._course, *each, self._initial) for each in workers]
        return reduce(worse, (*alone, *self._exchanged()))

    def parameters(self) -> Array:
        """Return what was trained: the centre's, or the first worker's; waits.

        Raises:
            Diverged: it is not a number.
        """
        found = self._team.parameters()
        if not finite(found):
            raise diverged(_words(0, self._team.workers[0]))
        return found

    def _take(self, step: int) -> list[tuple[str, dict[int, Mark]]]:
        """Queue a step; return its parts, each with a mark of every worker that took part."""
        workers = self._team.workers
        firsts = [self._course.first(step, number) for number in range(len(workers))]
        marks = [self._gradient(number, first) for number, first in enumerate(firsts)]
        parts = [(phase, {n: own[phase] for n, own in enumerate(marks)}) for phase in PHASES[:3]]
        if self._whole:
            parts += self._exchange(self._rule.before(step))
            for worker in workers:
                worker.update(self._course.rate_at(step))
            parts.append(("update", self._marked(range(len(workers)))))
            parts += self._exchange(self._rule.after(step))
        return parts

    def _gradient(self, number: int, first: int) -> dict[str, Mark]:
        """Queue a worker's gradient of the examples from `first` on; return its phases' ends."""
        worker, found = self._team.workers[number], {}
        x, y = self._inputs.at(first, number)
        found["input"] = worker.session.mark()
        worker.model.load(x, y)
        found["transfer"] = worker.session.mark()
        worker.model.compute(self._course.share(number))
        found["compute"] = worker.session.mark()
        return found

    def _exchange(self, wanted: Sequence[Exchange]) -> Iterator[tuple[str, dict[int, Mark]]]:
        for exchange in wanted:
            self._team.exchange(exchange, self._course.shares)
            yield EXCHANGE, self._marked(partners(exchange, self._course.workers))

    def _marked(self, numbers: Iterable[int]) -> dict[int, Mark]:
        return {number: self._team.workers[number].session.mark() for number in numbers}

    def _exchanged(self) -> Iterator[Check]:
        """Yield whether the mean that all get is the mean, and the same for all."""
        course, workers = self._course, self._team.workers
        if not (self._whole and course.together):
            return
        gradients = course.rule.average == "gradients"
        wanted = self._initial
        if gradients:
            wanted = wanted * 0
            for number, worker in enumerate(workers):
                worker.model.load(*course.probe(number))
                worker.model.compute(1.0 / course.probes)
                wanted += fetched(worker, "gradient")
        self._team.exchange(Mean(course.rule.average), course.shares)
        what = "gradient" if gradients else "weights"
        yield same([fetched(worker, what) for worker in workers], wanted)


def course_exchanges(course: Course) -> list[Exchange]:
    """Return an exchange of each kind that a course may come to, with every worker in its place."""
    n = course.workers
    if n == 1:
        return []
    if course.rule.name == "bsp":
        return [Mean(course.rule.average)]
    if course.rule.kind == "easgd" and not course.rule.asynchronous:
        return [Meet(worker, course.rule.alpha) for worker in range(n)]
    return [Push((worker + 1) % n, worker, 0.5) for worker in range(n)]


def _words(number: int, worker: Worker) -> str:
    return f"{worker.name} (worker {number}, {worker.session.device.ref})"


def at(mark: Mark) -> float:
    """Return the host time at which a mark was reached; waits for it."""
    found: float | None = mark.session.at(mark)
    assert found is not None  # a session that runs kernels has a clock
    return found
