"""Exchanges between ranks: the steps of each rank, as data.

An exchange is an allreduce: every rank ends with the sum over all ranks of each element. Every
slice is summed at one place: all ranks get the same bits, whatever rounding does.

    host       rank 0 takes everything in, one rank after the other, and sends the sum back
    ring       each slice travels around once to be summed, and once more to be known
               (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009)

Any communicator can do the steps, in order: post every receive and every send, which are of other
places, wait for all of them, then add what was received.

Bus bandwidth is what nccl-tests call so (doc/PERFORMANCE.md): the bandwidth that a link must have,
whatever N is.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Ends = Sequence[tuple[Any, int]]  # arrays, each with the rank that it goes to or comes from
    Step = tuple[Ends, Ends, Any | None]  # sent, received, and where what is received is added


def balanced(total: int, parts: int) -> tuple[int, ...]:
    """Return `parts` whole numbers that sum up to `total`, the first ones larger by one at most."""
    each, more = divmod(total, parts)
    return (each + 1,) * more + (each,) * (parts - more)


def host(rank: int, size: int, array: Any, empty: Callable[[tuple[int]], Any]) -> Iterator[Step]:
    """Yield the steps of a rank: rank 0 takes in one rank after the other, and sends the sum.

    Args:
        rank: its number.
        size: how many ranks there are.
        array: of one axis; the sum takes its place.
        empty: returns room for elements of that shape.
    """
    if rank:
        yield [(array, 0)], [], None
        yield [], [(array, 0)], None
        return
    others, room = range(1, size), empty((array.shape[0],))
    yield from (([], [(room, rank)], array) for rank in others)
    yield [(array, rank) for rank in others], [], None


def ring(rank: int, size: int, array: Any, empty: Callable[[tuple[int]], Any]) -> Iterator[Step]:
    """Yield the steps of a rank, as `host`: each sends a slice on, and receives the one before it.

    What is sent is what came in the step before. After the first half this rank has the sum of its
    slice; in the second half slices replace.
    """
    ends = accumulate(balanced(array.shape[0], size), initial=0)
    parts = [array[start:stop] for start, stop in pairwise(ends)]  # the longest first
    room = empty(parts[0].shape)
    for step in range(2 * (size - 1)):
        sent, place = parts[(rank - 1 - step) % size], parts[(rank - 2 - step) % size]
        adds = step < size - 1 and place.shape[0] > 0
        arrived = room[: place.shape[0]] if adds else place
        sends = [(sent, (rank + 1) % size)] if sent.shape[0] else []
        receives = [(arrived, (rank - 1) % size)] if place.shape[0] else []
        yield sends, receives, place if adds else None


STEPS = {"host": host, "ring": ring}


def bus_factor(ranks: int) -> float:
    """Return the bytes that a link moves in an exchange, as a multiple of the array's."""
    return 2 * (ranks - 1) / ranks
