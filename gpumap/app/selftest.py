"""`selftest`: round trips of data, and false alarms of A against A."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap.app.benchmark import BenchmarkRun, Request, Turn, recorded
from gpumap.app.checking import prove_map
from gpumap.bench.selftest import RUNS, SHORTEST, SelfTestRecipe, false_alarms
from gpumap.engine.estimates import by_block
from gpumap.errors import Diagnostic, Exit
from gpumap.model import Alarms, Measurement, Tested, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.app.recording import Draft, Recording

_THRESHOLD = 0.05  # the change that noise must neither imitate nor hide: the default of `compare`
_QUIET = "stop other programs on this machine, or compare with a larger --threshold"
_FEWEST = 6  # runs
_LONGER = "raise --budget: 2m"


def test_machine(request: Request) -> None:
    """Test every device of the map."""
    request = request._replace(settings=replace(request.settings, whole=True))
    with recorded("selftest", request) as record:
        record.draft.result = Tested()
        for turn in BenchmarkRun(record, request).resolve(opens=True):
            # what a device multiplies that cannot keep bytes is worth nothing
            if prove_map(record, turn.resolution, turn.inventory):
                _measure(record, request, turn)


def _measure(record: Recording, request: Request, turn: Turn) -> None:
    """Measure A against A on every device of the map, and judge it."""
    draft, settings, bindings = record.draft, request.settings, turn.resolution.bindings
    if any(b.device.simulated for b in bindings):
        # a scripted clock may never come to the end of a budget
        settings = replace(settings, blocks=RUNS * SHORTEST // 2)
    run = BenchmarkRun(record, request._replace(settings=settings))
    run.run(turn, SelfTestRecipe(settings))
    _judge(draft, draft.measured[-1].rows)


def _judge(draft: Draft, rows: Iterable[Measurement]) -> None:
    """Judge B against A on each device, run by run."""
    done = {row.case.id: row for row in rows if row.status == "ok"}
    for row in done.values():
        base = done.get(row.case.against or "")
        if base is None or base.samples is None or row.samples is None:
            continue
        a, b = by_block(base.samples), by_block(row.samples)
        ratios = [b[block] / a[block] if a[block] > 0.0 else math.nan for block in b if block in a]
        found = false_alarms(row.case, ratios, _THRESHOLD)
        assert isinstance(draft.result, Tested)  # it was made so
        draft.result = replace(draft.result, alarms=(*draft.result.alarms, found))
        _refuse(draft, found)


def _refuse(draft: Draft, found: Alarms) -> None:
    """Refuse where noise alone raises an alarm, or where it could hide a change."""
    name = found.name
    if found.false:
        message = f"{name}: noise looked like a change of 5% in {found.false} of {found.runs} runs"
        draft.refuse(Diagnostic("false-alarm", message, hint=_QUIET, name=name))
    elif found.runs < _FEWEST or found.inconclusive:
        message = f"noise hides a change of 5% in {found.inconclusive} of {found.runs} runs"
        hint = _QUIET
        if found.runs < _FEWEST:
            message, hint = f"{found.runs} runs are too few to count false alarms", _LONGER
        diagnostic = Diagnostic("inconclusive", f"{name}: {message}", hint=hint, name=name)
        draft.refuse(diagnostic, Exit.INCONCLUSIVE)
