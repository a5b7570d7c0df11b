"""EASGD and GOSGD as published: no worker waits for the pace of another one.

The examples of a training are handed out in order, a step's worth to whoever is ready: a fast
worker takes more steps than a slow one. Exchanges go through host memory:

    easgd    after tau steps of its own a worker takes the center, both move towards each other, and
             the center goes back; one worker at a time (Zhang, Choromanska & LeCun,
             arXiv:1412.6651, algorithm 1)
    gosgd    with probability p a worker sends its parameters, and half of its weight, to a random
             other one, which blends in what has arrived before its next step (Blot et al.,
             arXiv:1611.09726, algorithms 3 and 4)

A run is over when its examples are trained on and every message has been blended in: then the
weights of gosgd sum up to 1 again.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import has_data, landing
from gpumap.dtypes import Array, np
from gpumap.training.steps import Account, LocalTraining, at, fetched, phases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Mark
    from gpumap.training.steps import Course
    from gpumap.training.workers import LocalTeam

_AHEAD = 2  # steps of a worker under way at once: while one is computed, the next one is made
_NEAR = 2  # steps for each worker that are left: from here on none is taken ahead


class Supply:
    """The examples of a training, handed out in order; any thread may take some."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._lock = threading.Lock()
        self.taken = self.until = 0

    def begin(self) -> None:
        """Begin with the first example."""
        self.taken = self.until = 0

    def extend(self, steps: int) -> None:
        """Allow the examples of so many more steps of all workers."""
        self.until += steps * self._course.batch

    def take(self, worker: int, wanted: int = 1) -> tuple[int, int]:
        """Return the first example of a worker's next steps, and how many steps: 0 at the end.

        At most `wanted`; near the end fewer, so that all end at about the same time.
        """
        each, workers = self._course.counts[worker], self._course.workers
        with self._lock:
            left = max(self.until - self.taken, 0)
            steps = min(wanted, max(left // (2 * workers * each), 1)) if left else 0
            first, self.taken = self.taken, self.taken + steps * each
        return first, steps

    @property
    def near(self) -> bool:
        """Return whether few steps are left."""
        return self.until - self.taken < _NEAR * self._course.batch


@dataclass(slots=True)
class Message:
    """Parameters on their way to another worker, and the weight that goes along."""

    receiver: int
    array: Array
    weight: float
    sent: int  # examples that all workers had taken when it left


@dataclass(slots=True)
class _Mate:
    """What a worker of gosgd or easgd has beside its replica."""

    weight: float
    random: Random
    steps: int = 0
    met: int = 0  # meetings of all workers with the center, after its own last one
    inbox: deque[Message] = field(default_factory=deque)


# the end of each step, the message that leaves with it, and those that it has blended in
_Steps = deque[tuple[Any, Message | None, list[Message]]]


def gossip(seed: int, worker: int) -> Random:
    """Return what a worker draws its messages and their receivers from."""
    return Random(f"{seed}, {worker}")  # noqa: S311 - gossip, not a secret


def receiver(random: Random, chance: float, worker: int, workers: int) -> int | None:
    """Return whom a worker sends its parameters to after a step; None where it sends none."""
    if workers == 1 or random.random() >= chance:
        return None
    other = random.randrange(workers - 1)
    return other + (other >= worker)


class AsynchronousTraining(LocalTraining):
    """Workers of one process, each driven by a thread; on scripted devices in scripted order."""

    def __init__(self, course: Course, team: LocalTeam, initial: Array, clock: Clock) -> None:
        super().__init__(course, team, initial, clock)
        self.account: Account = Account()
        self._supply = Supply(course)
        self._lock = threading.Lock()  # of the center, or of all inboxes
        self._center = landing(team.workers[0].model.weights) if self._elastic else None
        self._met: Mark | None = None  # the end of the last meeting
        self._meetings = 0
        self._mates: list[_Mate] = []
        self._parts: list[list[tuple[str, Mark]]] = [[] for _ in team.workers]
        self._begin()

    @property
    def _elastic(self) -> bool:
        return self._course.rule.kind == "easgd"

    def poison(self) -> None:
        """Begin anew."""
        super().poison()
        self._begin()

    def _begin(self) -> None:
        count, seed = self._course.workers, self._course.seed
        self._mates = [_Mate(1.0 / count, gossip(seed, n)) for n in range(count)]
        self._supply.begin()
        self._met, self._meetings = None, 0
        if self._center is not None and has_data(self._center):
            self._center[:] = self._initial

    def run(self, steps: int) -> None:
        """Train on the examples of so many steps of all workers, and blend in what is under way."""
        self._supply.extend(steps)
        works = [self._work(number) for number in range(self._course.workers)]
        if self._clock.scripted:
            _interleave(works)
        else:
            self._clock.together([partial(_drive, work) for work in works])
        self.account.ended(sum(len(mate.inbox) for mate in self._mates))
        last = [self._merge(number) for number in range(self._course.workers)]
        self.finish()
        del last  # not before it was blended in

    def record(self) -> None:
        """Account for the phases of what is run from now on."""
        super().record()
        self._parts = [[] for _ in self._parts]

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a worker in each phase."""
        parts = [
            (phase, {number: at(mark)})
            for number, own in enumerate(self._parts)
            for phase, mark in own
        ]
        return phases(parts, self._began, self._course.workers)

    def parameters(self) -> Array:
        """Return what was trained: the center's parameters, or by gosgd the mean by weight; waits.

        Raises:
            Diverged: what the first worker has is not a number.
        """
        own = super().parameters()
        if self._center is not None:
            return self._center.copy()
        weighted = zip(self._team.workers[1:], self.weights[1:], strict=True)
        others = (fetched(worker, "weights") * np.float32(weight) for worker, weight in weighted)
        mean: Array = sum(others, own * np.float32(self.weights[0]))
        return mean

    @property
    def weights(self) -> Sequence[float]:
        """Return the weight of each worker, by gosgd; they sum up to 1."""
        return [mate.weight for mate in self._mates]

    def _work(self, number: int) -> Iterator[Mark]:
        """Take steps until there are none left; yield each mark that has to be waited for."""
        mate, rule = self._mates[number], self._course.rule
        under_way: _Steps = deque()
        while True:
            while len(under_way) >= (1 if self._supply.near else _AHEAD):
                yield from self._over(under_way)
            first, steps = self._supply.take(number)
            if not steps:
                break
            came = self._merge(number)
            self._parts[number] += self._gradient(number, first).items()
            course = self._course
            self._team.workers[number].update(course.rate_at(first // course.batch))
            self._mark(number, "update")
            mate.steps += 1
            message = None if self._elastic else self._push(number)
            end = self._mark(number, "update" if message is None else "comm")
            under_way.append((end, message, came))
            if self._elastic and mate.steps % rule.tau == 0:
                while under_way:
                    yield from self._over(under_way)
                yield self._meet(number)
        while under_way:
            yield from self._over(under_way)

    def _over(self, under_way: _Steps) -> Iterator[Mark]:
        """Wait for the end of a worker's oldest step; its message has then left the device."""
        mark, message, _ = under_way.popleft()
        yield mark
        if message is not None:
            with self._lock:
                self._mates[message.receiver].inbox.append(message)

    def _mark(self, number: int, phase: str) -> Mark:
        mark: Mark = self._team.workers[number].session.mark()
        self._parts[number].append((phase, mark))
        return mark

    def _meet(self, number: int) -> Mark:
        """Let a worker that has come to it meet the center; return the end of that."""
        assert self._center is not None  # it is easgd
        weights, room = self._team.workers[number].model.weights, self._team.room(number)
        session, mate = weights.session, self._mates[number]
        with nullcontext() if self._clock.scripted else self._lock:
            if self._met is not None and self._clock.scripted:
                session.wait(self._met)
            self._mark(number, "sync")
            session.upload(self._center, room)
            session.run("elastic", weights, room, self._course.rule.alpha, size=room.shape[0])
            session.download(room, self._center)
            self._met = self._mark(number, "comm")
            if not self._clock.scripted:
                at(self._met)  # the next one takes what this one has left
            self.account.exchanged(self._meetings - mate.met)
            self._meetings += 1
            mate.met = self._meetings
            return self._met

    def _push(self, number: int) -> Message | None:
        """Queue that a worker's parameters leave for another one, now and then."""
        mate, course = self._mates[number], self._course
        to = receiver(mate.random, course.rule.chance, number, course.workers)
        if to is None:
            return None
        weights = self._team.workers[number].model.weights
        array = landing(weights)
        weights.session.download(weights, array)
        mate.weight /= 2
        return Message(to, array, mate.weight, self._supply.taken)

    def _merge(self, number: int) -> list[Message]:
        """Queue that a worker blends in every message that has come; return those.

        Their memory is needed until that is done.
        """
        mate, weights = self._mates[number], self._team.workers[number].model.weights
        each = self._course.batch / self._course.workers
        with self._lock:
            came = [mate.inbox.popleft() for _ in range(len(mate.inbox))]
            for message in came:
                self.account.exchanged(max(self._supply.taken - message.sent, 0) / each)
        for message in came:
            mate.weight += message.weight
            share, room = message.weight / mate.weight, self._team.room(number)
            weights.session.upload(message.array, room)
            weights.session.run("blend", weights, room, share, size=room.shape[0])
            self._mark(number, "comm")
        return came


def _drive(work: Iterator[Mark]) -> None:
    """Be the thread of a worker."""
    for mark in work:
        at(mark)


def _interleave(works: Sequence[Iterator[Mark]]) -> None:
    """Let scripted workers go on in the order in which their marks are reached."""
    ready: list[tuple[float, int]] = [(0.0, number) for number in range(len(works))]
    while ready:
        _, number = heapq.heappop(ready)
        if (mark := next(works[number], None)) is not None:
            heapq.heappush(ready, (at(mark), number))
