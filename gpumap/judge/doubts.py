"""Select the row of a headline, and decide whether it failed or is conclusive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.inconclusive import out_of_time, too_few
from gpumap.judge.phrases import (
    About,
    answer,
    fix,
    interval,
    longer,
    names,
    percent,
    roughly,
    sentence,
    texts,
    value,
)
from gpumap.text import middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.model import Case, Estimate, Headline, Measurement, Report

_WIDE = 0.5  # of a figure: an interval that is wider shows nothing
_BUSY = "cpu-contention"
_CEILING = "over-ceiling"
_WRONG = ("wrong-data", _CEILING, "diverged")
_NO_CAUSE = (_BUSY, "unexplained")


def largest(rows: Sequence[Measurement], amount: Callable[[Case], int]) -> list[Measurement]:
    """Return the rows of the largest measured size.

    Args:
        rows: of one benchmark.
        amount: returns how much a case does.
    """
    done = [row for row in rows if row.status == "ok"]
    most = max((amount(row.case) for row in done or rows), default=0)
    return [row for row in rows if amount(row.case) == most]


def about(row: Measurement, metric: str) -> About:
    """Return what a headline on a row's metric is about."""
    return About(row.case.id, metric, row.metrics.get(metric), cause(row))


def cause(row: Measurement) -> str | None:
    """Return why a row is slow, where its cause and figures are certain."""
    why = row.explanation
    if why is None or why.cause in _NO_CAUSE:
        return None
    doubtful = any(f.low <= 0.0 < f.high for f in why.figures.values() if f.has_interval)
    return None if doubtful else why.cause


def because(row: Measurement) -> str:
    """Return the cause of a row as text, or that it is unknown."""
    why = cause(row)
    if why is None or row.explanation is None:
        return "cause not identified"
    figures = row.explanation.figures
    if why == "transfer-bound":
        part, whole = figures["fetch"].value, figures["time"].value
        share = percent(min(part / whole, 1.0)) if whole > 0.0 else "all"
        return f"fetching takes {share} of an iteration"
    if why == "unequal-devices":
        times = figures["slowest"].value / figures["fastest"].value
        return f"one device takes {times:.1f} times as long"
    return texts("causes").get(why, why)


def doubtful(report: Report, row: Measurement, metric: str) -> Headline | None:
    """Return that a row's metric is inconclusive, and the fix; None if it is conclusive."""
    figure, what = row.metrics.get(metric), f"{row.case.name} on {names(row.case.bindings)}"
    again = f"Repeat with {longer(report)}."
    if out_of_time(row):
        text = f"No conclusion: no time was left for {what}."
        return answer(report, "untrusted", (text, again), About(row.case.id))
    if row.status != "ok":
        why = row.reason.text if row.reason else row.status
        text = f"No conclusion: {what} was not measured: {sentence(why)}"
        return answer(report, "untrusted", (text,), About(row.case.id))
    shown = figure if figure is not None and not figure.impossible else row.time
    why_not, fixes = _uncertainty(report, row, figure)
    if shown is None:
        return answer(report, "untrusted", (f"No conclusion: {what} has no figure.", again))
    if not fixes:
        return None
    how = {"s": f"takes {roughly(shown)}", "1": f"is {roughly(shown)} times as fast"}
    does = how.get(shown.unit, f"reaches {roughly(shown)}")
    samples = len(row.samples.seconds) if row.samples else 0
    first = f"No conclusion: {what} {does} ({counted(samples, 'sample')})."
    again = f"epeat {' or '.join(fixes)}."
    more = f"{why_not}; r{again}" if why_not else f"R{again}"
    subject = About(row.case.id, metric if shown is figure else "time", shown)
    return answer(report, "untrusted", (first, more), subject)


def _uncertainty(
    report: Report, row: Measurement, figure: Estimate | None
) -> tuple[str, tuple[str, ...]]:
    """Return why a row is inconclusive, and the options that help."""
    longer_, idle = f"with {longer(report)}", "on an idle machine"
    small = too_few(row) or figure is None or not figure.has_interval
    efficiency = row.metrics.get("efficiency")  # of ideal: the figure itself may be possible
    for what, each in {"speed-up": figure, "efficiency": efficiency}.items():
        if each is not None and each.impossible:
            return f"Its {what} is above what these devices can give", (longer_, idle)
    if _CEILING in row.flags:
        return "It is faster than this hardware can be", (longer_, idle)
    sound = "undisturbed" in row.metrics and "cpu" not in row.flags  # CPU times are second best
    if not sound and (busy := _contention(report, row)) is not None:
        return busy, (longer_, idle) if small else (idle,)
    if figure is not None and figure.high - figure.low > _WIDE * abs(figure.value) and not small:
        return "The samples differ too much", (longer_, idle)
    return "", (longer_,) if small else ()


def _contention(report: Report, row: Measurement) -> str | None:
    """Return who else used the cores of a row."""
    from gpumap.judge.bottlenecks import contended

    finding = contended(row)
    if finding is not None:
        return finding[0].capitalize()
    if row.explanation is not None and row.explanation.cause == _BUSY:
        return row.explanation.text.capitalize()
    note = next((note for note in report.notes if note.code == _BUSY), None)
    return note.message.partition(":")[0].capitalize() if note else None


def single_device(report: Report, row: Measurement, form: str, metric: str) -> Headline:
    """Return the headline of one device; `form` has fields for its name and figure."""
    if (doubt := doubtful(report, row, metric)) is not None:
        return doubt
    figure = row.metrics[metric]
    peak = row.ceiling
    share = f", {percent(peak.share)} of its peak" if peak and peak.metric == metric else ""
    text = f"{form.format(middle(row.case.names[0]), value(figure))} ({interval(figure)}){share}."
    subject = About(row.case.id, metric, figure)
    return answer(report, "good", (text,), subject)


# --- what failed


def failed(report: Report) -> Headline | None:
    """Return which row failed: wrong data first, then that of the fewest names."""
    every = [row for row in report.measurements if row.status == "failed"]
    if not every:
        return None
    worst = min(every, key=_rank)
    case, reason = worst.case, worst.reason
    where = names(case.bindings, between=" to " if case.ordered else "+")
    count = len(every) - 1
    more = f"{counted(count, 'more row')} failed too." if count else ""
    wrong = [p.diagnostic for p in report.errors if reason and p.diagnostic.code == reason.code]
    hint = wrong[0].hint if wrong else None
    wrong_data = reason is not None and reason.code in _WRONG
    none = f"No figure is reported for {where}." if wrong_data else ""
    return answer(report, "failed", (_what(worst, where), none, fix(hint), more), About(case.id))


def _rank(item: Measurement) -> tuple[bool, bool, int]:
    code = item.reason.code if item.reason else ""
    return code not in _WRONG, not item.case.requested, len(item.case.names)


def _what(item: Measurement, where: str) -> str:
    case, reason = item.case, item.reason
    code, text = (reason.code, reason.text) if reason else ("failed", "failed")
    if code == "diverged":
        return f"Training diverged on {where}: {sentence(text)}"
    if code == "wrong-data":
        between = "from" if case.ordered else "on"
        what = "bytes" if item.check is not None and item.check.method == "bytes" else "result"
        return f"Wrong {what} {between} {where} ({case.name}): {sentence(text)}"
    return f"{where} failed ({case.name}): {sentence(text)}"


def unsupported(report: Report, rows: Sequence[Measurement]) -> Headline | None:
    """Return why no requested row could be measured; None where one could."""
    whys = [row.reason for row in rows if row.status == "skipped" and row.reason]
    if not whys or len(whys) < len(rows) or any(map(out_of_time, rows)):
        return None
    return answer(report, "failed", (f"Not measured: {sentence(whys[0].text)}",))
