"""What `selftest` measured, as every format shows it: rows and false alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.table import Table
from gpumap.results import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Alarms, Report, Tested
    from gpumap.report.parts import Section


def sections(report: Report, result: Tested, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield what was measured, and the false alarms."""
    after = (_alarms(result.alarms),) if result.alarms else ()
    yield from measured.sections(report, result, verbose, after=after)


def _alarms(every: Sequence[Alarms]) -> Table:
    rows = tuple(
        (
            alarms.name,
            f"{alarms.runs} of {alarms.run_blocks} blocks",
            *map(str, (alarms.false, alarms.inconclusive, alarms.passed)),
        )
        for alarms in every
    )
    title = f"false alarms at {every[0].threshold:.0%}"
    return Table(title, ("on", "runs", "false", "inconclusive", "passed"), rows, ())


SPEC = measured.SPEC._replace(sections=sections, question=Question(answers.selftest, "tested"))
