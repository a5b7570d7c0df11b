"""What `compare` found, as every format shows it: its verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.headline import Question, compare
from gpumap.results import ResultSpec
from gpumap.results.around import around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Compared, Report
    from gpumap.report.parts import Section


def sections(report: Report, result: Compared, verbose: bool) -> Iterator[Section]:  # noqa: ARG001, FBT001
    """Yield the verdicts, where there are any."""
    if report.verdicts:
        yield from around(report, (), verbose=verbose)


SPEC = ResultSpec(sections, Question(lambda report, _: compare(report), "compared"))
