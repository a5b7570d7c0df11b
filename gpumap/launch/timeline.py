"""Where the time of a program goes that does not keep all its cores or devices at work.

From looks in turn, each a time and how many cores or devices worked in it on average:

    idle      less than half of one worked
    alone     about one worked
    several   more

    start     not several, before a fifth of what several did was done: a moment in which all load
              the same libraries is no end of the start
    serial    alone, after that
    uneven    the same, where the program ends so: others have nothing left to do
    idle      idle, after that
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Looks = Sequence[tuple[float, float]]  # seconds; how many worked in them

_ONE, _SEVERAL = 0.5, 1.5  # at work, from which on it is one, and several
_SHORTEST = 0.045  # seconds: in less a tick of the kernel's is much
_BEGUN = 0.2  # of the time in which several work
_ENDS = 0.5  # of a usual stretch of one: the last one is no mere end of its processes


def phases(looks: Looks) -> tuple[float, float, float, float]:
    """Return the seconds of start, serial, uneven and idle of which the looks tell."""
    stretches = [
        (kind, sum(seconds for seconds, _ in same))
        for kind, same in groupby(_long_enough(looks), key=lambda look: _kind(look[1]))
    ]
    begun = _BEGUN * sum(seconds for kind, seconds in stretches if kind == "several")
    start, alone, idle, done = 0.0, [], 0.0, 0.0
    for kind, seconds in stretches:
        if kind == "several":
            done += seconds
        elif done < begun:
            start += seconds
        elif kind == "alone":
            alone.append(seconds)
        else:
            idle += seconds
    ends = alone and stretches[-1 if stretches[-1][0] != "idle" else -2][0] == "alone"
    uneven = ends and alone[-1] >= _ENDS * sum(alone) / len(alone) and done > 0.0
    serial = sum(alone)
    return (start, 0.0, serial, idle) if uneven else (start, serial, 0.0, idle)


def _kind(working: float) -> str:
    return "several" if working >= _SEVERAL else "alone" if working >= _ONE else "idle"


def _long_enough(looks: Looks) -> Iterator[tuple[float, float]]:
    """Yield the looks, short ones as one."""
    seconds = worked = 0.0
    for passed, working in looks:
        seconds, worked = seconds + passed, worked + passed * working
        if seconds >= _SHORTEST:
            yield seconds, worked / seconds
            seconds = worked = 0.0
    if seconds > 0.0:
        yield seconds, worked / seconds
