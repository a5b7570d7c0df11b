"""What `scale` measured, as every format shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.figures import estimate
from gpumap.judge import scaling
from gpumap.judge.headline import Question
from gpumap.report.parts import Record, Section
from gpumap.report.table import Table
from gpumap.results import ResultSpec
from gpumap.results.around import around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Report, Scaled, ScaleStep, Scaling

STEPS = ("names", "time", "speed-up", "busy", "n")


def sections(report: Report, result: Scaled, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield the times on one name, on two, and so on."""
    if result.scaling is not None:
        yield from around(report, (_table(result.scaling),), verbose=verbose)


def _table(found: Scaling) -> Table:
    """Return a row for each number of names that a program was measured on."""
    rows = tuple(map(_step, found.steps))
    remarks = ("median of n runs [95 % interval]; busy: in the last of them, seen from outside",)
    return Table("a program on so many names", STEPS, rows, remarks)


def _step(step: ScaleStep) -> tuple[str, ...]:
    failed = step.code is not None
    return (
        str(len(step.names)),
        f"failed, code {step.code}" if failed and step.time is None else estimate(step.time),
        estimate(step.speedup),
        scaling.shares(step),
        str(len(step.runs)),
    )


def records(report: Report, result: Scaled) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield the time and the speed-up on so many names."""
    for step in result.scaling.steps if result.scaling else ():
        figures = {"time": step.time, "speedup": step.speedup}
        cells = {"names": "+".join(step.names), "n": len(step.runs),
                 "status": "ok" if step.code is None else "failed"}  # fmt: skip
        yield Record("scale", None, cells, {key: each for key, each in figures.items() if each})


SPEC = ResultSpec(sections, Question(scaling.scale, "measured"), records)
