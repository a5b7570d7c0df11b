"""What reports answer without a benchmark: `compare`, `selftest`, `predict`, `trace`, `scale`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.judge.phrases import (
    About,
    amount,
    capital,
    every,
    fix,
    interval,
    judged,
    longer,
    percent,
    said,
    sentence,
    value,
)
from gpumap.judge.scaling import scale  # noqa: F401 - answers for a kind of report
from gpumap.judge.uses import utilisation
from gpumap.text import middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Alarms, Forecast, Headline, Level, Report, RoundTrip, Verdict

_ROW = 28  # characters of a row of a table
_FEW = 3  # that are written out
_SPLIT = 0.5  # of the ideal: what stays below is not worth the devices
_IDLE = 0.5  # of the time
_SAME = "Compare two reports of one command line."
_FEWEST = 5  # comparisons of a self-test

# --- compare


def compare(report: Report) -> Headline:
    """Answer whether a report is slower than its baseline; a regression stands before doubts."""
    verdicts = [verdict for verdict in report.verdicts if verdict.rule != "limit"]
    if report.settings.get("interleaved"):
        return _sides(report, verdicts)
    known = any(verdict.value is not None for verdict in verdicts)
    unlike = _of(verdicts, "missing") or _of(verdicts, "new") if report.exit_code else []
    if unlike or not known:
        return _incomparable(report, unlike)
    if slower := _of(verdicts, "regression"):
        return _slower(report, slower, len(_of(verdicts, "inconclusive")))
    if unclear := _of(verdicts, "inconclusive"):
        count = f"{len(unclear)} of {counted(len(verdicts), 'metric')}"
        need = f"{'needs' if len(unclear) == 1 else 'need'} more samples to exclude"
        text = f"Inconclusive: {count} {need} a {_threshold(verdicts)} slowdown."
        again = f"Repeat NEW with {longer(report)}."
        return said(report, "untrusted", (text, again), _about(unclear[0]))
    if _of(verdicts, "skipped"):
        text = "No verdict: the baseline is of another machine (--other-machine)."
        return said(report, "untrusted", (text,))
    return _not_slower(report, [verdict for verdict in verdicts if verdict.value is not None])


def _sides(report: Report, verdicts: Sequence[Verdict]) -> Headline:
    """Answer which of two interleaved commands is slower, and by how much."""
    known = [verdict for verdict in verdicts if verdict.value is not None]
    if not known or (report.exit_code and len(known) < len(verdicts)):
        return _incomparable(report, _of(verdicts, "missing") or _of(verdicts, "new"))
    if slower := sorted(_of(known, "regression"), key=_ratio, reverse=True):
        return said(report, "below", _differs(slower, "slower"), _about(slower[0]))
    unclear = _of(known, "inconclusive")
    worst = max(unclear or known, key=_ratio)
    about = f"{_named(worst)}, {_by_interval(worst)}"
    if unclear:
        text = f"Inconclusive: {len(unclear)} of {counted(len(known), 'metric')} cannot exclude "
        text += f"that B is {_threshold(known)} slower than A ({about})."
        return said(report, "untrusted", (text, "Repeat with a larger --budget."), _about(worst))
    if faster := sorted(_of(known, "improvement"), key=_ratio):
        return said(report, "good", _differs(faster, "faster"), _about(faster[0]))
    text = f"B is not slower than A by {_threshold(known)} (worst: {about})."
    return said(report, "good", (text,), _about(worst))


def _differs(found: Sequence[Verdict], how: str) -> tuple[str, ...]:
    """Return by how much B differs from A in the first of some metrics, and how many there are."""
    by, more = percent(abs((found[0].value or 1.0) - 1.0)), len(found) - 1
    first = f"B is {by} {how} than A ({_by_interval(found[0])}): {_named(found[0])}."
    return (first, f"{counted(more, 'other metric')} too.") if more else (first,)


def _by_interval(verdict: Verdict) -> str:
    """Return the interval of that share: ``CI 10 % to 14 %``, signed where it has both signs."""
    ends = [(end or 1.0) - 1.0 for end in (verdict.low, verdict.high)]
    both = min(ends) < 0.0 < max(ends)
    low, high = sorted(ends if both else map(abs, ends))
    sign = "+" if both else ""
    return f"CI {low * 100:{sign}.2g} % to {high * 100:{sign}.2g} %"


def _of(verdicts: Sequence[Verdict], word: str) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.verdict == word]


def _not_slower(report: Report, verdicts: Sequence[Verdict]) -> Headline:
    if faster := _of(verdicts, "improvement"):
        best = min(faster, key=_ratio)
        text = f"Faster: {_named(best)} is {_shown(best)}."
        more = f"Nothing is slower by {_threshold(verdicts)}."
        return said(report, "good", (text, more), _about(best))
    worst, count = max(verdicts, key=_ratio), len(verdicts)
    within = f"{'is' if count == 1 else 'are'} within {_threshold(verdicts)} of the baseline"
    some = "1 metric" if count == 1 else f"{count} of {count} metrics"
    text = f"Not slower: {some} {within} (worst: {_worst(worst)})."
    return said(report, "good", (text,), _about(worst))


def _worst(verdict: Verdict) -> str:
    figure = judged(verdict)
    shown = f"{value(figure)} times, {interval(figure)}" if figure else "not known"
    return f"{_named(verdict)}, {shown}"


def _shown(verdict: Verdict) -> str:
    figure = judged(verdict)
    if figure is None:
        return "not known"
    return f"{value(figure)} times the baseline ({interval(figure)})"


def _ratio(verdict: Verdict) -> float:
    """Return new over base, so that more is slower."""
    ratio = verdict.value or 1.0
    return 1.0 / ratio if verdict.metric == "speedup" else ratio


def _named(verdict: Verdict) -> str:
    return f"{(verdict.id or '').partition('[')[0]}.{verdict.metric}"


def _about(verdict: Verdict) -> About:
    return About(verdict.id, verdict.metric, judged(verdict))


def _threshold(verdicts: Sequence[Verdict]) -> str:
    return f"{next((v.threshold for v in verdicts if v.threshold), 0.05) * 100:g} %"


def _incomparable(report: Report, unlike: Sequence[Verdict]) -> Headline:
    wrong = [p.diagnostic for p in report.errors if p.exit != 0]
    if not unlike and wrong and wrong[0].code != "nothing-judged":
        text = sentence(f"Not compared: {wrong[0].message}")
        return said(report, "failed", (text, *fix(wrong[0].hint)))
    what = "no metric was measured in both reports"
    if unlike:
        rows = len({verdict.id for verdict in unlike})
        are = f"{counted(rows, 'row')} {'is' if rows == 1 else 'are'}"
        lost = unlike[0].verdict == "missing"
        what = f"{are} in the baseline and not in NEW" if lost else f"{are} not in the baseline"
    return said(report, "failed", (f"Not comparable: {what}.", _SAME))


def _slower(report: Report, slower: Sequence[Verdict], unclear: int) -> Headline:
    worst = max(slower, key=_ratio)
    count = len(slower) - 1
    others = (f"{counted(count, 'other metric')} {'is' if count == 1 else 'are'} slower.",) * (
        count > 0
    )
    others += (f"{unclear} inconclusive.",) * (unclear > 0)
    others += ("It is the new baseline.",) * any(n.code == "accepted" for n in report.notes)
    if worst.reason == "device-slower":
        return said(report, "below", (_device(worst), *others), _about(worst))
    limit = (worst.threshold or 0.0) * (-1 if worst.metric == "speedup" else 1)
    text = f"Slower: {_named(worst)} is {_shown(worst).removesuffix(')')}; limit {1 + limit:g})."
    why = "Its control product is not slower, so the code is."
    return said(
        report,
        "below",
        (text, *((why,) if worst.reason == "work-slower" else ()), *others),
        _about(worst),
    )


def _device(verdict: Verdict) -> str:
    """Return that the device became slower, and what is known of the work on it."""
    shown, relative = f"{_named(verdict)} is {_shown(verdict)}", verdict.relative
    if relative is None or relative.high >= 1.0 + (verdict.threshold or 0.0):
        return f"The device became slower: {shown}; so is its control product."
    change = f"{value(relative)} times relative to its control product"
    return f"The device became slower, not the work: {shown}, {change}."


# --- selftest


def selftest(report: Report) -> Headline:
    """Answer whether this machine measures truthfully."""
    found = report.selftest
    trips = found.round_trips if found else ()
    if (bad := next((trip for trip in trips if trip.reason is not None), None)) is not None:
        return _not_kept(report, bad)
    alarms = found.alarms if found else ()
    if not alarms:
        text = f"No conclusion: no comparison was made. Repeat with {longer(report)}."
        return said(report, "untrusted", (text,))
    false, runs = sum(each.false for each in alarms), sum(each.runs for each in alarms)
    unclear, limit = sum(each.inconclusive for each in alarms), f"{alarms[0].threshold * 100:g} %"
    subject = About(max(alarms, key=lambda each: each.false + each.inconclusive).id)
    quiet = "Use a larger --threshold, or a quieter machine."
    if min(each.runs for each in alarms) < _FEWEST:
        text = f"No conclusion: {counted(runs, 'comparison')} in this time; more are needed."
        return said(report, "untrusted", (text, f"Repeat with {longer(report)}."), subject)
    if false or unclear:
        what = f"{false} false alarms" if false else f"noise hides them in {unclear}"
        text = f"Differences of {limit} cannot be told apart from noise here: {what}"
        return said(report, "below", (f"{text} of {counted(runs, 'comparison')}.", quiet), subject)
    none = f"gave 0 false alarms in {runs} at {limit}, and every round trip is right."
    text = f"This machine measures truthfully: comparing {_compared(alarms)} with itself {none}"
    return said(report, "good", (text,), subject)


def _compared(alarms: Sequence[Alarms]) -> str:
    return middle(alarms[0].name) if len(alarms) == 1 else "each device"


def _not_kept(report: Report, trip: RoundTrip) -> Headline:
    whose = middle(trip.name) if trip.name is not None else str(trip.device.ref)
    why = trip.reason.text if trip.reason else ""
    return said(report, "failed", (f"Round trip of 4 KiB failed on {whose}: {sentence(why)}",))


# --- predict


def predict(report: Report) -> Headline:
    """Answer what more devices would give, or what a published table says of them."""
    if report.published is not None:
        return _published(report)
    found = report.prediction
    gains = [f for f in found.forecasts if "speedup" in f.metrics] if found else []
    if found is None or not gains:
        return _exchange(report)
    most = max(forecast.devices for forecast in gains)
    best = max(
        (forecast for forecast in gains if forecast.devices == most),
        key=lambda forecast: forecast.metrics["speedup"].value,
    )
    gain, share = best.metrics["speedup"], _exchanging(best)
    text = f"{counted(most, 'device')} should train {value(gain)} times as fast as one"
    if gain.low < gain.high and gain.has_interval:
        text += f" ({units.together((gain.value, gain.low, gain.high), '1')[1]} to "
        text += f"{units.together((gain.value, gain.low, gain.high), '1')[2]})"
    subject = About(metric="speedup", figure=gain)
    computed = "Computed, not measured."
    if gain.value >= _SPLIT * most:
        return said(report, "good", (f"{text} with {best.algorithm}.", computed), subject)
    why = (
        f"exchanging {amount(found.nbytes)} takes {percent(share)} of a step"
        if share
        else "cause not identified"
    )
    return said(report, "below", (f"{text} with {best.algorithm}: {why}.", computed), subject)


def _exchanging(forecast: Forecast) -> float:
    comm, time = forecast.metrics.get("comm"), forecast.metrics.get("time")
    return comm.value / time.value if comm and time and time.value > 0.0 else 0.0


def _exchange(report: Report) -> Headline:
    """Return what an exchange takes, where no compute time is known."""
    found = report.prediction
    found_ = [f for f in found.forecasts if "comm" in f.metrics] if found else []
    if found is None or not found_:
        return said(report, "untrusted", ("No prediction: there is no link model that fits.",))
    most = max(forecast.devices for forecast in found_)
    best = min(
        (f for f in found_ if f.devices == most),
        key=lambda forecast: forecast.metrics["comm"].value,
    )
    comm = best.metrics["comm"]
    text = f"Exchanging {amount(found.nbytes)} between {most} devices should take {value(comm)}"
    more = "--compute gives the time of a step, and so a speed-up."
    return said(
        report, "good", (f"{text} with {best.algorithm}.", more), About(metric="comm", figure=comm)
    )


def _published(report: Report) -> Headline:
    cells = (
        [c for c in report.published.cells if "speedup" in c.metrics] if report.published else []
    )
    if not cells:
        return said(report, "untrusted", ("No conclusion: the table has no row of one device.",))
    best = max(cells, key=lambda cell: (cell.devices, cell.metrics["speedup"].value))
    gain = best.metrics["speedup"]
    text = (
        f"{middle(best.row, _ROW)} on {counted(best.devices, 'device')} trained {value(gain)} times"
    )
    level: Level = "good" if gain.value >= _SPLIT * best.devices else "below"
    return said(
        report,
        level,
        (f"{text} as fast as on one (as published).",),
        About(metric="speedup", figure=gain),
    )


# --- trace


def trace(report: Report) -> Headline:
    """Answer whether a program used its devices."""
    from gpumap.judge.traces import HOST, summary

    if report.utilisation is not None:
        return utilisation(report, report.utilisation)
    if report.errors and report.exit_code != 0:
        follows = "What was recorded until then follows." if report.traces else ""
        text = sentence(capital(report.errors[0].diagnostic.message))
        return said(report, "failed", (text, *((follows,) if follows else ())))
    found = [summary(one) for one in report.traces]
    busy = [each for one in found for each in one.busy if each.device != HOST]
    if not busy:
        return said(report, "untrusted", ("Cannot tell what ran: no context was opened.",))
    if any(each.share is None and each.events for each in busy):
        count = sum(one.untimed for one in found)
        text = f"Cannot tell how busy devices were: {counted(count, 'event')} without times."
        return said(report, "untrusted", (text,))
    shares = [("+".join(map(middle, each.names)), each.share or 0.0) for each in busy]
    unused = [name for name, share in shares if share == 0.0]
    if unused:
        return said(report, "below", (f"{', '.join(unused[:_FEW])} was not used.",))
    listed = ", ".join(f"{name} {percent(share)}" for name, share in shares[:_FEW])
    span = max(one.span or 0.0 for one in found)
    text = f"{capital(every(len(shares), 'device'))} {'was' if len(shares) == 1 else 'were'} used: "
    text += f"{listed} of {units.together((span,), 's')[0]}."
    moved = sum(one.moved.nbytes for one in found)
    more = f"{units.memory(moved)} moved without being asked for." if moved else ""
    level: Level = "good" if max(share for _, share in shares) >= _IDLE else "below"
    return said(report, level, (text, *((more,) if more else ())))
