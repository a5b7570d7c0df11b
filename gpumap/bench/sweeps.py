"""Calls of a break-even as its rows hold them: of one workload on one device, at all sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.bench.keys import HOST, is_call
from gpumap.bench.workloads import WORKLOADS
from gpumap.engine.estimates import by_block, ratio
from gpumap.engine.fit import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.model import Case, Measurement


class Sweep(NamedTuple):
    """The calls of one workload on one device, x moved or resident; `head` is the smallest.

    `rows` are the calls, by their bytes, and `hosts` those of the host, by their ids.
    """

    head: Measurement
    rows: Mapping[int, Measurement]
    hosts: Mapping[str, Measurement]

    @property
    def text(self) -> str:
        """Return what is computed."""
        return WORKLOADS[self.head.case.name].words

    @property
    def resident(self) -> bool:
        """Return whether x is on the device already."""
        return self.head.case.params["resident"] == "true"

    @property
    def measured_to(self) -> int:
        """Return the bytes of the largest call that was measured; 0 for none."""
        return max((n for n, row in self.rows.items() if row.status == "ok"), default=0)

    @property
    def failed(self) -> list[Measurement]:
        """Return the calls that failed."""
        return [row for row in self.rows.values() if row.status == "failed"]

    @property
    def stopped(self) -> str | None:
        """Return the code of why no larger size was measured; None where that is the largest."""
        return next((row.reason.code for row in self.rows.values() if row.reason), None)

    def points(self, confidence: float) -> list[Point]:
        """Return how many times as fast as the host the device is at each size, in order."""
        found = []
        for nbytes, row in sorted(self.rows.items()):
            host = self.hosts.get(row.case.against or "")
            if row.status == "ok" and row.samples and host is not None and host.samples:
                gain = ratio(by_block(host.samples), by_block(row.samples), confidence)
                found += [] if gain is None else [Point(nbytes, gain)]
        return found


def sweeps(rows: Iterable[Measurement]) -> list[Sweep]:
    """Return the sweeps of calls that rows have."""
    calls = [row for row in rows if is_call(row.case)]
    hosts = {row.case.id: row for row in calls if row.case.name == HOST and row.status == "ok"}
    found = []
    for head in (row for row in calls if not row.case.swept):
        every = [row for row in calls if _which(row.case) == _which(head.case)]
        found.append(Sweep(head, {int(row.case.params["bytes"]): row for row in every}, hosts))
    return found


def _which(case: Case) -> tuple[object, ...]:
    """Return the workload, the device, and whether x is resident."""
    return case.name, case.backend, case.names, case.params.get("resident")
