"""What `check` found, as every format shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Outcome, Record, Section
from gpumap.results import ResultSpec, mapped
from gpumap.results.around import aside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Checked, Report


def sections(report: Report, result: Checked, verbose: bool) -> Iterator[Section]:  # noqa: ARG001, FBT001
    """Yield what is true of each name of a map."""
    if report.status in ("ok", "no"):
        yield from mapped.sections(report.bindings)
    yield from aside(report)


def records(report: Report, result: Checked) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield each name of a map that is true."""
    passed = Outcome("passed", "ok")
    for binding in report.bindings if report.exit_code in (0, 1) else ():
        device = binding.device
        cells = {"names": binding.name, "devices": device.id, "backend": device.backend}
        line = mapped.mapped_line(binding)
        yield Record("name", None, {**cells, "status": "ok"}, outcome=passed, name=line)


SPEC = ResultSpec(
    sections, Question(answers.check, "checked", lambda report, _: report.map is not None), records
)
