"""Verdicts as tests: one for each limit, whatever rows it selects, and one for each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.parts import Outcome, Test
from gpumap.results.outcomes import SHOWN, of_problem, of_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.model import Problem, Report, Verdict
    from gpumap.report.parts import State

_WORST: tuple[State, ...] = ("passed", "skipped", "failed", "error")
_OF_LIMITS = ("limit", "missing", "inconclusive")  # codes of what is an error because of one


def judged(report: Report) -> tuple[list[Test], list[Test], list[Problem]]:
    """Return a test for each limit, one for each other verdict, and the errors of no limit."""
    limits: dict[str, list[tuple[Verdict, Outcome]]] = {}
    others = []
    for verdict, outcome in zip(report.verdicts, of_verdicts(report), strict=True):
        if verdict.rule == "limit":
            limits.setdefault(verdict.text, []).append((verdict, outcome))
        elif verdict.verdict != SHOWN:  # no test: nothing is judged
            others.append(_verdict(verdict, outcome))
    of_limit: dict[str, list[Problem]] = {text: [] for text in limits}
    errors: list[Problem] = []
    for problem in report.errors:
        of_limit.get(_limit_of(problem, limits), errors).append(problem)
    return [_limit(*pair, of_limit[pair[0]]) for pair in limits.items()], others, errors


def _limit_of(problem: Problem, limits: Mapping[str, Sequence[tuple[Verdict, Outcome]]]) -> str:
    """Return the limit that an error is because of, if that has not passed; "" for none."""
    found = problem.diagnostic
    if found.code not in _OF_LIMITS:
        return ""
    bad = (text for text, judged in limits.items() if _worst(judged).state != "passed")
    return next((text for text in bad if found.message.startswith(f"limit {text}: ")), "")


def _limit(
    text: str, judged: Sequence[tuple[Verdict, Outcome]], problems: Sequence[Problem]
) -> Test:
    """Return a limit on all rows that it selects: as good as the worst of them."""
    reasons = [of_problem(problem).text for problem in problems]
    hint = next((problem.diagnostic.hint for problem in problems), None)
    head = f"{text}: "
    rows = (f"{v.id or text}: {outcome.text.removeprefix(head)}" for v, outcome in judged)
    properties = tuple(("verdict", row) for row in rows)
    worst = _worst(judged)
    return Test(text, worst._replace(text="; ".join(reasons) or worst.text), 0.0, properties, hint)


def _worst(judged: Iterable[tuple[Verdict, Outcome]]) -> Outcome:
    return max((outcome for _, outcome in judged), key=lambda found: _WORST.index(found.state))


def _verdict(verdict: Verdict, outcome: Outcome) -> Test:
    """Return a verdict against a base, named after what was judged, and of which row."""
    row = verdict.id or ""
    name = verdict.text if row in verdict.text else f"{verdict.text} {row}"
    return Test(name, outcome, properties=(("verdict", outcome.text),))
