"""The one way in which every benchmark is measured.

Group by group: verify, calibrate, warm up, take blocks, verify what the last of them left. A block
takes every case of its group once, in seeded order, and the next block takes them in reverse, so
that drift hits all alike.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from gpumap import stats
from gpumap.bench.timing import Series, calibrate, sample, warm_up
from gpumap.errors import DeviceError, Unsupported
from gpumap.model import Measurement, Reason, SampleMark, Samples, Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.backends.base import Clock
    from gpumap.bench.base import Benchmark, Observer, Round, Settings
    from gpumap.model import Case, Check, Estimate, Group

_WARM_SHARE = 0.3  # of a group's time, for all its cases together
_WARM_CAP = 1.0  # seconds for one case


class Runner:
    """Measures a benchmark; `unfinished` tells at any moment what there is of the current group."""

    def __init__(
        self, benchmark: Benchmark, clock: Clock, settings: Settings, observer: Observer
    ) -> None:
        self._benchmark = benchmark
        self._clock = clock
        self._settings = settings
        self._observer = observer
        self._random = random.Random(settings.seed)  # noqa: S311 - an order, not a secret
        self._origin = clock.now()
        self._group: Group | None = None
        self._series: dict[str, Series] = {}
        self._checks: dict[str, Check] = {}
        self._failures: dict[str, Reason] = {}
        self._why = "blocks"

    def run(self) -> Iterator[Measurement]:
        """Yield a measurement for every case of the plan, as each group ends."""
        plan = self._benchmark.plan
        self._observer.planned(plan)
        end = self._origin + self._settings.budget
        for number, group in enumerate(plan.groups):
            share = (end - self._clock.now()) / (len(plan.groups) - number)
            rows = self._measure(group, self._clock.now() + share)
            self._observer.ended(rows)
            yield from rows

    def unfinished(self, why: str) -> list[Measurement]:
        """Return what there is of the group that is being measured, for a run that was stopped."""
        self._why = why
        return self._rows(self._group) if self._group is not None else []

    def _measure(self, group: Group, end: float) -> list[Measurement]:
        self._series, self._checks, self._failures = {}, {}, {}
        self._group, self._why = group, "blocks"
        self._prepare(group)
        self._warm(end)
        self._take_blocks(group, end)
        self._check_again()
        rows = self._rows(group)
        self._group = None
        self._series = {}  # buffers of this group end here, before the next one's begin
        return rows

    def _prepare(self, group: Group) -> None:
        self._benchmark.begin(group)
        for case in group.cases:
            if case.skip is None:
                self._ready(case)

    def _ready(self, case: Case) -> None:
        try:
            work = self._benchmark.round(case)
            self._checks[case.id] = _verified(work)
            if self._checks[case.id].passed:
                self._series[case.id] = Series(work, warmup=1)  # the round that was verified
                calibrate(self._series[case.id], self._clock)
        except (DeviceError, Unsupported) as error:
            self._lose(case.id, error)

    def _warm(self, end: float) -> None:
        share = (end - self._clock.now()) * _WARM_SHARE / max(len(self._series), 1)
        for id_, series in list(self._series.items()):
            try:
                warm_up(series, self._clock, min(share, _WARM_CAP))
            except DeviceError as error:
                self._lose(id_, error)

    def _take_blocks(self, group: Group, end: float) -> None:
        order: list[str] = []
        for block in range(self._settings.blocks):
            if self._clock.now() >= end and block:
                self._why = "budget"
                return
            order = self._order(order, block)
            for id_ in order:
                self._take(id_, block)
            self._observer.block(group, (block + 1) / self._settings.blocks)

    def _check_again(self) -> None:
        """Look at what the last samples left: a device may go wrong while it is measured."""
        for id_, series in self._series.items():
            if not self._running(id_):
                continue
            try:
                check = series.round.check()
            except DeviceError as error:
                self._lose(id_, error)
            else:
                self._checks[id_] = check

    def _order(self, before: list[str], block: int) -> list[str]:
        if block % 2:
            return [id_ for id_ in reversed(before) if self._running(id_)]
        order = [id_ for id_ in self._series if self._running(id_)]
        self._random.shuffle(order)
        return order

    def _running(self, id_: str) -> bool:
        return id_ not in self._failures

    def _take(self, id_: str, block: int) -> None:
        series = self._series[id_]
        try:
            seconds, spans = sample(series, self._clock)
        except DeviceError as error:
            self._lose(id_, error)
            return
        series.seconds.append(seconds)
        series.blocks.append(block)
        for name, (start, stop) in spans.items():
            span = (start - self._origin, stop - self._origin)
            series.spans.setdefault(name, []).append(span)

    def _lose(self, id_: str, error: DeviceError | Unsupported) -> None:
        self._failures[id_] = Reason(error.code, str(error))

    def _rows(self, group: Group) -> list[Measurement]:
        samples = {id_: self._samples(s) for id_, s in self._series.items()}
        good = {
            i: s
            for i, s in samples.items()
            if s.seconds and self._running(i) and self._checks[i].passed
        }
        metrics = self._benchmark.metrics(group, good, self._settings.confidence)
        return [self._row(case, samples.get(case.id), metrics.get(case.id, {}))
                for case in group.cases]  # fmt: skip

    def _row(
        self, case: Case, samples: Samples | None, metrics: Mapping[str, Estimate]
    ) -> Measurement:
        if case.skip is not None:
            return Measurement(case, "skipped", case.skip)
        check = self._checks.get(case.id)
        if case.id in self._failures:
            return Measurement(
                case, "failed", self._failures[case.id], samples=samples, check=check
            )
        if check is not None and not check.passed:
            return Measurement(case, "failed", _wrong(check), samples=samples, check=check)
        if samples is None or not samples.seconds:
            return Measurement(case, "skipped", Reason("stopped", self._why), check=check)
        return Measurement(
            case,
            "ok",
            None,
            self._flags(case, samples, metrics),
            samples,
            self._stop(case, samples),
            check,
            metrics,
        )

    def _flags(
        self, case: Case, samples: Samples, metrics: Mapping[str, Estimate]
    ) -> tuple[str, ...]:
        time = metrics["time"]
        half_width = (time.high - time.low) / 2
        few = not stats.enough(len(samples.seconds), self._settings.confidence)
        flags = {
            "unconverged": few or half_width > self._settings.precision * time.value,
            "unstable": few,  # the interval is the whole range, and covers less than it says
            "shared-silicon": _shares(case),
            "warm-up-capped": self._series[case.id].capped,
        }
        return tuple(flag for flag, raised in flags.items() if raised)

    def _stop(self, case: Case, samples: Samples) -> Stop:
        found = stats.location(samples.seconds, self._settings.confidence)
        warmup = self._series[case.id].warmup
        return Stop(self._why, found.n, warmup, found.autocorrelation, found.effective_n)

    @staticmethod
    def _samples(series: Series) -> Samples:
        far = stats.outliers(series.seconds) if series.seconds else []
        return Samples(
            tuple(series.seconds),
            tuple(series.blocks),
            series.rounds_per_sample,
            "host",
            {name: tuple(spans) for name, spans in series.spans.items()},
            tuple(SampleMark(n, "outlier", f"{d:.1f} MAD from the median") for n, d in far),
        )


def _verified(work: Round) -> Check:
    work.poison()
    work.queue()
    work.finish()
    return work.check()


def _wrong(check: Check) -> Reason:
    if check.first_bad_offset is not None:
        text = f"byte {check.first_bad_offset} of {check.nbytes} is wrong"
    else:
        text = f"error {check.max_error:.3g} is above the bound {check.bound:.3g}"
    return Reason("wrong-data", text)


def _shares(case: Case) -> bool:
    seen: set[str] = set()
    for binding in case.bindings:
        if not seen.isdisjoint(binding.device.silicon):
            return True
        seen |= binding.device.silicon
    return False
