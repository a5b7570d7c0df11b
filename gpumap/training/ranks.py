"""One rank's part of a training: its steps, what they took, and their checks.

A step: the rank makes its part of the batch on the host (input), copies it to its device
(transfer), and computes the gradient; the rule (`gpumap.training.rules`) exchanges gradients or
parameters (comm), for which an early rank waits for a late one (sync), and the optimizer changes
the parameters (update). All of it is queued, where nothing has to be waited for; marks in the
device's queue tell what took how long. A device without events is waited for after each phase.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import nullcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gpumap.comm.base import Staging
from gpumap.dtypes import Array, np
from gpumap.engine.verify import judged, worse
from gpumap.errors import GpumapError
from gpumap.model.measurements import PHASES
from gpumap.training import steps
from gpumap.training.network import fetched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Mark
    from gpumap.comm.base import Action, Ask, Comm
    from gpumap.model import Check
    from gpumap.training.jobs import Job
    from gpumap.training.steps import Worker

_AHEAD = 2  # steps under way at once: while one is computed, the next one is made
_ASKED = 16  # steps for which another process is asked at once: near the end it gives fewer

# phases, and the marks at which all of them had ended; or the host time, of a device without events
Parts = list[tuple[str, "Sequence[Mark | float]"]]


def phases(parts: Sequence[tuple[str, float]], began: float) -> dict[str, float]:
    """Return the seconds of each phase; they follow each other without a gap.

    Args:
        parts: phases and when they ended; one that waited for others ends with the next one, if
            that ended before the last of them came.
        began: when the first one began.
    """
    result, since = dict.fromkeys(PHASES, 0.0), began
    ends = [*accumulate((end for _, end in reversed(parts)), min)][::-1]
    for (phase, _), end in zip(parts, ends, strict=True):
        result[phase] += max(end - since, 0.0)
        since = max(since, end)
    return result


def at(mark: Mark | float) -> float:
    """Return the host time at which a mark was reached; waits for it."""
    result: float | None = mark if isinstance(mark, float) else mark.session.at(mark)
    assert result is not None  # a session without a clock has been waited for
    return result


def _nothing() -> None:
    """Exchange nothing."""


class RankTraining:
    """One rank's part of a training."""

    def __init__(self, job: Job, comm: Comm, worker: Worker, clock: Clock, label: str) -> None:
        """Take memory for exchanges; collective.

        Args:
            job: the training; its parameters count on rank 0.
            comm: the ranks that train.
            worker: this rank's.
            clock: of its device.
            label: the rank's name in messages.

        Raises:
            OutOfMemory, Unsupported: the device cannot exchange.
        """
        self._job, self.comm, self._worker, self._clock = job, comm, worker, clock
        session = self._session = worker.session
        self._label, self._timed = label, session.at(session.mark()) is not None
        self._weights = Staging(worker.model.weights)
        rule, self._exchanges = job.rule, job.spec.whole and comm.size > 1
        self._rule = rule.of(self, job.counts, job.params.seed, alone=not self._exchanges)
        self._sum: Action | None = None
        if self._exchanges and rule.name == "bsp":
            self._sum = comm.summing(job.params.algorithm, worker.model.gradient)
        self._rule.begin()  # of a scripted device without data nothing else does
        self._reused: tuple[Any, Any] | None = None  # of a gradient alone: one batch is enough
        self._step = 0
        # a process is on the core that is its device: nothing is made while that computes
        one_core = comm.name != "local" and self._session.device.in_host_memory
        self._ahead = 1 if one_core else _AHEAD
        self._parts: Parts = []
        self._began = 0.0
        self._under_way: deque[Mark | float] = deque()
        self._failure: GpumapError | None = None

    # --- what rank 0 commands

    def poison(self) -> None:
        """Reset to the parameters of rank 0."""
        self._worker.model.put(self.comm.broadcast(None if self.comm.rank else self._job.initial))
        self._worker.optimizer.reset()
        self._step = 0
        self._rule.begin()

    def run(self, steps: int, anew: bool = False) -> None:  # noqa: FBT001, FBT002 - a command
        """Take steps, of asynchronous rules this rank's share; it ends when all have taken it.

        `anew`: `phases` has those from here on.
        """
        if anew or not self._parts:
            self._parts = []
            self._began = self._clock.now()
        serves = self._exchanges and self._job.rule.asynchronous
        self._rule.server.extend(steps)  # before rank 0 serves; no other rank's is asked
        serving = self.comm.serve(self._rule.server.answer) if serves else nullcontext()
        with serving as ask:
            for first in self._places(steps, ask):
                self._rule.before_step()
                self._take(first, ask)
        if ask is not None:
            self._wait(0)
            self._rule.end()
        self._meet()

    def phases(self) -> Mapping[str, float]:
        """Return the seconds of this rank in each phase."""
        parts = [(phase, max(map(at, marks))) for phase, marks in self._parts]
        return phases(parts, self._began)

    def check(self) -> tuple[Check, str]:
        """Check this rank's gradient and exchange; return a digest of the exchanged array.

        Raises:
            Diverged: what it trains is no longer a number.
            GpumapError: a network of the user's own has failed in a step.
        """
        self._worker.diverged |= not np.isfinite(fetched(self._worker.model.weights)).all()
        self.poison()
        gradient = self._gradient()
        if self._sum is None or gradient is None:
            return gradient or judged(steps.METHOD, 0.0), ""
        expected = fetched(self._worker.model.gradient)
        self.comm.allreduce(expected)()
        self._mean(self._sum)
        actual = fetched(self._worker.model.gradient)
        digest = hashlib.sha256(actual.tobytes()).hexdigest()
        return worse(gradient, steps.same(actual, expected)), digest

    def _gradient(self) -> Check | None:
        """Return the check of this rank's gradient; None where something failed on another one."""
        failure, result = None, None
        try:
            self._raise_failure()
            result = steps.checked(self._job, self.comm.rank, self._worker)
        except GpumapError as error:  # the others would wait in what comes next
            failure = error
        failed = self.comm.gather(failure is not None)
        if failure is not None:
            raise failure
        return None if any(failed) else result

    def _raise_failure(self) -> None:
        """Raise what has failed in a step since this was called last."""
        failure, self._failure = self._failure, None
        if failure is None and self._worker.diverged and self._job.spec.whole:
            failure = steps.diverged(self._label)
        if failure is not None:
            raise failure

    def parameters(self) -> Array | None:
        """Return the trained parameters, on rank 0 only.

        Raises:
            Diverged: it is not a number.
        """
        result = self._rule.parameters()  # with all ranks
        self._raise_failure()
        if self.comm.rank:
            return None
        if not np.isfinite(result).all():
            raise steps.diverged(self._label)
        return result

    # --- what the rule asks for

    def read(self) -> Array:
        """Return the parameters, on the host."""
        return self._weights.read()

    def put(self) -> None:
        """Change the parameters to what was done to the array of `read`."""
        self._weights.put()

    def spend(self, phase: str) -> None:
        """Account the time since the last call to a phase."""
        self._parts.append((phase, (self._mark(),)))

    # --- steps

    def _mean(self, summed: Action) -> None:
        """Replace the gradient, this rank's share of that of the whole batch, by their sum."""
        self._meet(summed)
        self.spend("comm")

    def _mark(self) -> Mark | float:
        """Return a mark; the time where the device has no clock, so that it is waited for."""
        if not self._timed:
            self._session.synchronize()
            return self._clock.now()
        mark: Mark = self._session.mark()
        return mark

    def _meet(self, then: Action = _nothing) -> None:
        """Wait for all ranks, and let them exchange."""
        self._parts.append(("sync", self.comm.meet(self._session, self._mark, then)))

    def _places(self, steps: int, ask: Ask | None) -> Iterator[int]:
        """Yield the place of the examples of each step of this rank."""
        if ask is None:
            for _ in range(steps):
                self._wait(self._ahead - 1)
                yield self._job.first(self._step, self.comm.rank)
                self._step += 1
            return
        most = 1 if self.comm.name == "local" else _ASKED
        while True:
            first, count = ask(most)
            self.spend("sync")
            if not count:
                return
            for _ in range(count):
                yield first
                first += self._job.counts[self.comm.rank]
                self._wait(self._ahead - 1)

    def _take(self, first: int, ask: Ask | None) -> None:
        """Queue a step on the examples from a place on."""
        model = self._worker.model
        try:
            self._compute(first)
        except GpumapError as error:  # the others wait in the exchange: it is raised afterwards
            self._failure = self._failure or error
            # it may hold anything, and others add it up
            self._session.run("fill", model.gradient, 0.0, size=self._job.params.network.parameters)
        if self._job.spec.whole:
            if self._sum is not None:
                self._mean(self._sum)
            self._worker.optimizer.step(model.weights, model.gradient, self._job.params.rate)
            self.spend("update")
            self._rule.after_update(ask)
        self._under_way.append(self._mark())

    def _compute(self, first: int) -> None:
        """Queue the gradient of the examples from a place on."""
        x, y = self._reused or self._job.part(first, self._job.counts[self.comm.rank])
        if not self._job.spec.whole:
            self._reused = x, y
        self.spend("input")
        self._worker.model.load(x, y)
        self.spend("transfer")
        self._worker.model.compute(self._job.share(self.comm.rank))
        self.spend("compute")

    def _wait(self, most: int) -> None:
        """Wait until so many steps are under way at most."""
        while len(self._under_way) > most:
            moment = at(self._under_way.popleft())
            if self._clock.scripted:
                self._clock.sleep(max(moment - self._clock.now(), 0.0))
