"""Judge whether a program used the devices of a map, and how busy it kept them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.phrases import FEW, answer, capital, every, percent, texts, verb
from gpumap.text import ended, middle
from gpumap.units import time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Headline, Level, Report, Use, Utilisation

_IDLE = 0.5  # of the time


def sentences(result: Utilisation) -> tuple[Level, tuple[str, ...]]:
    """Return whether the devices were used, and how well; a device that was not comes first."""
    unused, unknown, used = (of(verdict, result) for verdict in ("not-used", "unknown", "used"))
    level: Level = "below" if unused else "untrusted" if unknown else "good"
    rest = [f"{names(unused)} not used."] if unused else []
    rest += [_unclear(unknown)] if unknown else []
    shares = [(middle(use.name), use.busy) for use in used if use.busy is not None]
    listed = ", ".join(f"{name} {percent(share)}" for name, share in shares[:FEW])
    busy = f": {listed} of {time_of(result.elapsed)}." if listed else "."
    if rest:
        return level, (*rest, *([f"Busy{busy}"] if listed else []))
    text = f"{capital(every(len(used), 'device'))} {verb(used, 'was', 'were')} used{busy}"
    if shares and max(share for _, share in shares) < _IDLE:
        level = "below"
    return level, (text,)


def utilisation(report: Report, result: Utilisation) -> Headline:
    """Return the headline of a program that was watched."""
    level, text = sentences(result)
    if result.code:
        first = f"The program {ended(result.code)} after {time_of(result.elapsed)}."
        return answer(report, "failed", (first, "What was recorded until then follows.", *text))
    return answer(report, level, text)


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
