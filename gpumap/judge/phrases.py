"""Sentences of a headline: short names, figures with their intervals, and room for 200 characters.

Names are the user's: they are printable and short before they come into a sentence. CI is the
confidence interval of the run.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.files import shipped
from gpumap.model import Estimate, Headline
from gpumap.model.maps import UNITS
from gpumap.text import cut, middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from gpumap.model import Binding, Level, Report, Verdict

LIMIT = 200  # characters of a headline
SIMULATED = "Simulated: "
ENDS = {  # the prefix of the error of an incomplete run
    "timeout": "Stopped by the time limit: ",
    "interrupted": "Stopped: ",
    "internal": "gpumap itself failed: ",
}
FEW = 3  # names that are written out
_TWO = 2
_PRECISE = 0.1  # a share below it has three digits at most
_TIMES_LONGER = 3
_DEFAULT = 12  # seconds of budget, that of the quickest benchmark: less seldom answers


@cache
def texts(of: str) -> Mapping[str, str]:
    """Return texts by code: what `texts.toml` has of `limits`, `failures` and others."""
    return shipped("gpumap.judge", "texts.toml")[of]  # type: ignore[no-any-return]


class About(NamedTuple):
    """What a headline is about: a row's metric and its figure, and the cause of it."""

    row: str | None = None
    metric: str | None = None
    figure: Estimate | None = None
    cause: str | None = None


def answer(
    report: Report, level: Level, sentences: Iterable[str], about: About | None = None
) -> Headline:
    """Compose a headline of the sentences that fit; an untrusted one has no interval, no cause.

    An empty sentence is none.
    """
    before = SIMULATED if report.simulated else ""
    room = LIMIT - len(before)
    text = ""
    for sentence in filter(None, sentences):
        if not text:
            text = cut(sentence, room)
        elif len(text) + 1 + len(sentence) <= room:
            text = f"{text} {sentence}"
    about = about or About()
    figure = about.figure
    known = figure is not None and level != "untrusted" and figure.has_interval
    return Headline(
        level,
        f"{before}{text}",
        about.row,
        about.metric,
        _finite(figure.value) if figure else None,
        _finite(figure.low) if known and figure else None,
        _finite(figure.high) if known and figure else None,
        None if level == "untrusted" else about.cause,
    )


def sentence(text: str) -> str:
    """Return a message as a sentence: with a full stop."""
    stripped = text.strip()
    return stripped if stripped.endswith((".", "!", "?")) else f"{stripped}."


def every(count: int, noun: str = "name") -> str:
    """Return all of some things: ``the name``, ``both names``, ``all 8 names``."""
    if count == _TWO:
        return f"both {noun}s"
    return f"the {noun}" if count == 1 else f"all {count} {noun}s"


def fix(hint: str | None) -> str:
    """Return how to fix something as a sentence, if that is known; a command stays as it is."""
    if not hint:
        return ""
    return f"Try: {hint}" if hint.startswith(("gpumap ", "-")) else sentence(capital(hint))


def percent(share: float) -> str:
    """Return a share: ``90 %``."""
    return f"{share * 100:.3g} %" if share < _PRECISE else f"{share * 100:.0f} %"


def capital(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


def names(bindings: Sequence[Binding], *, between: str = "+") -> str:
    """Return the names of devices, or how many they are."""
    if len(bindings) <= FEW:
        return between.join(middle(binding.name) for binding in bindings)
    distinct = len({binding.device.id for binding in bindings}) == len(bindings)
    return f"{len(bindings)} {'devices' if distinct else 'names'}"


def verb(subjects: Sized, one: str, several: str) -> str:
    """Return the form of a verb that goes with so many subjects."""
    return one if len(subjects) == 1 else several


def value(figure: Estimate) -> str:
    """Return a figure without its interval."""
    return units.single(figure.value, figure.unit)


def interval(figure: Estimate) -> str:
    """Return the text after a figure: ``CI 1.94 to 1.97``."""
    _, low, high = units.same_prefix((figure.value, figure.low, figure.high), figure.unit)
    return f"CI {low} to {high}"


def verdict_figure(verdict: Verdict) -> Estimate | None:
    """Return the figure of a verdict: of a limit its metric, of a comparison new over base."""
    if verdict.value is None:
        return None
    unit = UNITS[verdict.metric] if verdict.rule == "limit" else "1"
    if verdict.low is None or verdict.high is None:
        return Estimate.without_interval(verdict.value, unit)
    return Estimate(verdict.value, verdict.low, verdict.high, unit)


def roughly(figure: Estimate) -> str:
    """Return an inconclusive figure: ``about 1.4``."""
    return units.about(figure.value, figure.unit).replace("~", "about ")


def longer(report: Report) -> str:
    """Return the option that measures for longer than a run had."""
    had = report.settings.get("budget_s")
    if not isinstance(had, int | float):
        return "a larger --budget"
    return f"--budget {max(math.ceil(_TIMES_LONGER * had), _DEFAULT)}s"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
