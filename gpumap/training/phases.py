"""What a step of training goes into: phases that follow each other without a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PHASES = ("input", "transfer", "compute", "sync", "comm", "update")
EXCHANGE = "exchange"  # what is told apart as sync and comm

# A phase, or an exchange, and when each worker that took part in it had done it.
Part = tuple[str, Mapping[int, float]]


def phases(parts: Sequence[Part], began: float, workers: int) -> dict[str, float]:
    """Return the mean seconds of a worker in each phase.

    An exchange begins when the last of those who take part comes: until then the others wait. A
    round ends with the last worker, for whom all others wait.

    Args:
        parts: in the order in which each worker did its own.
        began: when the first of them began.
        workers: how many there are.
    """
    found, since = dict.fromkeys(PHASES, 0.0), [began] * workers
    for phase, ends in parts:
        last = max(since[worker] for worker in ends)
        for worker, end in ends.items():
            start, since[worker] = since[worker], end
            if phase != EXCHANGE:
                found[phase] += end - start
                continue
            ready = min(max(last, start), end)
            found["sync"] += ready - start
            found["comm"] += end - ready
    found["sync"] += sum(max(since) - end for end in since)
    return {name: max(seconds / workers, 0.0) for name, seconds in found.items()}
