"""Exchanges between ranks: how a batch and an array are split, what they cost, what that predicts.

An exchange is an allreduce: every rank ends with the sum over all ranks of each element. Every
slice is summed at one place: all ranks get the same bits, whatever rounding does.

    host       rank 0 takes everything in, one rank after the other, and sends the sum back
    ring       each slice travels around once to be summed, and once more to be known
               (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009)

The steps of each rank are data; any communicator can do them, in order: post every receive and
every send, which are of other places, wait for all of them, then add what was received.

Their cost, and what it predicts of data-parallel steps on more devices: a message of n bytes takes
latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994). Each rank has one port, which
sends and receives at once; messages that are posted at once share its bandwidth, and their
latencies overlap. Adding is taken as free. So this is what they cost, for S bytes and N ranks, and
nothing at all where N is 1:

    host       N latencies,                 2 (N - 1) S / bandwidth
    ring       2 (N - 1) latencies,         2 (N - 1) / N S / bandwidth
    native     the better of two by which MPI libraries go: recursive doubling,
               ceil(log2 N) of both, and Rabenseifner's, 2 ceil(log2 N) latencies with the bytes of
               the ring (Thakur, Rabenseifner & Gropp, doi 10.1177/1094342005051521); where N is no
               power of two, libraries need a step or two more

Bus bandwidth is what nccl-tests call so (doc/PERFORMANCE.md): the bandwidth that a link must have,
whatever N is.

    strong   the batch is split: step(N) = compute / N + exchange(N), speed-up = compute / step(N)
    weak     each device has a batch of its own: step(N) = compute + exchange(N),
             speed-up = N compute / step(N)

The exchange comes after the compute; nothing overlaps. Where the batch is known, the largest part
of its split counts, and devices beyond its examples do nothing. A metric's interval is what those
of latency and bandwidth allow jointly: both at their best, both at their worst; without an
interval of theirs there is none.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import fsum, inf, isfinite
from typing import TYPE_CHECKING, Any

from gpumap import model
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.model import Algorithm, Estimate, Fit, Forecast, LinkCost, Prediction

    Ends = Sequence[tuple[Any, int]]  # arrays, each with the rank that it goes to or comes from
    Step = tuple[Ends, Ends, Any | None]  # sent, received, and where what is received is added
    Lines = tuple[model.Line, ...]  # what a message costs: one, or several in the order of sizes

SPLITS = ("balanced", "weighted", "keras", "drop")


def balanced(total: int, parts: int) -> tuple[int, ...]:
    """Return `parts` whole numbers that sum up to `total`, the first ones larger by one at most."""
    each, more = divmod(total, parts)
    return (each + 1,) * more + (each,) * (parts - more)


def split(
    total: int, parts: int, policy: str = "balanced", rates: Sequence[float] | None = None
) -> tuple[int, ...]:
    """Return how many of `total` examples each of `parts` devices takes.

    Args:
        total: examples of a batch.
        parts: devices.
        policy: `balanced`: as even as can be, the first ones take one more; `weighted`: so that
            all end as soon as can be at their `rates`; `keras`: the last one takes the remainder
            too, as `multi_gpu_model` does; `drop`: it is left out, as in `make_parallel`.
        rates: of `weighted`: examples per second of each device, or anything in proportion to it.

    Raises:
        QuestionError: there is no such policy, a count is not a whole number, or the rates are
            not as many positive numbers.
    """
    if policy not in SPLITS:
        raise QuestionError(f'no split is called "{policy}"', f"it is one of {', '.join(SPLITS)}")
    if not (hasattr(total, "__index__") and hasattr(parts, "__index__")) or total < 0 or parts < 1:
        message = f"{total!r} examples cannot be split over {parts!r} devices"
        raise QuestionError(message, "give whole numbers: 0 examples or more, and 1 device or more")
    if policy == "balanced":
        return balanced(total, parts)
    if policy != "weighted":
        each, more = divmod(total, parts)
        return (each,) * (parts - 1) + (each + (more if policy == "keras" else 0),)
    if rates is None or len(rates) != parts or not all(0 < rate < inf for rate in rates):
        message = f"weighted takes {parts} rates above 0, one of each device, not {rates}"
        raise QuestionError(message, "give a positive number for each device")
    counts = [int(total * (rate / fsum(rates))) for rate in rates]
    for _ in range(total - sum(counts)):  # to whoever ends first with one more
        counts[min(range(parts), key=lambda n: (counts[n] + 1) / rates[n])] += 1
    return tuple(counts)


def host(rank: int, size: int, array: Any, empty: Callable[[int], Any]) -> Iterator[Step]:
    """Yield the steps of a rank: rank 0 takes in one rank after the other, and sends the sum.

    Args:
        rank: its number.
        size: how many ranks there are.
        array: of one axis; the sum takes its place.
        empty: returns room for so many elements.
    """
    if rank:
        yield [(array, 0)], [], None
        yield [], [(array, 0)], None
        return
    others, room = range(1, size), empty(array.shape[0])
    yield from (([], [(room, rank)], array) for rank in others)
    yield [(array, rank) for rank in others], [], None


def ring(rank: int, size: int, array: Any, empty: Callable[[int], Any]) -> Iterator[Step]:
    """Yield the steps of a rank, as `host`: each sends a slice on, and receives the one before it.

    What is sent is what came in the step before. After the first half this rank has the sum of its
    slice; in the second half slices replace.
    """
    ends = accumulate(balanced(array.shape[0], size), initial=0)
    parts = [array[start:stop] for start, stop in pairwise(ends)]  # the longest first
    room = empty(parts[0].shape[0])
    for step in range(2 * (size - 1)):
        sent, place = parts[(rank - 1 - step) % size], parts[(rank - 2 - step) % size]
        adds = step < size - 1 and place.shape[0] > 0
        arrived = room[: place.shape[0]] if adds else place
        sends = [(sent, (rank + 1) % size)] if sent.shape[0] else []
        receives = [(arrived, (rank - 1) % size)] if place.shape[0] else []
        yield sends, receives, place if adds else None


STEPS: dict[str, Callable[[int, int, Any, Callable[[int], Any]], Iterator[Step]]] = {
    "host": host,
    "ring": ring,
}


def message(lines: Lines, nbytes: float, messages: int = 1) -> float:
    """Return the seconds of messages of this size that one port sends at once."""
    line = [line for line in lines if line.start <= nbytes][-1]
    return line.seconds(nbytes) + (messages - 1) * line.per_byte * nbytes


def seconds(algorithm: str, ranks: int, nbytes: float, lines: Lines) -> float:
    """Return what an exchange takes by the model of one of MODELS."""
    return MODELS[algorithm](ranks, nbytes, lines) if ranks > 1 else 0.0


def _halving(ranks: int, nbytes: float, lines: Lines) -> float:
    """Return what Rabenseifner's takes: halves, quarters ... of the bytes there, and back again."""
    levels = _levels(ranks)
    even = (ranks - 1) / ranks / (1.0 - 0.5**levels)  # of no power of two: the bytes of a ring
    sizes = (nbytes * even / 2**level for level in range(1, levels + 1))
    return 2 * fsum(message(lines, size) for size in sizes)


def _levels(ranks: int) -> int:
    return (ranks - 1).bit_length()


MODELS: dict[str, Callable[[int, float, Lines], float]] = {
    "native": lambda n, size, by: min(_levels(n) * message(by, size), _halving(n, size, by)),
    "ring": lambda n, size, by: 2 * (n - 1) * message(by, size / n),
    "host": lambda n, size, by: (n - 1) * message(by, size) + message(by, size, n - 1),
}


def bus_factor(ranks: int) -> float:
    """Return the bytes that a link moves in an exchange, as a multiple of the array's."""
    return 2 * (ranks - 1) / ranks


def given_link(latency: float, bandwidth: float) -> LinkCost:
    """Return a link of seconds and bytes per second that someone named: without an interval."""
    costs = model.Estimate.exact(latency, "s"), model.Estimate.exact(bandwidth, "B/s")
    return model.LinkCost("given", *costs, (model.Line(latency, 1.0 / bandwidth),))


def measured_link(fit: Fit) -> LinkCost:
    """Return a link of a model that `transfer-cost` fitted."""
    return model.LinkCost(fit.id, fit.metrics["latency"], fit.metrics["peak_bandwidth"], fit.lines)


def slowest(links: Sequence[LinkCost], nbytes: int) -> LinkCost:
    """Return the link on which half of the bytes take longest: a ring waits for it."""
    return max(links, key=lambda cost: message(cost.lines, nbytes / 2))


def predicted(
    question: Prediction, devices: Sequence[int], algorithms: Sequence[Algorithm]
) -> Prediction:
    """Return the question with its forecasts, by algorithm."""
    forecasts = (_forecast(question, name, n) for name in algorithms for n in devices)
    return model.replace(question, forecasts=tuple(forecasts))


def _forecast(question: Prediction, algorithm: Algorithm, devices: int) -> Forecast:
    split = question.batch is not None and question.scaling != "weak"
    used = min(devices, question.batch or 0) if split else devices  # with something to do
    comm = _exchange(question, algorithm, used)
    metrics = {"comm": comm}
    if question.compute is not None:
        metrics |= _metrics(question, question.compute, devices, comm)
    return model.Forecast(algorithm, devices, metrics)


def _metrics(
    question: Prediction, compute: float, devices: int, comm: Estimate
) -> dict[str, Estimate]:
    """Return the metrics of a step with an exchange of these seconds."""
    strong, batch = question.scaling == "strong", question.batch
    part = compute
    if strong:  # the device with the most examples counts
        part *= 1.0 / devices if batch is None else -(-batch // devices) / batch
    work = 1.0 if strong else float(devices)  # in batches

    def rate(amount: float, unit: str) -> Estimate:
        return _figure(comm, lambda seconds: amount / (part + seconds), unit)

    metrics = {
        "time": _figure(comm, lambda seconds: part + seconds, "s"),
        "speedup": rate(work * compute, "1"),
        "efficiency": rate(work * compute / devices, "1"),
    }
    if batch is not None:
        metrics["examples_per_s"] = rate(work * batch, "1/s")
    return metrics


def _exchange(question: Prediction, algorithm: str, ranks: int) -> Estimate:
    latency, bandwidth = question.link.latency, question.link.bandwidth

    def taken(latency_by: float, byte_by: float) -> float:
        lines = tuple(
            model.Line(line.latency * latency_by, line.per_byte * byte_by, line.start)
            for line in question.link.lines
        )
        return seconds(algorithm, ranks, question.nbytes, lines)

    value = taken(1.0, 1.0)
    if not (latency.has_interval and bandwidth.has_interval):
        return model.Estimate.without_interval(value, "s")
    best = taken(_ratio(latency.low, latency.value), _ratio(bandwidth.value, bandwidth.high))
    worst = taken(_ratio(latency.high, latency.value), _ratio(bandwidth.value, bandwidth.low))
    return model.Estimate(value, min(best, value), max(worst, value), "s")


def _ratio(end: float, value: float) -> float:
    """Return one over the other; 1 where that says nothing: no latency, no end of bandwidth."""
    return end / value if value > 0.0 and isfinite(end) and isfinite(value) else 1.0


def _figure(comm: Estimate, of: Callable[[float], float], unit: str) -> Estimate:
    """Return what follows from the seconds of an exchange, with the ends that theirs allow."""
    if not comm.has_interval:
        return model.Estimate.without_interval(of(comm.value), unit)
    low, high = sorted((of(comm.low), of(comm.high)))
    return model.Estimate(of(comm.value), low, high, unit)
