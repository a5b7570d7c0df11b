"""Calls of a workload on the host and on a device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpumap.bench.keys import REPEATS
from gpumap.engine.base import Iteration
from gpumap.engine.verify import moved, prove, put

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Session
    from gpumap.bench.workloads import Problem
    from gpumap.engine.base import Events
    from gpumap.machine.blas import Cores
    from gpumap.model import Check


class Call(Iteration):
    """Calls that are waited for one by one, each writing y to one destination in host memory."""

    def __init__(self, problem: Problem, most: int = REPEATS) -> None:
        self.problem, self.most = problem, most
        self.destination = problem.room()

    def poison(self) -> None:
        """Make the destination wrong."""
        self.destination.fill(float("nan"))

    def check(self) -> Check:
        """Return whether y is right."""
        return self.problem.check(self.destination)


class HostCall(Call):
    """The call on the host, by NumPy: its products use all cores, all else uses one."""

    def __init__(self, problem: Problem, clock: Clock, cores: Cores, most: int = REPEATS) -> None:
        super().__init__(problem, most)
        self._clock, self._cores = clock, cores
        self._operations = problem.operations  # counted here: to count takes part of a short call
        self._compute = partial(problem.compute, self.destination)

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - no device
        """Call `iterations` times."""
        with self._cores.all():
            for _ in range(iterations):
                self._clock.compute(self._compute, self._operations)


class Placed:
    """A problem's weights on a device, and room for x and y."""

    def __init__(self, problem: Problem, session: Session) -> None:
        self.problem = problem
        self.session = session
        self._w = moved(problem.w, session)
        spread = problem.spread()
        self._b = None if spread is None else moved(spread, session)
        self.x = session.empty(problem.x.shape, "float32")
        self.y = session.empty(problem.shape, "float32")

    def upload(self) -> None:
        """Queue the copy of x to the device."""
        self.session.upload(self.problem.x, self.x)

    def compute(self) -> None:
        """Queue y = x.w, or y = x.w + b: on top of a copy of the bias."""
        if self._b is not None:
            self.session.copy(self._b, self.y)
        beta = 0.0 if self._b is None else 1.0
        self.session.gemm(self.x, self._w, self.y, beta=beta)


class DeviceCall(Call):
    """The call on a device: x is moved there or is there, and y is fetched."""

    def __init__(self, placed: Placed, *, upload: bool) -> None:
        super().__init__(placed.problem)
        self._placed = placed
        self._upload = upload

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Call `iterations` times."""
        placed = self._placed
        for _ in range(iterations):
            if self._upload:
                placed.upload()
            placed.compute()
            placed.session.download(placed.y, self.destination)
            placed.session.synchronize()

    def poison(self) -> None:
        """Make y wrong, on the device and on the host."""
        super().poison()
        put(self.destination, self._placed.y)
        if not self._upload:
            self._placed.upload()  # it is there already: that is what resident means

    def check(self) -> Check:
        """Return whether y is right.

        Raises:
            WrongDataError: a byte of x, which is moved with the call, did not arrive.
        """
        if self._upload:
            prove(self.problem.x, self._placed.x)  # y hides a wrong byte in its rounding
        return super().check()
