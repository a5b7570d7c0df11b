"""Calls of a break-even as its rows hold them: of one workload on one device, at all sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpumap.bench.keys import is_call
from gpumap.bench.workloads import WORKLOADS
from gpumap.engine.estimates import by_block, ratio
from gpumap.engine.fit import Point
from gpumap.model import Case, Measurement

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class Sweep:
    """The calls of one workload on one device, x moved or resident; `head` is the smallest."""

    head: Measurement
    rows: list[Measurement] = field(default_factory=list)  # of the workload on this device
    hosts: dict[int, Measurement] = field(default_factory=dict)  # the host's, by bytes

    @property
    def key(self) -> tuple[str, ...]:
        """Return the workload, the device, and whether x is resident."""
        return self.workload, self.head.case.backend, *self.head.case.names, self._resident

    @property
    def workload(self) -> str:
        """Return the key of the workload."""
        return self.head.case.name

    @property
    def text(self) -> str:
        """Return what is computed."""
        return WORKLOADS[self.workload].words

    @property
    def resident(self) -> bool:
        """Return whether x is on the device already."""
        return self._resident == "true"

    @property
    def _resident(self) -> str:
        return str(self.head.case.params["resident"])

    def of(self, name: str, resident: str | None = None) -> dict[int, Measurement]:
        """Return the rows of a case by their bytes: those of the sweep's kind, or of another."""
        kind = (self._resident if resident is None else resident, None)
        found = (row for row in self.rows if row.case.name == name)
        return {bytes_of(row): row for row in found if row.case.params.get("resident") in kind}

    @property
    def calls(self) -> dict[int, Measurement]:
        """Return the calls that were measured, by their bytes, in order."""
        measured = {n: row for n, row in self.of(self.workload).items() if row.status == "ok"}
        return dict(sorted(measured.items()))

    @property
    def tried(self) -> set[int]:
        """Return the bytes of all calls, measured or not."""
        return {*self.of(self.workload)}

    @property
    def measured_to(self) -> int:
        """Return the bytes of the largest call that was measured; 0 for none."""
        return max(self.calls, default=0)

    @property
    def failed(self) -> list[Measurement]:
        """Return the calls that failed."""
        return [row for row in self.of(self.workload).values() if row.status == "failed"]

    @property
    def stopped(self) -> str | None:
        """Return the code of why no larger size was measured; None where that is the largest."""
        codes = (row.reason.code for row in self.of(self.workload).values() if row.reason)
        return next(codes, None)

    def points(self, confidence: float = 0.95) -> list[Point]:
        """Return how many times as fast as the host the device is at each size."""
        found = []
        for nbytes, row in self.calls.items():
            host = self.hosts.get(nbytes)
            if row.samples and host is not None and host.samples:
                gain = ratio(by_block(host.samples), by_block(row.samples), confidence)
                found += [] if gain is None else [Point(nbytes, gain)]
        return found

    def largest_win(self) -> Point | None:
        """Return the largest size at which the device clearly wins."""
        return next((p for p in reversed(self.points()) if p.wins and p.clear), None)


def sweeps(rows: Iterable[Measurement]) -> list[Sweep]:
    """Return the sweeps of calls that rows have."""
    calls = [row for row in rows if is_call(row.case)]
    found = []
    for head in (row for row in calls if not row.case.swept):
        own = [row for row in calls if workload_of(row.case) == head.case.name]
        own = [row for row in own if row.case.backend == head.case.backend]
        ok = (row for row in own if row.case.name == "host" and row.status == "ok")
        hosts = {row.case.id: row for row in ok}
        here = [row for row in own if row.case.names == head.case.names]
        pairs = ((bytes_of(row), hosts.get(row.case.against or "")) for row in here)
        found.append(Sweep(head, here, {n: host for n, host in pairs if host is not None}))
    return found


def bytes_of(row: Measurement) -> int:
    """Return the bytes of x, or of a copy."""
    return int(row.case.params["bytes"])


def workload_of(case: Case) -> str:
    """Return the workload that a call is of."""
    return case.name if case.name in WORKLOADS else str(case.params["workload"])
