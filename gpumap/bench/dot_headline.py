"""Headline of `bench dot`: how many times as fast several devices are as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge.ceilings import ENOUGH
from gpumap.judge.doubts import (
    about,
    alone,
    because,
    doubtful,
    largest,
    thin_others,
    unsupported,
)
from gpumap.judge.phrases import interval, names, said, value
from gpumap.model import Estimate, replace
from gpumap.text import middle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Headline, Measurement, Report

_SEVERAL = ("many", "many+fetch", "many+fetch+threads")
_SHARED = "shared-hardware"  # the ideal is that of one device
_MORE = 1.01  # times as fast: a better split is worth a word


def headline(report: Report, rows: Sequence[Measurement]) -> Headline:
    """Return what several devices gain, by `many` at the largest size; or what one device does."""
    if (nothing := unsupported(report, rows)) is not None:
        return nothing
    rows, end = largest(rows)
    several = [row for name in _SEVERAL for row in rows if row.case.name == name]
    many = next((row for row in several if not _one_device(row)), None)
    if many is None:
        return _single(report, rows, end)
    if (doubt := doubtful(report, many, "speedup", end)) is not None:
        return doubt
    return _gain(report, rows, many, end)


def _one_device(row: Measurement) -> bool:
    return row.reason is not None and row.reason.code == "one-device"


def _gain(report: Report, rows: Sequence[Measurement], many: Measurement, end: str) -> Headline:
    gain, subject = many.metrics["speedup"], about(many, "speedup")
    ideal = many.metrics["ideal"].value if "ideal" in many.metrics else len(many.case.bindings)
    one = next((row for row in rows if row.case.id == many.case.against), None)
    other = names(one.case.bindings) if one is not None else "one"
    who = f"{names(many.case.bindings)} are {value(gain)} times as fast as {other}"
    fetched = () if many.case.name != "many" else _fetched(rows)
    if subject.cause == "unequal-devices":
        text = f"{who} ({interval(gain)}): {_unequal(rows, many)}"
        return said(report, "below", (text, *fetched), subject, end)
    best = (
        ""
        if subject.cause == _SHARED
        else f"; {value(Estimate(ideal, ideal, ideal, '1'))} is ideal"
    )
    text = f"{who} ({interval(gain)}{best})"
    if gain.value >= ENOUGH * ideal and many.explanation is None:
        return said(
            report, "good", (f"{text}.", *fetched, *thin_others(report, many)), subject, end
        )
    return said(report, "below", (f"{text}: {because(many)}.", *fetched), subject, end)


def _fetched(rows: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what devices gain where their results are fetched, if that is known."""
    gains = (row.metrics.get("speedup") for row in rows if row.case.name == "many+fetch")
    known = [gain for gain in gains if gain is not None and gain.has_interval]
    return tuple(f"With results fetched: {value(gain)} times." for gain in known)


def _unequal(rows: Sequence[Measurement], many: Measurement) -> str:
    """Return which device is slower, and what another split of the work would reach."""
    alone = {row.case.names[0]: row.metrics["time"].value for row in rows if _is_solo(row)}
    if not alone:
        return f"{because(many)}."
    slow, fast = (pick(alone, key=lambda name: alone[name]) for pick in (max, min))
    text = f"{middle(slow)} takes {alone[slow] / alone[fast]:.1f} times as long."
    better = many.metrics.get("ideal_balanced")
    if better is None or better.value < _MORE * many.metrics["speedup"].value:
        return text
    return f"{text} Split by speed, {value(better)} is possible."


def _is_solo(row: Measurement) -> bool:
    return row.case.name == "solo" and "time" in row.metrics


def _single(report: Report, rows: Sequence[Measurement], end: str) -> Headline:
    """Return what one device computes in a second."""
    first = next((row for row in rows if row.status == "ok"), rows[0])
    found = alone(report, first, "{} computes {}", "rate", end)
    if found.level != "good" or len(report.bindings) > 1:
        return found
    more = "Map a second device to compare."
    text = found.text.removesuffix(end)
    return replace(found, text=f"{text} {more}{end}")
