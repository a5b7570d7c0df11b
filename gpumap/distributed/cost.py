"""Cost models of exchanges: latencies, bandwidth and bytes.

A message of n bytes takes latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994). Each
rank has one port, which sends and receives at once; messages that are posted together share its
bandwidth, and their latencies overlap. Adding is taken as free. So this is what the schedules in
`algorithms.py` cost, for S bytes and N ranks, and nothing at all where N is 1:

    host       N latencies,                 2 (N - 1) S / bandwidth
    ring       2 (N - 1) latencies,         2 (N - 1) / N S / bandwidth
    alltoall   2 latencies,                 2 (N - 1) / N S / bandwidth
    tree       2 ceil(log2 N) - 1 of both: latencies, and S / bandwidth
    native     the better of two by which MPI libraries go: recursive doubling,
               ceil(log2 N) of both, and Rabenseifner's, 2 ceil(log2 N) latencies with the bytes of
               the ring (Thakur, Rabenseifner & Gropp, doi 10.1177/1094342005051521); where N is no
               power of two, libraries need a step or two more

Bus bandwidth is what nccl-tests call so (doc/PERFORMANCE.md): the bandwidth that a link must have,
whatever N is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Self

from gpumap import model

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Link:
    """What a message between two ranks costs: one line, or several in the order of sizes."""

    lines: tuple[model.Line, ...]

    @classmethod
    def of(cls, latency: float, bandwidth: float) -> Self:
        """Return a link of seconds and bytes per second."""
        return cls((model.Line(latency, 1.0 / bandwidth),))

    def seconds(self, nbytes: float, messages: int = 1) -> float:
        """Return what messages of this size take that one port sends together."""
        line = [line for line in self.lines if line.start <= nbytes][-1]
        return line.seconds(nbytes) + (messages - 1) * line.per_byte * nbytes

    def scaled(self, latency: float, per_byte: float) -> Link:
        """Return a link with these multiples of both."""
        return Link(
            tuple(
                model.Line(x.latency * latency, x.per_byte * per_byte, x.start) for x in self.lines
            )
        )


def seconds(algorithm: str, ranks: int, nbytes: float, link: Link) -> float:
    """Return what an exchange takes by the model of one of MODELS."""
    return MODELS[algorithm](ranks, nbytes, link) if ranks > 1 else 0.0


def _host(ranks: int, nbytes: float, link: Link) -> float:
    return (ranks - 1) * link.seconds(nbytes) + link.seconds(nbytes, ranks - 1)


def _ring(ranks: int, nbytes: float, link: Link) -> float:
    return 2 * (ranks - 1) * link.seconds(nbytes / ranks)


def _alltoall(ranks: int, nbytes: float, link: Link) -> float:
    return 2 * link.seconds(nbytes / ranks, ranks - 1)


def _tree(ranks: int, nbytes: float, link: Link) -> float:
    return (2 * _levels(ranks) - 1) * link.seconds(nbytes)


def _native(ranks: int, nbytes: float, link: Link) -> float:
    return min(_levels(ranks) * link.seconds(nbytes), _halving(ranks, nbytes, link))


def _halving(ranks: int, nbytes: float, link: Link) -> float:
    """Return what Rabenseifner's takes: halves, quarters ... of the bytes there, and back again."""
    levels = _levels(ranks)
    even = (ranks - 1) / ranks / (1.0 - 0.5**levels)  # of no power of two: the bytes of a ring
    sizes = (nbytes * even / 2**level for level in range(1, levels + 1))
    return 2 * fsum(link.seconds(size) for size in sizes)


def _levels(ranks: int) -> int:
    return (ranks - 1).bit_length()


MODELS: dict[str, Callable[[int, float, Link], float]] = {
    "native": _native,
    "ring": _ring,
    "alltoall": _alltoall,
    "tree": _tree,
    "host": _host,
}


def bus_factor(ranks: int, operation: str = "allreduce") -> float:
    """Return the bytes that a link moves in an exchange, as a multiple of the array's."""
    return (2 if operation == "allreduce" else 1) * (ranks - 1) / ranks
