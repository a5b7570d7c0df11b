"""`transfer-cost`: copies, the model of what they cost, and the break-evens that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.breakeven import with_break_evens
from gpumap.bench.cost_models import fits
from gpumap.bench.keys import CALLS, HOST
from gpumap.bench.names import ReferenceRecipe
from gpumap.bench.registry import MODEL, BenchmarkSpec, Column, Family
from gpumap.bench.transfer import CASES, Params, Transfer
from gpumap.bench.transfer_causes import copies_explained
from gpumap.bench.transfer_headline import headline, judged
from gpumap.bench.workloads import WORKLOADS
from gpumap.engine.sizes import transfers
from gpumap.errors import QuestionError
from gpumap.model import replace
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.engine.base import OpenDevices, Settings
    from gpumap.model import Fit, Measurement


class CopyRecipe(ReferenceRecipe):
    """Recipe of `transfer-cost`."""

    every = CASES

    def __init__(self, settings: Settings, *, sizes: str, cases: str | None, model: bool) -> None:
        super().__init__(settings, cases=cases, reference=None)
        calls = [case for case in self.cases or () if case in WORKLOADS]
        if not model and calls:
            which = " and ".join(calls)
            fix = f"omit --no-model, or omit {which}"
            raise QuestionError(f"--no-model leaves break-evens out, and so {which}", fix)
        params = Params(transfers(sizes), self.cases or CASES, settings.seed)
        self._params = params if model else replace(params, sweep=())

    def benchmark(self, devices: OpenDevices) -> Transfer:
        """Return the copies on open devices."""
        return Transfer(devices, self._params)

    def complete(self, rows: Sequence[Measurement]) -> Sequence[Measurement]:
        """Return rows with the size from which on each device breaks even."""
        return with_break_evens(rows, self.settings.confidence)

    def fits(self, rows: Iterable[Measurement]) -> tuple[Fit, ...]:
        """Return latency and bandwidth of each kind of copy."""
        return fits(rows, confidence=self.settings.confidence, seed=self.settings.seed)


SPEC = BenchmarkSpec(
    (
        Family(("h2d", "d2h", "bidir", "d2d"), ("bytes", "memory", "mode", "pattern"),
               ("time", "issue_interval", "bandwidth", "speedup")),
        Family(("h2d", "d2h", "d2d"), ("memory", "mode", "pattern"), MODEL, ".fit"),
        Family(tuple(WORKLOADS), ("resident", "bytes", "memory", "mode", "pattern"),
               ("time", "break_even")),
        Family((HOST,), ("workload", "bytes", "memory", "mode", "pattern"), ("time",)),
    ),
    command=("transfer-cost",),
    recipe=CopyRecipe,
    # of -v; the default table is results/copies.py, `_each`
    columns=("case", "on", Column("memory", param="memory"), Column("mode", param="mode"), "time",
             "bandwidth", "of peak", Column("all/one", "speedup"), "route", "check", "n", "trust",
             "status"),
    title=lambda case: f"transfer {counted(int(case.params['bytes']), 'byte')}",
    aside=CALLS,
    side_by_side=True,
    sizes=("bytes",),
    how=("memory", "mode"),
    headline=headline,
    claims=judged,
    explain=copies_explained,
)  # fmt: skip
