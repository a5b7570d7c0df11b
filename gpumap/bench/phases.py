"""What a step of training goes into: phases that follow each other without a gap."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PHASES = ("input", "transfer", "compute", "sync", "comm", "update")


def phases(
    times: Sequence[Sequence[Sequence[float]]], began: float, *, together: bool
) -> dict[str, float]:
    """Return the mean seconds of a worker in each phase.

    Args:
        times: of each step, of each worker: the ends of input, transfer, compute, and where there
            is more, of the exchange before the update, of the update, of the exchange behind it.
        began: when the first step began.
        together: an exchange is one of all workers: until the last one comes, the others wait.
    """
    found = dict.fromkeys(PHASES, 0.0)
    if not times:
        return found
    workers = range(len(times[0]))
    since = [began for _ in workers]
    for step in times:
        for phase, seconds in _step(step, since, together=together):
            found[phase] += seconds / len(since)
        since = [ends[-1] for ends in step]
    last = max(since)
    found["sync"] += fmean(last - end for end in since)  # a round ends with the last one
    return {name: max(seconds, 0.0) for name, seconds in found.items()}


def _step(
    step: Sequence[Sequence[float]], since: Sequence[float], *, together: bool
) -> Iterator[tuple[str, float]]:
    for start, ends in zip(since, step, strict=True):
        yield from zip(PHASES[:3], _lengths((start, *ends[:3])), strict=True)
    if len(step[0]) > len(PHASES[:3]):
        yield from _exchange([ends[2:4] for ends in step], together=together)
        for ends in step:
            yield "update", ends[4] - ends[3]
        yield from _exchange([ends[4:6] for ends in step], together=together)


def _exchange(ends: Sequence[Sequence[float]], *, together: bool) -> Iterator[tuple[str, float]]:
    last = max(start for start, _ in ends)
    for start, stop in ends:
        ready = min(max(last, start), stop) if together else start
        yield "sync", ready - start
        yield "comm", stop - ready


def _lengths(moments: Sequence[float]) -> Iterator[float]:
    return (stop - start for start, stop in pairwise(moments))
