"""What commands show of their results: a `ResultSpec` for each type of result.

A command adds a type to `gpumap.model.results` and a file here; every format shows it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gpumap.judge.headline import Question
    from gpumap.model import Headline, Report
    from gpumap.report.charts import Chart
    from gpumap.report.parts import Record, Section


def _none(report: Report, result: Any) -> Iterable[Any]:  # noqa: ARG001 - of any result
    return ()


class ResultSpec(NamedTuple):
    """What a type of result answers and shows; each function gets the report and its result.

    Attributes:
        sections: Yields what is shown, in order; with True all of it.
        question: What the headline answers.
        records: Yields what was measured and found, with its figures.
        charts: Yields what is drawn.
        in_sections: Codes of the notes and errors that the sections have too.
    """

    sections: Callable[[Report, Any, bool], Iterator[Section]]
    question: Question
    records: Callable[[Report, Any], Iterable[Record]] = _none
    charts: Callable[[Report, Any], Iterable[Chart]] = _none
    in_sections: tuple[str, ...] = ()


def spec_of(report: Report) -> ResultSpec:
    """Return what a report's type of result shows: `SPEC` of the file that is called as it."""
    name = type(report.result).__name__.lower()
    found: ResultSpec = import_module(f"gpumap.results.{name}").SPEC
    return found


def headline(report: Report) -> Headline:
    """Return the headline of a finished report."""
    from gpumap.judge import headline as headlines

    return headlines.headline(report, spec_of(report).question)
