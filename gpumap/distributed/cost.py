"""Cost models of exchanges, and what they predict of data-parallel steps on more devices.

A message of n bytes takes latency + n / bandwidth (Hockney, Parallel Computing 20(3), 1994). Each
rank has one port, which sends and receives at once; messages that are posted at once share its
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

    strong   the batch is split: step(N) = compute / N + exchange(N), speed-up = compute / step(N)
    weak     each device has a batch of its own: step(N) = compute + exchange(N),
             speed-up = N compute / step(N)

The exchange comes after the compute; nothing overlaps. Where the batch is known, the largest part
of its split counts, and devices beyond its examples do nothing. A metric's interval is what those
of latency and bandwidth allow jointly: both at their best, both at their worst; without an
interval of theirs there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, isfinite
from typing import TYPE_CHECKING, Literal, Self

from gpumap import model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.model import Algorithm, Estimate, Fit, Forecast, LinkCost, Payoff, Prediction


@dataclass(frozen=True, slots=True)
class Link:
    """What a message between two ranks costs: one line, or several in the order of sizes."""

    lines: tuple[model.Line, ...]

    @classmethod
    def of(cls, latency: float, bandwidth: float) -> Self:
        """Return a link of seconds and bytes per second."""
        return cls((model.Line(latency, 1.0 / bandwidth),))

    def seconds(self, nbytes: float, messages: int = 1) -> float:
        """Return the seconds of messages of this size that one port sends at once."""
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


GIVEN = "given"


def given_link(latency: float, bandwidth: float) -> LinkCost:
    """Return a link of seconds and bytes per second that someone named: without an interval."""
    costs = model.Estimate(latency, latency, latency, "s"), model.Estimate(*(bandwidth,) * 3, "B/s")
    return model.LinkCost(GIVEN, *costs, (model.Line(latency, 1.0 / bandwidth),))


def measured_link(fit: Fit) -> LinkCost:
    """Return a link of a model that `transfer-cost` fitted."""
    return model.LinkCost(fit.id, fit.metrics["latency"], fit.metrics["peak_bandwidth"], fit.lines)


def slowest(links: Sequence[LinkCost], nbytes: int) -> LinkCost:
    """Return the link on which half of the bytes take longest: a ring waits for it."""
    return max(links, key=lambda cost: _links(cost)[0].seconds(nbytes / 2))


def predicted(
    question: Prediction, devices: Sequence[int], algorithms: Sequence[Algorithm]
) -> Prediction:
    """Return the question with its forecasts and break-even points, by algorithm."""
    forecasts = [_forecast(question, name, n) for name in algorithms for n in devices]
    payoffs = [
        _payoff(question, name, [f for f in forecasts if f.algorithm == name])
        for name in algorithms
    ]
    return model.replace(question, forecasts=tuple(forecasts), payoffs=tuple(payoffs))


def _forecast(question: Prediction, algorithm: Algorithm, devices: int) -> Forecast:
    split = question.batch is not None and question.scaling != "weak"
    used = min(devices, question.batch or 0) if split else devices  # with something to do
    comm = _exchange(question, algorithm, used)
    metrics = {"comm": comm}
    if question.compute is not None:
        metrics |= _step(question, question.compute, devices, comm)
    return model.Forecast(algorithm, devices, metrics)


def _step(
    question: Prediction, compute: float, devices: int, comm: Estimate
) -> dict[str, Estimate]:
    """Return the metrics of a step with an exchange of these seconds."""
    strong = question.scaling == "strong"
    part = compute
    if strong:  # the device with the most examples counts
        batch = question.batch
        part *= 1.0 / devices if batch is None else -(-batch // devices) / batch
    work = 1.0 if strong else float(devices)  # in batches
    time = model.Estimate(part + comm.value, part + comm.low, part + comm.high, "s")
    metrics = {
        "time": time,
        "speedup": _rate(work * compute, time, "1"),
        "efficiency": _rate(work * compute / devices, time, "1"),
    }
    if question.batch is not None:
        metrics["examples_per_s"] = _rate(work * question.batch, time, "1/s")
    return metrics


def _payoff(question: Prediction, algorithm: Algorithm, forecasts: Sequence[Forecast]) -> Payoff:
    """Return the break-even compute time of two devices, and the break-even batch."""
    comm = _exchange(question, algorithm, 2)
    times = 2.0 if question.scaling == "strong" else 1.0  # of the exchange, that halving must save
    metrics = {"from_compute": _times(comm, times, "s")}
    if question.compute is None:
        return model.Payoff(algorithm, metrics)
    if question.batch is not None:
        metrics["from_batch"] = _times(comm, times * question.batch / question.compute, "1")
    best = max(forecasts, key=lambda forecast: forecast.metrics["speedup"].value)
    return model.Payoff(
        algorithm, metrics, _breaks_even(question.compute, metrics["from_compute"]), best.devices
    )


def _breaks_even(compute: float, needed: Estimate) -> Literal["yes", "no", "unclear"]:
    if needed.low <= compute <= needed.high and needed.low < needed.high:
        return "unclear"
    return "yes" if compute > needed.value else "no"


def _exchange(question: Prediction, algorithm: str, ranks: int) -> Estimate:
    assert algorithm in MODELS
    value, low, high = (
        seconds(algorithm, ranks, question.nbytes, link) for link in _links(question.link)
    )
    known = question.link.latency.has_interval and question.link.bandwidth.has_interval
    if not known:
        return model.Estimate.without_interval(value, "s")
    return model.Estimate(value, min(low, value), max(high, value), "s")


def _links(cost: LinkCost) -> tuple[Link, Link, Link]:
    """Return the link as it is, at its best and at its worst."""
    link = Link(cost.lines)
    latency, bandwidth = cost.latency, cost.bandwidth
    best = link.scaled(_ratio(latency.low, latency.value), _ratio(bandwidth.value, bandwidth.high))
    worst = link.scaled(_ratio(latency.high, latency.value), _ratio(bandwidth.value, bandwidth.low))
    return link, best, worst


def _ratio(end: float, value: float) -> float:
    """Return one over the other; 1 where that says nothing: no latency, no end of bandwidth."""
    return end / value if value > 0.0 and isfinite(end) and isfinite(value) else 1.0


def _rate(amount: float, time: Estimate, unit: str) -> Estimate:
    if not time.has_interval:
        return model.Estimate.without_interval(amount / time.value, unit)
    return model.Estimate(amount / time.value, amount / time.high, amount / time.low, unit)


def _times(figure: Estimate, factor: float, unit: str) -> Estimate:
    return model.Estimate(figure.value * factor, figure.low * factor, figure.high * factor, unit)
