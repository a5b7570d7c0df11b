"""Judge whether a program used the devices of a map, and how busy it kept them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.phrases import FEW, answer, capital, every, percent, sentence, texts, verb
from gpumap.judge.traces import HOST, summary
from gpumap.text import ended, middle
from gpumap.units import counted, memory, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

    from gpumap.model import Headline, Level, Report, Trace, Use, Utilisation, Watched

    Shares = Sequence[tuple[str, float]]  # of the time, by the device's name

_IDLE = 0.5  # of the time


def trace(report: Report, result: Watched) -> Headline:
    """Answer whether a program used its devices: as seen from outside, or by its contexts."""
    if result.utilisation is not None:
        return _watched(report, result.utilisation)
    if report.errors and report.exit_code != 0:
        follows = "What was recorded until then follows." if result.traces else ""
        done = "Not watched" if report.kind == "watch" else "Not traced"
        text = sentence(f"{done}: {report.errors[0].diagnostic.message}")
        return answer(report, "failed", (text, follows))
    return _traced(report, result.traces)


def _watched(report: Report, result: Utilisation) -> Headline:
    level, text = sentences(result)
    if result.code:
        first = f"The program {ended(result.code)} after {time_of(result.elapsed)}."
        return answer(report, "failed", (first, "What was recorded until then follows.", *text))
    return answer(report, level, text)


def _traced(report: Report, traces: Sequence[Trace]) -> Headline:
    summaries = [summary(one) for one in traces]
    busy = [each for one in summaries for each in one.busy if each.device != HOST]
    if not busy:
        return answer(report, "untrusted", ("Cannot tell what ran: no context was opened.",))
    if any(each.share is None and each.events for each in busy):
        count = sum(one.untimed for one in summaries)
        text = f"Cannot tell how busy devices were: {counted(count, 'event')} without times."
        return answer(report, "untrusted", (text,))
    shares = [("+".join(map(middle, each.names)), each.share or 0.0) for each in busy]
    unused = [name for name, share in shares if share == 0.0]
    if unused:
        return answer(report, "below", (f"{', '.join(unused[:FEW])} was not used.",))
    level, text = _used(shares, shares, max(one.span or 0.0 for one in summaries))
    moved = sum(one.moved for one in summaries)
    more = f"{memory(moved)} moved without being requested." if moved else ""
    return answer(report, level, (text, more))


def sentences(result: Utilisation) -> tuple[Level, tuple[str, ...]]:
    """Return whether the devices were used, and how well; a device that was not comes first."""
    unused, unknown, used = (of(verdict, result) for verdict in ("not-used", "unknown", "used"))
    shares = [(middle(use.name), use.busy) for use in used if use.busy is not None]
    if not (unused or unknown):
        level, text = _used(used, shares, result.elapsed)
        return level, (text,)
    rest = [f"{names(unused)} not used."] if unused else []
    rest += [_unclear(unknown)] if unknown else []
    rest += [f"Busy{_busy(shares, result.elapsed)}"] if shares else []
    return "below" if unused else "untrusted", tuple(rest)


def _used(devices: Sized, shares: Shares, span: float) -> tuple[Level, str]:
    """Return that all of some devices were used, and how well, as far as that is known."""
    text = f"{capital(every(len(devices), 'device'))} {verb(devices, 'was', 'were')} used"
    idle = shares and max(share for _, share in shares) < _IDLE
    return "below" if idle else "good", f"{text}{_busy(shares, span)}"


def _busy(shares: Shares, span: float) -> str:
    """Return ``: dev0 93 %, dev1 39 % of 2.0 s.``; the full stop alone, where none is known."""
    listed = ", ".join(f"{name} {percent(share)}" for name, share in shares[:FEW])
    return f": {listed} of {time_of(span)}." if listed else "."


def of(verdict: str, result: Utilisation) -> list[Use]:
    """Return the names with a verdict."""
    return [use for use in result.uses if use.verdict == verdict]


def names(uses: Sequence[Use]) -> str:
    """Return ``dev0 was``, ``dev0 and dev1 were``; of many only how many they are."""
    listed = " and ".join(middle(use.name) for use in uses)
    listed = listed if len(uses) <= FEW else f"{len(uses)} devices"
    return f"{listed} {verb(uses, 'was', 'were')}"


def _unclear(unknown: Sequence[Use]) -> str:
    why = f": {texts('unseen')[unknown[0].why]}" if unknown[0].why else ""
    return f"Cannot tell whether {names(unknown)} used{why}."
