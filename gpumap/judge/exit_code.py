"""Many outcomes, one exit code: never a count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import BreakEven, Measurement

# What a script must hear about first: wrong data before all, a wrong question ends alone.
_ORDER = (
    Exit.INTERNAL,
    Exit.QUESTION,
    Exit.WRONG_DATA,
    Exit.INTERRUPTED,
    Exit.TIMEOUT,
    Exit.ABSENT,
    Exit.NO,
    Exit.INCONCLUSIVE,
)

STATUS = {
    Exit.OK: "ok",
    Exit.NO: "no",
    Exit.QUESTION: "error",
    Exit.ABSENT: "absent",
    Exit.WRONG_DATA: "wrong-data",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.INTERNAL: "internal",
    Exit.TIMEOUT: "timeout",
    Exit.INTERRUPTED: "interrupted",
}


def exit_code(outcomes: Iterable[int]) -> Exit:
    """Return the one exit code that stands for all outcomes; OK if there are none."""
    found = set(outcomes)
    return next((code for code in _ORDER if code in found), Exit.OK)


def status(code: Exit, rows: Iterable[Measurement], break_evens: Iterable[BreakEven] = ()) -> str:
    """Return the status of a run; without an error, what was requested may be inconclusive."""
    found, ends = tuple(rows), tuple(break_evens)
    if code == Exit.OK and (found or ends):
        from gpumap.judge.few import unanswered, undecided  # a check has no rows

        if undecided(found) or any(map(unanswered, ends)):
            code = Exit.INCONCLUSIVE
    return STATUS[code]
