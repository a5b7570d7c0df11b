"""The chain of `bench chain` as a program would call it: x is moved there, y is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.backends.base import require
from gpumap.bench.base import Round
from gpumap.bench.chain_work import Job, Placed

if TYPE_CHECKING:
    from gpumap.backends.base import Session
    from gpumap.bench.base import Spans
    from gpumap.bench.chain_work import Data
    from gpumap.model import Check


class ChainCall(Round):
    """Calls of the chain on a device, one kernel for each operation, each call waited for."""

    def __init__(self, data: Data, session: Session) -> None:
        require(session, "kernels", "the chain of kernels")
        self._data, self._session = data, session
        self._whole = slice(0, data.rows)
        self._placed = Placed("", session, data, self._whole)
        self._job = Job.of(self._placed, "separate")
        self._behind = self._placed.elementwise(self._job.out)
        self._pass = Job.of(self._placed, "relu")
        self._landing = data.empty()

    def poison(self) -> None:
        """Make y wrong, on the device and on the host."""
        self._job.poison()
        self._landing.fill(float("nan"))

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:  # noqa: ARG002 - timed by the host
        """Call `rounds` times."""
        for _ in range(rounds):
            self._placed.upload()
            self._job.queue()
            self._session.download(self._job.out, self._landing)
            self._session.synchronize()

    def check(self) -> Check:
        """Return whether what landed is right."""
        return self._data.check("chain", self._landing, self._whole)

    def elementwise(self) -> None:
        """Run all kernels behind the product, on what stands there."""
        self._behind()
        self._session.synchronize()

    def one_pass(self) -> None:
        """Run one kernel: it reads and writes as much as all of them would if they were one."""
        self._pass.queue()
        self._session.synchronize()
