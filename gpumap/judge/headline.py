"""The headline of a report: the answer to its command's question, computed once, at the end.

The worst level wins: failed, untrusted, below, good; but a gate that is decided is the headline
whatever else is inconclusive. What ended the run or failed in it comes first, then requested limits
and a comparison, then what the command itself answers, which whoever asks says: by its type of
result, or by its benchmark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.judge.phrases import (
    ENDS,
    LIMIT,
    SIMULATED,
    About,
    answer,
    fix,
    interval,
    longer,
    roughly,
    sentence,
    value,
    verb,
    verdict_figure,
)
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import Estimate, Headline, Level, Measurement, Report, Verdict

    AnswerOf = Callable[[str], Callable[[Report, Sequence[Measurement]], Headline] | None]

LEVELS = ("good", "below", "untrusted", "failed")  # the worst one last
_LIMIT = "limit"
MEASURED = "measured"  # what a benchmark is
_ANSWERS = (0, 1, 5)  # exit codes of a command that has an answer
_SAME = "Compare two reports of one command line."
_FOLLOWS = "What was measured until then follows."


class Question(NamedTuple):
    """What a command is asked.

    Attributes:
        answer: Returns the headline of a report and its result; None: its errors are the answer.
        done: What is done to the answer: ``checked``.
        answered: Returns whether a result answers whatever the exit code is.
    """

    answer: Callable[[Report, Any], Headline | None]
    done: str
    answered: Callable[[Report, Any], bool] = lambda _, __: False


def headline(report: Report, question: Question) -> Headline:
    """Return the headline of a finished report: the answer to what its command is asked."""
    from gpumap.judge.doubts import failed

    wrong = any(problem.diagnostic.entry for problem in report.errors)  # in the map
    answers = report.exit_code in _ANSWERS or wrong or question.answered(report, report.result)
    best = _not_measured(report)
    if best is None and answers:
        best = question.answer(report, report.result)
    best = best or failed(report) or _first_error(report, question.done)
    if best.level == "good" and report.exit_code != 0:
        return _first_error(report, question.done)
    return best


def _not_measured(report: Report) -> Headline | None:
    """Return the headline of a dry run or a skipped one; None of any other."""
    if report.plans:
        rows = sum(len(plan.cases) for plan in report.plans)
        text = f"Nothing was measured (--dry-run): {counted(rows, 'row')} would be."
        return answer(report, "untrusted", (text,))
    if report.status == "skipped":
        why = report.errors[0].diagnostic.message if report.errors else "nothing was measured"
        return answer(report, "untrusted", (f"Skipped (--if-absent=skip): {sentence(why)}",))
    return None


def measured(report: Report, of_bench: AnswerOf) -> Headline:
    """Return what limits, a comparison or the benchmark itself answer: of the worst level.

    Args:
        report: of rows.
        of_bench: returns the answer of a benchmark, by its name, or None where nothing does.
    """
    from gpumap.judge.doubts import failed, unsupported

    every = [row for row in report.measurements if not row.case.is_control]
    rows = [row for row in every if row.case.requested] or every
    own_answer = of_bench(rows[0].case.bench) if rows else None
    if (wrong := failed(report)) is not None:
        return wrong
    if own_answer is None or report.exit_code not in _ANSWERS:
        return _first_error(report, MEASURED)
    gates = list(_gates(report))
    open_ = [gate for gate in gates if gate.level != "good"]
    missed = [gate for gate in open_ if gate.level == "below"]
    if report.status == "no" and missed:  # whatever else is inconclusive
        return missed[0]
    own = unsupported(report, rows) or own_answer(report, rows)
    if gates and not open_ and not report.exit_code and own.level != "failed":
        return _followed(gates[-1], own)  # what a gate could decide is decided
    return max((*open_, own), key=lambda each: LEVELS.index(each.level))  # of several the first


def _followed(passed: Headline, own: Headline) -> Headline:
    """Return the headline of a gate that passes, with the benchmark's answer where it fits."""
    text = f"{passed.text} {own.text.removeprefix(SIMULATED)}"
    fits = own.level != "untrusted" and len(text) <= LIMIT
    return passed._replace(text=text) if fits else passed


def _gates(report: Report) -> Iterator[Headline]:
    """Yield the headlines of limits and of a comparison, where there are any."""
    limits = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    if limits:
        yield _limits(report, limits)
    if len(limits) < len(report.verdicts):
        yield compare(report)


def _by_cpu(report: Report, verdict: Verdict) -> str:
    """Return that a figure is of CPU times, where it is, and what the clock says of it."""
    row = next((row for row in report.measurements if row.case.id == verdict.id), None)
    if row is None or "cpu" not in row.flags:
        return ""
    observed = row.metrics.get(f"{verdict.metric}_observed")
    clock = f", {value(observed)} by the clock" if observed else ""
    return f" by CPU times{clock}: others had the cores"


def _first_error(report: Report, done: str) -> Headline:
    """Return the first error that decided the exit code, and the fix: not `done`."""
    errors = [p.diagnostic for p in report.errors if p.exit == report.exit_code]
    if not errors:
        return answer(report, "failed", (f"Ended with exit code {report.exit_code}.",))
    first, more = errors[0], len(errors) - 1
    before = ENDS.get(report.status) or f"Not {done}: "
    text = sentence(f"{before}{first.message}")
    some = any(row.status == "ok" for row in report.measurements)
    count = f"{counted(more, 'more error')}." if more else ""
    return answer(report, "failed", (text, _FOLLOWS if some else "", fix(first.hint), count))


# --- limits


def _limits(report: Report, every: Sequence[Verdict]) -> Headline:
    """Return the headline of the first limit that is missed, or inconclusive; or of all."""
    missed = [verdict for verdict in every if verdict.verdict in ("fail", "missing")]
    chosen = (missed or _of(every, "inconclusive") or every)[0]
    figure, several = verdict_figure(chosen), len(every) > 1
    subject = About(chosen.id, chosen.metric, figure)
    if chosen.verdict == "inconclusive":
        rough = f": {roughly(figure)}" if figure else ""
        text = f"No conclusion on {chosen.text}{rough}. Repeat with {longer(report)}."
        return answer(report, "untrusted", (text,), subject)
    some = f"All {len(every)} limits met, the first: " if several else "Limit met: "
    if missed:
        count = f"{len(missed)} of {counted(len(every), 'limit')} missed, the first: "
        some = count if several else "Limit missed: "
    if figure is None:
        return answer(report, "below", (f"{some}{chosen.text}, which was not measured.",), subject)
    shown = f"it is {value(figure)} ({interval(figure)}){_by_cpu(report, chosen)}"
    level: Level = "below" if missed else "good"
    return answer(report, level, (f"{some}{chosen.text}; {shown}.",), subject)


# --- compare


def compare(report: Report) -> Headline:
    """Answer whether a report is slower than its baseline; a regression comes first."""
    every = [verdict for verdict in report.verdicts if verdict.rule != _LIMIT]
    verdicts = [verdict for verdict in every if verdict.verdict != "shown"]
    known = any(verdict.value is not None for verdict in verdicts)
    unlike = _of(verdicts, "missing") or _of(verdicts, "new") if report.exit_code else []
    unclear = _of(verdicts, "inconclusive")
    if unlike or not (known or unclear):
        return _incomparable(report, unlike)
    if slower := _of(verdicts, "regression"):
        return _slower(report, slower, len(unclear))
    if unclear:
        which = "Repeat both" if report.kind == "compare" else "Repeat"
        if any(verdict.reason == "cpu-contention" for verdict in unclear):
            text = "Inconclusive: others had the cores, and what looks slower took no more CPU."
            again = f"{which} on an idle machine."
            return answer(report, "untrusted", (text, again), _about(unclear[0]))
        count = f"{len(unclear)} of {counted(len(verdicts), 'metric')}"
        need = f"{verb(unclear, 'needs', 'need')} more samples to exclude"
        text = f"Inconclusive: {count} {need} a {_threshold(verdicts)} slowdown."
        again = f"{which} with {longer(report)}."
        return answer(report, "untrusted", (text, again), _about(unclear[0]))
    return _not_slower(report, [verdict for verdict in verdicts if verdict.value is not None])


def _of(verdicts: Sequence[Verdict], word: str) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.verdict == word]


def _not_slower(report: Report, verdicts: Sequence[Verdict]) -> Headline:
    if faster := _of(verdicts, "improvement"):
        best = min(faster, key=_ratio)
        text = f"Faster: {_metric(best)} is {_shown(best)}."
        more = f"No judged metric is slower by {_threshold(verdicts)}."
        return answer(report, "good", (text, more), _about(best))
    worst, count = max(verdicts, key=_ratio), len(verdicts)
    none = "the judged metric is not" if count == 1 else f"none of {count} judged metrics is"
    text = f"Not slower: {none} slower by {_threshold(verdicts)} (worst: {_worst(worst)})."
    return answer(report, "good", (text,), _about(worst))


def _worst(verdict: Verdict) -> str:
    figure = _decisive(verdict)
    shown = f"{value(figure)} times, {interval(figure)}" if figure else "not known"
    return f"{_metric(verdict)}, {shown}{_relation(verdict)}"


def _decisive(verdict: Verdict) -> Estimate | None:
    """Return the metric that a verdict rests on: new over base, or that over the control's."""
    return verdict.relative if verdict.reason == "device-unclear" else verdict_figure(verdict)


def _relation(verdict: Verdict) -> str:
    by = {"device-unclear": "its control product", "cpu-times": "its controls or by CPU times"}
    return f", relative to {by[verdict.reason]}" if verdict.reason in by else ""


def _shown(verdict: Verdict) -> str:
    figure = verdict_figure(verdict)
    if figure is None:
        return "not known"
    return f"{value(figure)} times the baseline ({interval(figure)})"


def _ratio(verdict: Verdict) -> float:
    """Return new over base, so that more is slower."""
    figure = _decisive(verdict)
    ratio = (figure.value if figure else None) or 1.0
    return 1.0 / ratio if verdict.metric == "speedup" else ratio


def _metric(verdict: Verdict) -> str:
    return f"{(verdict.id or '').partition('[')[0]}.{verdict.metric}"


def _about(verdict: Verdict) -> About:
    return About(verdict.id, verdict.metric, _decisive(verdict))


def _threshold(verdicts: Sequence[Verdict]) -> str:
    return f"{next((v.threshold for v in verdicts if v.threshold), 0.05) * 100:g} %"


def _incomparable(report: Report, unlike: Sequence[Verdict]) -> Headline:
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    if not unlike and wrong and wrong[0].code != "nothing-judged":
        text = sentence(f"Not compared: {wrong[0].message}")
        return answer(report, "failed", (text, fix(wrong[0].hint)))
    what = "no metric was measured in both reports"
    if unlike:
        rows = {verdict.id for verdict in unlike}
        are = f"{counted(len(rows), 'row')} {verb(rows, 'is', 'are')}"
        lost = unlike[0].verdict == "missing"
        what = f"{are} in the baseline and not in NEW" if lost else f"{are} not in the baseline"
    return answer(report, "failed", (f"Not comparable: {what}.", _SAME))


def _slower(report: Report, slower: Sequence[Verdict], unclear: int) -> Headline:
    worst = max(slower, key=_ratio)
    count = len(slower) - 1
    be = "is" if count == 1 else "are"
    others = f"{counted(count, 'other metric')} {be} slower." if count else ""
    open_ = f"{unclear} inconclusive." if unclear else ""
    if worst.reason == "device-slower":
        text = f"The device, or what drives it, became slower: {_metric(worst)} is {_shown(worst)}"
        device = f"{text}; so is its control product."
        return answer(report, "below", (device, others, open_), _about(worst))
    limit = (worst.threshold or 0.0) * (-1 if worst.metric == "speedup" else 1)
    text = f"Slower: {_metric(worst)} is {_shown(worst).removesuffix(')')}; limit {1 + limit:g})."
    code = worst.reason == "work-slower"
    why = "Its control product is not slower, so the code is." if code else ""
    return answer(report, "below", (text, why, others, open_), _about(worst))
