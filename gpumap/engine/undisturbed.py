"""Samples whose threads ran all the time, by CPU clocks: what preemption shows, never the time.

Names that share hardware take turns on it: here they are one, with the CPU time of all their
threads (`sharing`: those names, as `sharing_names` has them).
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from gpumap.engine.ceilings import sharing_names
from gpumap.model import FEWEST, UNDISTURBED, WorkTimes, replace

if TYPE_CHECKING:
    from gpumap.model import Measurement, Samples

_SLICE = 1e-3  # seconds; in less, a scheduler's tick is not told from the marks' own cost
_PER_SAMPLE = ("seconds", "blocks", "queue", "cpu", "control")  # one number for each
_WAKING = 2e-4  # seconds in which threads hand an iteration to each other


Sharing = tuple[tuple[str, ...], ...]


def shares_run(samples: Samples, sharing: Sharing = ()) -> tuple[float, ...]:
    """Return the share of each sample in which its threads ran; nothing where none is known.

    Of each device's own thread from when the first of them began, and of all CPU time: what is left
    of a sample beside the devices' spans takes one thread at least. Neither counts the moment to
    wake a thread.
    """
    names, cpu = samples.intervals.keys(), samples.cpu
    if not names or names != samples.worked.keys() or len(cpu) != len(samples.seconds):
        return ()
    if median(cpu) < _SLICE:
        return ()
    whole = _of_hardware(samples, sharing)
    return tuple(_share_run(whole, n) for n in range(len(samples.seconds)))


def _of_hardware(samples: Samples, sharing: Sharing) -> Samples:
    """Return the samples with names that share hardware as one, from its first to its last work."""
    worked, intervals = dict(samples.worked), dict(samples.intervals)
    for names in sharing:
        if not worked.keys() >= {*names}:  # none of them has a thread
            continue
        spans = zip(*(intervals.pop(name) for name in names), strict=True)
        times = zip(*(worked.pop(name) for name in names), strict=True)
        whole = "+".join(names)
        worked[whole] = tuple(map(sum, times))
        intervals[whole] = WorkTimes.of(
            (min(s for s, _ in each), max(e for _, e in each)) for each in spans
        )
    return replace(samples, worked=worked, intervals=intervals)


def _share_run(samples: Samples, n: int) -> float:
    """Return the least share of sample n: of a device's thread, or of all threads together."""
    begun = min(spans[n][0] for spans in samples.intervals.values())
    ended = max(spans[n][1] for spans in samples.intervals.values())
    shares, in_spans = [1.0], 0.0
    for name, spans in samples.intervals.items():
        start, stop = spans[n]
        if start - begun > _WAKING:  # it was kept from beginning with the others
            start = begun
        in_spans += stop - start
        if stop - start >= _SLICE:
            shares.append(samples.worked[name][n] / (stop - start))
    beside = max(samples.seconds[n] - (ended - begun) - _WAKING, 0.0)
    if in_spans + beside > 0.0:
        shares.append(samples.cpu[n] / (in_spans + beside))
    return min(shares)


def undisturbed(samples: Samples, sharing: Sharing = ()) -> Samples:
    """Return the samples whose threads ran all the time; of too few, the CPU times of all.

    Where nothing is known, or nothing was preempted, these are all samples as they are.
    """
    shares = shares_run(samples, sharing)
    kept = [n for n, share in enumerate(shares) if share >= UNDISTURBED]
    if len(kept) == len(shares):
        return samples
    if by_cpu(samples, sharing):
        return replace(samples, seconds=cpu_times(samples, sharing))

    def only(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(values[n] for n in kept) if values else ()

    changes: dict[str, Any] = {name: only(getattr(samples, name)) for name in _PER_SAMPLE}
    for name in ("worked", "phases"):
        changes[name] = {key: only(each) for key, each in getattr(samples, name).items()}
    spans = {name: WorkTimes.of(only(tuple(each))) for name, each in samples.intervals.items()}
    return replace(samples, intervals=spans, **changes)


def by_cpu(samples: Samples, sharing: Sharing = ()) -> bool:
    """Return whether too few samples are undisturbed, so that CPU times stand for all."""
    shares = shares_run(samples, sharing)
    return sum(share >= UNDISTURBED for share in shares) < min(FEWEST, len(shares))


def cpu_times(samples: Samples, sharing: Sharing = ()) -> tuple[float, ...]:
    """Return the CPU time of one iteration in each sample; nothing where none is known.

    That of the busiest hardware, and of what no device's thread did.
    """
    if not shares_run(samples, sharing):
        return ()
    times, every = [], _of_hardware(samples, sharing).worked.values()
    for n, cpu in enumerate(samples.cpu):
        of_devices = [worked[n] for worked in every]
        times.append(max(of_devices) + max(cpu - sum(of_devices), 0.0))
    return tuple(times)


def judged_samples(row: Measurement) -> Samples | None:
    """Return the samples that a row's metrics are of: undisturbed ones, if it says their share."""
    if row.samples is not None and "undisturbed" in row.metrics:
        return undisturbed(row.samples, sharing_names(row.case.bindings))
    return row.samples
