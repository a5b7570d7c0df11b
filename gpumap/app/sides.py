"""`gpumap compare --ab`: two commands in whole runs, A B B A.

A slow change of the machine favours neither side in this order. Each run of B is compared with each
run of A, and a verdict is what all four say. Control products have no part: what differs is the
side, and may be theirs too.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.app import comparison
from gpumap.app.remeasure import Run, measure, of_text, words_of
from gpumap.errors import QuestionError
from gpumap.judge.claims import check_patterns
from gpumap.judge.comparability import machines, surroundings
from gpumap.judge.compare import agreed, compare
from gpumap.judge.exit_status import concluded
from gpumap.judge.pairs import comparable
from gpumap.model import Compared, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.program import Program
    from gpumap.model import Report

SIDES = ("A", "B")


def compare_commands(program: Program, request: comparison.CompareRequest) -> None:
    """Run two commands that measure, and judge B against A."""
    from gpumap.app.recording import Draft, Recording

    assert request.ab is not None
    terms = request.terms
    settings: dict[str, Any] = {"inconclusive": request.inconclusive, "ab": list(request.ab)}
    with Recording(Draft("compare", Compared(), program, settings), request.output) as record:
        of_a, of_b = measured(commands(request.ab), program)
        a, b = of_a[0], of_b[0]
        settings |= {"base": SIDES[0], "new": SIDES[1], **asdict(terms)}
        comparison.show_machine(record.draft, b)
        comparison.refuse_unlike(a, simulated=b.simulated)
        check_patterns(comparable(a), terms.judge)
        judged = partial(compare, threshold=terms.threshold, judge=terms.judge)
        verdicts = agreed([judged(one, other) for one in of_a for other in of_b])
        wrong = comparison.problems_of(verdicts, terms)
        differ = (*machines(a, b, SIDES), *surroundings(a, b, SIDES))
        record.draft.remarks += comparison.differences(differ)
        record.judge = lambda report: concluded(report, verdicts, wrong, request.inconclusive)


def commands(texts: Sequence[str]) -> tuple[Run, Run]:
    """Return both commands of ``--ab``.

    Raises:
        QuestionError: one is none that measures, or they measure different things.
    """
    a, b = (of_text(name, text) for name, text in zip(SIDES, texts, strict=True))
    first, second = (" ".join(words_of(run.argv)) for run in (a, b))
    if first != second:
        what = f"A is `gpumap {first}` and B is `gpumap {second}`"
        raise QuestionError(what, "measure the same benchmark on both sides")
    return a, b


def measured(both: Sequence[Run], program: Program) -> tuple[list[Report], list[Report]]:
    """Run both commands twice, and return the reports of each, without their controls.

    Raises:
        GpumapError: a run ended without a report, or with one of which nothing can be concluded.
    """
    found: dict[str, list[Report]] = {run.name: [] for run in both}
    for run in (*both, *reversed(both)):
        report = measure(run, program)
        comparison.refuse_broken(report, run.name)
        rows = (row for row in report.measurements if not row.case.is_control)
        found[run.name].append(replace(report, measurements=tuple(rows)))
    a, b = (found[run.name] for run in both)
    return a, b
