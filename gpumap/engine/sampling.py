"""One sample: as many iterations as it takes to time well, and when each device did its part."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from gpumap.engine.base import Events, Iteration, Sample
from gpumap.engine.verify import one_of_each
from gpumap.errors import DeviceError
from gpumap.model import SHORTEST, SampleMark, Samples, WorkTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Clock, Session
    from gpumap.engine.base import OpenDevices
    from gpumap.model import Binding

    Look = Callable[[Sequence[Binding]], Mapping[str, float]]  # seconds by name

OVERHEAD = 0.01  # the share of a sample that waiting for its end may take
_SYNC_LOOKS = 5
_DISTURBED = 10  # times as long as enough: more is no busy moment
_POWER = "power cap"  # what NVML says of a device that its power limit holds back
_WINDOW = 5  # samples on each side of the warm-up's comparison, where so many fit
_FEWEST = 3
_TESTED = 4  # samples on each side: one order of 70 has all later ones below all earlier ones
STEADY = 0.98  # warm when the last window is no faster than this times the one before
UNEQUAL = 1.1  # times of devices alone that are clearly further apart make them unequal
BESIDE = 4.0  # times a control's own time, for which it counts as the control of what follows


@dataclass(slots=True)
class Series:
    """The samples of one case, as they come."""

    iteration: Iteration
    iterations_per_sample: int = 1
    warmed: bool = False  # its single iteration follows one that does not count, as several do
    sample_seconds: float = 0.0  # of one sample, with the iteration before it that does not count
    checking: float = 0.0  # seconds of looking at its results
    warmup: int = 0
    capped: bool = False
    empty_sync: float = 0.0
    shared: tuple[tuple[str, ...], ...] = ()  # names of one hardware, which take it from each other
    taken: dict[int, Sample] = field(default_factory=dict)  # by block, in time order
    # by block: what held its devices back
    throttled: dict[int, dict[str, str]] = field(default_factory=dict)
    control: str = ""  # the id of the control product before its samples
    beside: dict[int, float] = field(default_factory=dict)  # by block: seconds of the control
    latest: tuple[float, float] = (0.0, 0.0)  # of a control: when it was taken, and its seconds

    @property
    def power_capped(self) -> bool:
        """Whether the power limit held in every sample: that is the steady state."""
        every = [{*self.throttled.get(block, {}).values()} for block in self.taken]
        return bool(every) and all(whys == {_POWER} for whys in every)


def sample(series: Series, clock: Clock) -> Sample:
    """Take one sample. The marks of its first iteration tell when each device worked.

    The first, because all devices are idle before it: later ones run apart by what has delayed one.
    Calls that wait are timed one by one, and their median is the sample: one that was delayed is no
    longer than the others in it.
    A sample of several iterations follows one that does not count: else what was measured before it
    would be in it, as cold caches, and more of it the fewer iterations there are.
    """
    work, iterations, events = series.iteration, series.iterations_per_sample, Events()
    if iterations > 1 or series.warmed:
        work.queue()
        work.finish()
    work.renew()
    first = 1 if work.marked else iterations
    cpu, start = clock.cpu(), clock.now()
    work.queue(events, first)
    calls = [clock.now() - start]
    if iterations > first and not work.waits:
        work.queue(iterations=iterations - first)
    while work.waits and len(calls) < iterations:
        before = clock.now()
        work.queue()
        calls.append(clock.now() - before)
    queued = clock.now()
    work.finish()
    stop = clock.now()
    spent = clock.cpu()
    seconds, queue = (stop - start) / iterations, (queued - start) / iterations
    if work.waits:
        seconds = queue = median(calls)
    each = None if cpu is None or spent is None else (spent - cpu) / iterations
    intervals = events.intervals()
    phases = {name: s / iterations for name, s in work.phases().items()}
    return Sample(seconds, queue, each, intervals, phases)


def calibrate(
    series: Series,
    clock: Clock,
    shortest: float = SHORTEST,
    most: int = Iteration.most,
    *,
    computes: bool = False,
) -> None:
    """Raise the iterations of a sample, to `most`, until launch and timer are a small share of it.

    A computing iteration of SHORTEST whose threads tell when they ran is a sample: the shorter
    samples are, the fewer are preempted.

    Args:
        series: what is to be sampled.
        clock: the clock that samples are taken on.
        shortest: seconds of a sample, at least.
        most: iterations of a sample, at most.
        computes: its threads wait for nothing (`gpumap.engine.base.Benchmark`).
    """
    most = min(most, series.iteration.most)
    waits = _empty_syncs(series.iteration, clock)
    series.empty_sync = median(waits)  # reported, never subtracted
    enough = max(shortest, min(waits) / OVERHEAD)  # a busy moment lengthens the others
    while series.iterations_per_sample < most:
        taken, iterations = _looked(series, clock), series.iterations_per_sample
        single = computes and iterations == 1 and taken.traced  # one iteration may be enough
        seconds, least = taken.seconds, SHORTEST if single else enough
        if least <= seconds * iterations < _DISTURBED * enough:
            seconds = min(seconds, _looked(series, clock).seconds)  # or a busy moment would decide
        if single and seconds >= SHORTEST:
            if seconds < enough:
                series.warmed = True
                series.sample_seconds *= 2  # from now on with the iteration before it
            return
        if seconds * series.iterations_per_sample >= enough:
            return
        if seconds > 0.0:
            wanted = enough / seconds
            series.iterations_per_sample = int(max(wanted * 1.1, series.iterations_per_sample + 1))
        else:
            series.iterations_per_sample *= 2
        series.iterations_per_sample = min(series.iterations_per_sample, most)


def _looked(series: Series, clock: Clock) -> Sample:
    """Take a sample that does not count; note the seconds of all its iterations."""
    start = clock.now()
    taken = sample(series, clock)
    series.sample_seconds = clock.now() - start
    series.warmup += 1
    return taken


def warm_up(series: Series, clock: Clock, cap: float) -> None:
    """Take samples that do not count until they get no faster, or for `cap` seconds.

    Two windows of samples are compared, as long as fit into the time. At the cap the series is
    flagged if every sample of the last window is faster than every one before: by chance that is
    so in 1.4 % of runs at most.
    """
    start, window = clock.now(), _WINDOW
    taken: list[float] = []
    while not _steady(taken, window):
        passed = clock.now() - start
        if passed >= cap and series.warmup + len(taken) >= _FEWEST:
            before, after = taken[-2 * window : -window], taken[-window:]
            whole = _TESTED <= window <= len(before)
            series.capped = whole and max(after) < min(before)
            break
        if taken and passed > 0.0:
            window = min(max(int(cap * len(taken) / passed / 2), 1), _WINDOW)
        taken.append(sample(series, clock).seconds)
    series.warmup += len(taken)


def _steady(taken: list[float], window: int) -> bool:
    if len(taken) < 2 * window:
        return False
    return median(taken[-window:]) >= STEADY * median(taken[-2 * window : -window])


def _empty_syncs(work: Iteration, clock: Clock) -> list[float]:
    """Return what waiting costs when there is nothing to wait for, look by look."""
    looks = []
    for _ in range(_SYNC_LOOKS):
        work.renew()
        start = clock.now()
        work.finish()
        looks.append(clock.now() - start)
    return looks


def samples_of(series: Series, origin: float) -> Samples:
    """Return the samples of a case; a device that once had no interval, or CPU time, has none."""
    taken = tuple(series.taken.values())
    names, phases = (taken[0].intervals, taken[0].phases) if taken else ((), ())
    parts = {n: [one.intervals[n] for one in taken] for n in names
             if all(n in one.intervals for one in taken)}  # fmt: skip
    return Samples(
        tuple(one.seconds for one in taken),
        tuple(series.taken),
        series.iterations_per_sample,
        "host",
        tuple(one.queue for one in taken),
        tuple(one.cpu for one in taken if one.cpu is not None),
        series.empty_sync,
        {name: tuple(p.worked or 0.0 for p in each) for name, each in parts.items()
         if all(p.worked is not None for p in each)},
        {name: WorkTimes.of((p.start - origin, p.stop - origin) for p in each)
         for name, each in parts.items()},
        tuple(_marks(tuple(map(series.throttled.get, series.taken)))),
        {name: tuple(one.phases[name] for one in taken) for name in phases},
        tuple(series.beside.values()) if series.beside.keys() == series.taken.keys() else (),
    )  # fmt: skip


def take_control(series: Series, clock: Clock, block: int, *, often: bool) -> None:
    """Take a sample of a control, unless there is one of this block, and a recent one if `often`.

    What it says of the samples behind it is its time: by the CPU where its thread tells that, which
    leaves out when it was preempted.
    """
    recent = not often or clock.now() - series.latest[0] < BESIDE * series.sample_seconds
    if block in series.taken and recent:
        return
    taken, alone = sample(series, clock), series.iterations_per_sample == 1
    worked = [part.worked for part in taken.intervals.values() if alone and part.worked]
    series.latest = clock.now(), min(taken.seconds, max(worked, default=taken.seconds))
    series.taken.setdefault(block, taken)


def _marks(throttled: Iterable[Mapping[str, str] | None]) -> Iterator[SampleMark]:
    """Yield which samples are of a device that was held back, and by what."""
    for number, held in enumerate(throttled):
        if held:
            whys = (f"{device}: {why}" for device, why in held.items())
            yield SampleMark(number, "throttled", "; ".join(whys))


# --- short looks at each device, to choose the reference and sizes by

LOOKS = 5
_SECONDS = 0.1  # what is quick is looked at more often, by its shortest time,
_MOST = 50  # up to so many times, or a busy moment would choose


def times(
    bindings: Sequence[Binding],
    devices: OpenDevices,
    prepare: Callable[[Session], Callable[[], None]],
) -> dict[str, float]:
    """Return how long a piece of work takes on the device of each name.

    A device is timed once, whatever it is called. The devices take turns, so that a busy moment
    hits all of them.

    Args:
        bindings: the names.
        devices: the sessions of theirs, and the clock.
        prepare: puts the work on a device, and returns what queues it.

    Returns:
        Seconds by name, the shortest of a few times: what others on the machine disturb least. A
        device that fails has none: its own rows will say what is wrong with it.
    """
    jobs: dict[str, tuple[Callable[[], None], Session]] = {}
    seen: dict[str, list[float]] = {}
    for binding in one_of_each(bindings):
        with suppress(DeviceError):
            session = devices.sessions[binding.name]
            job = prepare(session)
            job()  # the first one compiles
            session.synchronize()
            jobs[binding.device.id], seen[binding.device.id] = (job, session), []
    while waiting := [id_ for id_ in jobs if not _enough(seen[id_])]:
        for id_ in waiting:
            try:
                (job, session), start = jobs[id_], devices.clock.now()
                job()
                session.synchronize()
                seen[id_].append(devices.clock.now() - start)
            except DeviceError:
                del jobs[id_], seen[id_]
    return {b.name: min(seen[b.device.id]) for b in bindings if b.device.id in seen}


def reference(bindings: Sequence[Binding], look: Look, base: str | None = None) -> Binding:
    """Return the binding that speed-ups are relative to, where no option names it.

    The name is part of a row's id, on which reports join, so that it must not differ from run to
    run: only the first devices of several models are compared.

    Args:
        bindings: names and devices.
        look: returns the times of some of them.
        base: the name of the reference in the baseline.

    Returns:
        The baseline's, else the first name where all devices are of one model, else the first one
        that no other is clearly faster than.
    """
    if found := next((binding for binding in bindings if binding.name == base), None):
        return found
    first: dict[object, Binding] = {}
    for binding in bindings:
        d = binding.device
        first.setdefault((d.backend, d.kind, d.name, d.memory_total, d.units), binding)
    models = tuple(first.values())
    times = look(models) if len(models) > 1 else {}
    enough = UNEQUAL * min(times.values(), default=0.0)
    return next((b for b in models if times.get(b.name, math.inf) <= enough), models[0])


def _enough(seconds: Sequence[float]) -> bool:
    looks = len(seconds)
    return looks >= LOOKS and (looks >= _MOST or looks * min(seconds) >= _SECONDS)
