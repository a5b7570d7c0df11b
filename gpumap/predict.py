"""What exchanges cost, and what that predicts of data-parallel steps on more devices.

A message of n bytes takes latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994). Each
rank has one port, which sends and receives at once; messages that are posted at once share its
bandwidth, and their latencies overlap. Adding is taken as free. So this is what exchanges
(`gpumap.comm.algorithms`) cost, for S bytes and N ranks, and nothing at all where N is 1:

    host       N latencies,                 2 (N - 1) S / bandwidth
    ring       2 (N - 1) latencies,         2 (N - 1) / N S / bandwidth
    native     the better of two by which MPI libraries go: recursive doubling,
               ceil(log2 N) of both, and Rabenseifner's, 2 ceil(log2 N) latencies with the bytes of
               the ring (Thakur, Rabenseifner & Gropp, doi 10.1177/1094342005051521); where N is no
               power of two, libraries need a step or two more

    strong   the batch is split: step(N) = compute / N + exchange(N), speed-up = compute / step(N)
    weak     each device has a batch of its own: step(N) = compute + exchange(N),
             speed-up = N compute / step(N)

The exchange comes after the compute; nothing overlaps. A metric's interval is what those of latency
and bandwidth allow jointly: both at their best, both at their worst; without an interval of theirs
there is none.
"""

from __future__ import annotations

from math import fsum, isfinite
from typing import TYPE_CHECKING

from gpumap import model
from gpumap.engine.estimates import per_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.model import Algorithm, Estimate, Fit, Forecast, LinkCost, Prediction

    Lines = tuple[model.Line, ...]  # what a message costs: one, or several in the order of sizes


def message(lines: Lines, nbytes: float, messages: int = 1) -> float:
    """Return the seconds of messages of this size that one port sends at once."""
    line = [line for line in lines if line.start <= nbytes][-1]
    return line.seconds(nbytes) + (messages - 1) * line.per_byte * nbytes


def seconds(algorithm: Algorithm, ranks: int, nbytes: float, lines: Lines) -> float:
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


MODELS: dict[Algorithm, Callable[[int, float, Lines], float]] = {
    "native": lambda n, size, by: min(_levels(n) * message(by, size), _halving(n, size, by)),
    "ring": lambda n, size, by: 2 * (n - 1) * message(by, size / n),
    "host": lambda n, size, by: (n - 1) * message(by, size) + message(by, size, n - 1),
}


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


def predicted(question: Prediction, devices: Sequence[int]) -> Prediction:
    """Return the question with its forecasts, by algorithm."""
    forecasts = (_forecast(question, name, n) for name in MODELS for n in devices)
    return model.replace(question, forecasts=tuple(forecasts))


def _forecast(question: Prediction, algorithm: Algorithm, devices: int) -> Forecast:
    comm, compute = _exchange(question, algorithm, devices), question.compute
    metrics = {"comm": comm}
    if compute is not None:
        strong = question.scaling == "strong"
        part = compute / devices if strong else compute
        work = compute if strong else devices * compute  # in seconds of one device
        time = model.Estimate(part + comm.value, part + comm.low, part + comm.high, "s")
        gains = {"speedup": work, "efficiency": work / devices}
        metrics |= {"time": time} | {key: per_time(n, time, "1") for key, n in gains.items()}
    return model.Forecast(algorithm, devices, metrics)


def _exchange(question: Prediction, algorithm: Algorithm, ranks: int) -> Estimate:
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
