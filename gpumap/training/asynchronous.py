"""Asynchronous EASGD and GOSGD, as published: workers do not wait for each other.

The examples of a training are handed out in order, a step's worth to each ready worker: a fast
one takes more steps than a slow one. Exchanges go through host memory:

    easgd    after tau local steps a worker takes the center, both move towards each other, and
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

from gpumap.backends.base import destination, has_data
from gpumap.dtypes import Array, np
from gpumap.training.steps import Account, LocalTraining, at, phases, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Mark
    from gpumap.training.steps import Config
    from gpumap.training.worker_groups import LocalGroup

_AHEAD = 2  # steps of a worker under way at once: while one is computed, the next one is made
_NEARLY_DONE = 2  # steps for each worker that are left: from here on none is taken ahead


class Supply:
    """The examples of a training, handed out in order; any thread may take some."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self.taken = self.until = 0

    def begin(self) -> None:
        """Begin with the first example."""
        self.taken = self.until = 0

    def extend(self, steps: int) -> None:
        """Allow the examples of so many more steps of all workers."""
        self.until += steps * self._config.batch

    def take(self, worker: int, most: int = 1) -> tuple[int, int]:
        """Return the first example of a worker's next steps, and how many steps: 0 at the end.

        At most `most`; fewer near the end, so that all finish at about the same time.
        """
        each, workers = self._config.counts[worker], self._config.workers
        with self._lock:
            left = max(self.until - self.taken, 0)
            steps = min(most, max(left // (2 * workers * each), 1)) if left else 0
            first, self.taken = self.taken, self.taken + steps * each
        return first, steps

    @property
    def nearly_done(self) -> bool:
        """Return whether fewer than two steps per worker are left."""
        return self.until - self.taken < _NEARLY_DONE * self._config.batch


@dataclass(slots=True)
class Message:
    """Parameters on their way to another worker, and the weight that goes along."""

    receiver: int
    array: Array
    weight: float
    sent: int  # examples that all workers had taken when it left


@dataclass(slots=True)
class _WorkerState:
    """Per-worker state of GOSGD and EASGD."""

    weight: float
    random: Random
    steps: int = 0
    last: int = 0  # center exchanges of all workers, up to its last one
    inbox: deque[Message] = field(default_factory=deque)


# the end of each step, the message sent with it, and the messages blended in
_Steps = deque[tuple[Any, Message | None, list[Message]]]


def gossip(seed: int, worker: int) -> Random:
    """Return the random generator of a worker's messages and their receivers."""
    return Random(f"{seed}, {worker}")  # noqa: S311 - gossip, not a secret


def receiver(random: Random, chance: float, worker: int, workers: int) -> int | None:
    """Return the worker to send parameters to after a step, or None."""
    if workers == 1 or random.random() >= chance:
        return None
    other = random.randrange(workers - 1)
    return other + (other >= worker)


class AsynchronousTraining(LocalTraining):
    """Workers of one process, each driven by a thread; on scripted devices in scripted order."""

    def __init__(self, config: Config, group: LocalGroup, initial: Array, clock: Clock) -> None:
        super().__init__(config, group, initial, clock)
        self.account: Account = Account()
        self._supply = Supply(config)
        self._lock = threading.Lock()  # of the center, or of all inboxes
        self._center = destination(group.workers[0].model.weights) if self._elastic else None
        self._last: Mark | None = None  # the end of the last exchange with it
        self._exchanges = 0
        self._states: list[_WorkerState] = []
        self._parts: list[list[tuple[str, Mark]]] = [[] for _ in group.workers]
        self._begin()

    @property
    def _elastic(self) -> bool:
        return self._config.rule.kind == "easgd"

    def poison(self) -> None:
        """Reset to the initial parameters."""
        super().poison()
        self._begin()

    def _begin(self) -> None:
        count, seed = self._config.workers, self._config.seed
        self._states = [_WorkerState(1.0 / count, gossip(seed, n)) for n in range(count)]
        self._supply.begin()
        self._last, self._exchanges = None, 0
        if self._center is not None and has_data(self._center):
            self._center[:] = self._initial

    def run(self, steps: int) -> None:
        """Train for `steps` steps of all workers, then blend in the messages under way."""
        self._supply.extend(steps)
        works = [self._work(number) for number in range(self._config.workers)]
        if self._clock.scripted:
            _interleave(works)
        else:
            self._clock.run_concurrently([partial(_drive, work) for work in works])
        self.account.ended(sum(len(state.inbox) for state in self._states))
        last = [self._merge(number) for number in range(self._config.workers)]
        self.finish()
        del last  # not before it was blended in

    def record(self) -> None:
        """Reset the phase times."""
        super().record()
        self._parts = [[] for _ in self._parts]

    def phases(self) -> Mapping[str, float]:
        """Return the mean seconds of a worker in each phase."""
        parts = [
            (phase, {number: at(mark)})
            for number, each in enumerate(self._parts)
            for phase, mark in each
        ]
        return phases(parts, self._began, self._config.workers)

    def parameters(self) -> Array:
        """Return the trained parameters: the center's, or by gosgd the weighted mean; waits.

        Raises:
            Diverged: what the first worker has is not a number.
        """
        first = super().parameters()
        if self._center is not None:
            return self._center.copy()
        weighted = zip(self._group.workers[1:], self.weights[1:], strict=True)
        others = (read(worker, "weights") * np.float32(weight) for worker, weight in weighted)
        mean: Array = sum(others, first * np.float32(self.weights[0]))
        return mean

    @property
    def weights(self) -> Sequence[float]:
        """Return the weight of each worker, by gosgd; they sum up to 1."""
        return [state.weight for state in self._states]

    def _work(self, number: int) -> Iterator[Mark]:
        """Take steps until there are none left; yield each mark that has to be waited for."""
        state, rule = self._states[number], self._config.rule
        under_way: _Steps = deque()
        while True:
            while len(under_way) >= (1 if self._supply.nearly_done else _AHEAD):
                yield from self._over(under_way)
            first, steps = self._supply.take(number)
            if not steps:
                break
            received = self._merge(number)
            self._parts[number] += self._gradient(number, first).items()
            config = self._config
            self._group.workers[number].update(config.rate_at(first // config.batch))
            self._mark(number, "update")
            state.steps += 1
            message = None if self._elastic else self._push(number)
            end = self._mark(number, "update" if message is None else "comm")
            under_way.append((end, message, received))
            if self._elastic and state.steps % rule.tau == 0:
                while under_way:
                    yield from self._over(under_way)
                yield self._exchange_center(number)
        while under_way:
            yield from self._over(under_way)

    def _over(self, under_way: _Steps) -> Iterator[Mark]:
        """Wait for the end of a worker's oldest step; its message has then left the device."""
        mark, message, _ = under_way.popleft()
        yield mark
        if message is not None:
            with self._lock:
                self._states[message.receiver].inbox.append(message)

    def _mark(self, number: int, phase: str) -> Mark:
        mark: Mark = self._group.workers[number].session.mark()
        self._parts[number].append((phase, mark))
        return mark

    def _exchange_center(self, number: int) -> Mark:
        """Queue a worker's exchange with the center; return the mark of its end."""
        assert self._center is not None  # it is easgd
        weights, room = self._group.workers[number].model.weights, self._group.room(number)
        session, state = weights.session, self._states[number]
        with nullcontext() if self._clock.scripted else self._lock:
            if self._last is not None and self._clock.scripted:
                session.wait(self._last)
            self._mark(number, "sync")
            session.upload(self._center, room)
            session.run("elastic", weights, room, self._config.rule.alpha, size=room.shape[0])
            session.download(room, self._center)
            self._last = self._mark(number, "comm")
            if not self._clock.scripted:
                at(self._last)  # the next one takes what this one has left
            self.account.exchanged(self._exchanges - state.last)
            self._exchanges += 1
            state.last = self._exchanges
            return self._last

    def _push(self, number: int) -> Message | None:
        """Queue a worker's parameters to a random other one, with probability p."""
        state, config = self._states[number], self._config
        to = receiver(state.random, config.rule.chance, number, config.workers)
        if to is None:
            return None
        weights = self._group.workers[number].model.weights
        array = destination(weights)
        weights.session.download(weights, array)
        state.weight /= 2
        return Message(to, array, state.weight, self._supply.taken)

    def _merge(self, number: int) -> list[Message]:
        """Queue the blending of all messages in a worker's inbox; return them.

        Their memory is needed until that is done.
        """
        state, weights = self._states[number], self._group.workers[number].model.weights
        each = self._config.batch / self._config.workers
        with self._lock:
            received = [state.inbox.popleft() for _ in range(len(state.inbox))]
            for message in received:
                self.account.exchanged(max(self._supply.taken - message.sent, 0) / each)
        for message in received:
            state.weight += message.weight
            share, room = message.weight / state.weight, self._group.room(number)
            weights.session.upload(message.array, room)
            weights.session.run("blend", weights, room, share, size=room.shape[0])
            self._mark(number, "comm")
        return received


def _drive(work: Iterator[Mark]) -> None:
    """Run the steps of a worker; called in its thread."""
    for mark in work:
        at(mark)


def _interleave(works: Sequence[Iterator[Mark]]) -> None:
    """Run scripted workers in the order in which their marks are reached."""
    ready: list[tuple[float, int]] = [(0.0, number) for number in range(len(works))]
    while ready:
        _, number = heapq.heappop(ready)
        if (mark := next(works[number], None)) is not None:
            heapq.heappush(ready, (at(mark), number))
