"""log(exp(relu(x.w + b))) by single kernels: each reads all of its input and writes all of y."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.backends.base import require
from gpumap.bench.calls import Call
from gpumap.model import Check

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Session
    from gpumap.bench.spans import Spans
    from gpumap.bench.workloads import Problem
    from gpumap.machine.blas import Cores

KERNELS = ("relu", "exp_each", "log_each")  # behind the product and add_cyclic
# Of y = x.w + b up to 20 in size, each step rounds a float32: exp's error grows by its argument,
# and log brings that back as an absolute one.
_BOUND = 1e-4


class Chain(Call):
    """The chain on a device: x is moved there and y is fetched, as in a call of a program."""

    def __init__(self, problem: Problem, session: Session) -> None:
        super().__init__(problem)
        require(session, "kernels", "the chain of kernels")
        self.session = session
        self._x, self._w, self._b = (
            _moved(array, session) for array in (problem.x, problem.w, problem.b)
        )
        self._y = session.empty(problem.shape, "float32")
        self._size = problem.shape[0] * problem.shape[1]

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Call `rounds` times."""
        for _ in range(rounds):
            self.session.upload(self.problem.x, self._x)
            self.session.gemm(self._x, self._w, self._y)
            self._each()
            self.session.download(self._y, self.landing)
            self.session.synchronize()

    def elementwise(self) -> None:
        """Run all kernels behind the product, on what stands there."""
        self._each()
        self.session.synchronize()

    def one_pass(self) -> None:
        """Run one kernel: it reads and writes as much as all of them would if they were one."""
        self.session.run("relu", self._y, self._y, size=self._size)
        self.session.synchronize()

    def check(self) -> Check:
        """Return whether what landed is right."""
        return _checked(self.problem, self.landing)

    def _each(self) -> None:
        columns = self.problem.shape[1]
        self.session.run(
            "add_cyclic", self._y, self._size, self._b, columns, self._y, size=self._size
        )
        for kernel in KERNELS:
            self.session.run(kernel, self._y, self._y, size=self._size)


class HostChain(Call):
    """The chain on the host, by NumPy, one operation after the other."""

    def __init__(self, problem: Problem, clock: Clock, cores: Cores) -> None:
        super().__init__(problem)
        self._clock = clock
        self._cores = cores

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:  # noqa: ARG002 - no device
        """Call `rounds` times."""
        work = self.problem.workload.operations(self.problem.size)
        work += len(KERNELS) * self.landing.size
        with self._cores.all():
            for _ in range(rounds):
                self._clock.compute(self._compute, work)

    def check(self) -> Check:
        """Return whether what landed is right."""
        return _checked(self.problem, self.landing)

    def _compute(self) -> None:
        import numpy as np

        y = self.landing
        self.problem.compute(y)
        np.maximum(y, np.float32(0), out=y)
        np.exp(y, out=y)
        np.log(y, out=y)


def _checked(problem: Problem, found: Any) -> Check:
    """Compare with float64, in which exp and log undo each other."""
    import numpy as np

    assert problem.b is not None
    x, w, b = (array.astype(np.float64) for array in (problem.x, problem.w, problem.b))
    error = float(abs(found - np.maximum(x @ w + b, 0.0)).max())
    return Check("float64 reference", error <= _BOUND, error, _BOUND)


def _moved(array: Any, session: Session) -> Any:
    buffer = session.empty(array.shape, "float32")
    session.upload(array, buffer)
    session.synchronize()
    return buffer
