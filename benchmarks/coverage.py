"""How often an interval holds the truth: the whole procedure on scripted noise, many times over.

    python -m benchmarks.coverage [RUNS [RUNS_OF_THE_RUNNER]]

Two ways. The fast one draws block after block from the fake backend's noise and asks
`gpumap.stats` and `gpumap.bench.stopping` at each look whether to go on. The whole one lets the
runner measure fake devices. Each prints a Markdown table, which docs/method.md holds: a line for
each noise, figure and budget. The exit code is 1 if a line falls short of what it must hold.

Fixed: a precision of 1 %, 95 % intervals, noise with a standard deviation of 2 % on each case.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import takewhile
from multiprocessing import Pool
from random import Random
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

from benchmarks import asked
from gpumap import stats
from gpumap.backends.fake import FakeSession
from gpumap.backends.fake_clock import Engine, FakeClock
from gpumap.backends.fake_noise import NoiseScript, Unevenness
from gpumap.backends.fake_script import FakeDevice
from gpumap.bench.base import Settings
from gpumap.bench.dot import DotRound, Pair, Product
from gpumap.bench.figures import by_block, ratio, time_of
from gpumap.bench.runner import Runner
from gpumap.bench.stopping import Standing, done, flags, looks
from gpumap.model import Binding, Case, Device, DeviceRef, Group, Kind, Plan, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.bench.seen import Seen
    from gpumap.model import Estimate, Limit, Measurement, Samples

RUNS = 2000
RUNS_OF_THE_RUNNER = 500
SETTINGS = Settings(budget=math.inf, timeout=math.inf, precision=0.01)
BUDGETS = (40, 80, 160, SETTINGS.blocks)  # blocks at most; the last is the runner's own limit
_SIGMA = 0.02
_SPIKES, _SPIKE = 0.05, 1.5
_DRIFT_OVER = 160.0  # blocks
_ODD = ("unconverged", "unstable")
TIME, RATIO = "time", "ratio"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A noise, what it makes of the truth, and what must hold for it."""

    name: str
    noise: NoiseScript
    slow: NoiseScript | None = None  # a second noise below the first
    shared: bool = False  # both cases run on one device, one after the other
    centre: float = 1.0  # the median of what multiplies a time
    held: dict[str, float] | None = None  # by figure: runs whose interval holds the truth
    flagged: dict[str, float] | None = None  # runs that say that something is odd
    either: dict[str, float] | None = None  # one or the other
    bias: float = math.inf

    @property
    def budgets(self) -> tuple[int, ...]:
        """Return the budgets to look at; two modes would nearly always take all blocks."""
        return BUDGETS[:-1] if self.flagged else BUDGETS


def _noise(**keys: object) -> NoiseScript:
    return replace(NoiseScript(noise=_SIGMA), **keys)


def _spiked() -> float:
    """Return the median of a noise with spikes."""
    return math.exp(_SIGMA * NormalDist().inv_cdf(0.5 / (1 - _SPIKES)))


SCENARIOS = (
    Scenario("independent", _noise(), held={TIME: 0.93, RATIO: 0.93}),
    Scenario("AR 0.5", _noise(autocorrelation=0.5), held={TIME: 0.91, RATIO: 0.93}),
    Scenario("AR 0.9", _noise(autocorrelation=0.9), held={RATIO: 0.93}, either={TIME: 0.95}),
    Scenario(
        "AR 0.9, shared",
        _noise(autocorrelation=0.9, period=1.0),
        shared=True,
        held={RATIO: 0.93},
        either={TIME: 0.95},
    ),
    Scenario(
        "drift 5 %",
        _noise(drift=0.05, drift_over=_DRIFT_OVER),
        shared=True,
        held={RATIO: 0.93},
        bias=0.001,
    ),
    Scenario(
        "spikes",
        _noise(spikes=_SPIKES, spike=_SPIKE),
        centre=_spiked(),
        held={TIME: 0.93, RATIO: 0.93},
    ),
    Scenario(
        "spikes, AR 0.5",
        _noise(spikes=_SPIKES, spike=_SPIKE, autocorrelation=0.5),
        centre=_spiked(),
        held={TIME: 0.91, RATIO: 0.93},
    ),
    Scenario(
        "spikes, AR 0.9",
        _noise(spikes=_SPIKES, spike=_SPIKE, autocorrelation=0.9),
        centre=_spiked(),
    ),
    Scenario(
        "independent over AR 0.9 of 1 %",
        _noise(),
        slow=NoiseScript(noise=_SIGMA / 2, noise_seed=1, autocorrelation=0.9),
    ),
    Scenario("modes 1, 1.3", _noise(modes=(1.0, 1.3)), centre=math.nan, flagged={TIME: 0.99}),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended."""

    held: bool
    flagged: bool
    stopped: bool  # before the budget's end
    unstable: bool
    n: int
    error: float  # logarithm of the figure over the truth


# --- the fast way


def drawn(scenario: Scenario, figure: str, number: int) -> list[Outcome]:
    """Return how one run ends, for each budget."""
    source = Blocks(scenario, number)
    ends: list[Outcome] = []
    last: Outcome | None = None
    for n in takewhile(max(scenario.budgets).__ge__, looks()):
        if last is None or not last.stopped:
            last = source.outcome(figure, n)
        if n in scenario.budgets:
            ends.append(last if n == last.n else replace(last, stopped=True))
    return ends


class Blocks:
    """Two cases, block after block, as a runner would have taken them: true times 2 and 1."""

    def __init__(self, scenario: Scenario, number: int) -> None:
        self._scenario = scenario
        self._random = Random(number)  # noqa: S311 - an order, not a secret
        devices = ("a", "a") if scenario.shared else ("a", "b")
        layers = [layer for layer in (scenario.noise, scenario.slow) if layer]
        uneven = {
            d: [Unevenness(replace(n, noise_seed=n.noise_seed + 2 * number), d) for n in layers]
            for d in devices
        }
        self._cases = [(2.0, uneven[devices[0]]), (1.0, uneven[devices[1]])]
        self._times: tuple[list[float], list[float]] = ([], [])
        self._order = [0, 1]

    def outcome(self, figure: str, n: int) -> Outcome:
        """Return how a run ends that looks after `n` blocks."""
        self._take(n)
        reference, case = self._times
        ratios = [a / b for a, b in zip(reference, case, strict=True)]
        row = Standing(ratios if figure == RATIO else case, figure == RATIO)
        found = row.located(SETTINGS.confidence)
        raised = flags(row, len(stats.outliers(case)), SETTINGS)
        truth = self._truth(figure)
        return Outcome(
            found.low <= truth <= found.high,
            any(raised.values()),
            done(row.located(SETTINGS.confidence), SETTINGS.precision),
            raised["unstable"],
            n,
            math.log(found.value / truth),
        )

    def _truth(self, figure: str) -> float:
        """Return the median that very many samples over the same time would have."""
        if figure == RATIO:
            return 2.0
        noise, n = self._scenario.noise, len(self._times[0])
        return self._scenario.centre * (1 + noise.drift * min(n / 2 / noise.drift_over, 1.0))

    def _take(self, n: int) -> None:
        for block in range(len(self._times[0]), n):
            if block % 2:
                self._order.reverse()
            else:
                self._random.shuffle(self._order)
            for place, which in enumerate(self._order):
                seconds, layers = self._cases[which]
                for uneven in layers:
                    seconds *= uneven.factor(block + place / 2)
                self._times[which].append(seconds)


# --- the whole way


def measured(scenario: Scenario, figure: str, blocks: int, number: int) -> Outcome:
    """Return how one run of the runner ends, on two fake devices."""
    clock = FakeClock()
    benchmark = Two(scenario, figure, number, clock)
    settings = replace(SETTINGS, seed=number, blocks=blocks)
    *_, row = Runner(benchmark, clock, settings, Silent()).run()
    metric = row.metrics["speedup" if figure == RATIO else "time"]
    truth = scenario.centre if figure == TIME else 1.0
    return Outcome(
        metric.low <= truth <= metric.high,
        any(flag in row.flags for flag in _ODD),
        row.stop is not None and row.stop.why == "precision",
        "unstable" in row.flags,
        row.stop.n if row.stop else 0,
        math.log(metric.value / truth),
    )


class Two:
    """A benchmark of a product of one second on each of two devices; or of one alone."""

    key = "dot"

    def __init__(self, scenario: Scenario, figure: str, number: int, clock: FakeClock) -> None:
        names = ("a", "b") if figure == RATIO else ("a",)
        self._rounds: dict[str, DotRound] = {}
        cases: list[Case] = []
        engine = Engine()
        for order, name in enumerate(names):
            place = 0 if scenario.shared else order
            script = _script(scenario, number, f"cuda{place}")
            device = _device(place)
            session = FakeSession(device, script, clock, engine if scenario.shared else Engine())
            against = cases[0].id if cases else None
            case = Case("dot", name, {}, (Binding(name, device),), Work(1, 1), against)
            self._rounds[case.id] = DotRound([Product(name, session, _pair())], None, fetched=False)
            cases.append(case)
        self.plan = Plan((Group(tuple(cases)),))

    def begin(self, group: Group) -> None:
        """Do nothing: the matrices stay."""

    def round(self, case: Case) -> DotRound:
        """Return the product of a case."""
        return self._rounds[case.id]

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the time of each case, and the ratio to the first."""
        figures: dict[str, dict[str, Estimate]] = {}
        for case in group.cases:
            mine = samples[case.id]
            figures[case.id] = {"time": time_of(mine, confidence)}
            if case.against and (reference := samples.get(case.against)):
                gain = ratio(by_block(reference), by_block(mine), confidence)
                figures[case.id] |= {"speedup": gain} if gain else {}
        return figures

    def limit(self, case: Case) -> Limit | None:
        """Return None: a scripted device is as fast as its script says."""
        del case


def _device(place: int) -> Device:
    ref = DeviceRef(Kind.CUDA, place)
    return Device(id=f"cuda:{place}", kind=Kind.CUDA, ref=ref, name="Fake device", backend="fake")


def _script(scenario: Scenario, number: int, ref: str) -> FakeDevice:
    """Return a device that takes a second for a product, and nothing for a copy."""
    noise = scenario.noise
    keys = {key: getattr(noise, key) for key in NoiseScript.__dataclass_fields__}
    seconds = 2.0 if scenario.shared else 1.0  # of a block, on this device
    keys |= {"noise_seed": number, "period": noise.period * seconds}
    keys |= {"drift_over": noise.drift_over * seconds}
    return FakeDevice(ref, rate=2 * _SIZE**3, bandwidth=1e17, **keys)


_SIZE = 8


@cache
def _pair() -> Pair:
    return Pair((1, 0), _SIZE, "float32")


class Silent:
    """An observer that hears nothing."""

    def planned(self, plan: Plan) -> None:
        """Do nothing."""

    def block(self, seen: Seen) -> None:
        """Do nothing."""

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Do nothing."""


# --- the table


@dataclass(frozen=True, slots=True)
class Line:
    """What the runs of one noise, figure and budget came to."""

    scenario: Scenario
    figure: str
    budget: int
    outcomes: tuple[Outcome, ...]

    def share(self, what: str) -> float:
        """Return the share of outcomes of which a field holds; `either` is held or flagged."""
        if what == "either":
            return fmean(o.held or o.flagged for o in self.outcomes)
        return fmean(getattr(o, what) for o in self.outcomes)

    @property
    def bias(self) -> float:
        """Return the mean error of the figure, relative."""
        return fmean(o.error for o in self.outcomes)

    @property
    def required(self) -> dict[str, float]:
        """Return the least share of each thing that must hold, from 80 blocks on."""
        wanted = {what: getattr(self.scenario, what) for what in ("held", "flagged", "either")}
        least = {
            what: each[self.figure] for what, each in wanted.items() if self.figure in (each or ())
        }
        return least if self.budget >= BUDGETS[1] else {}

    @property
    def short(self) -> bool:
        """Return whether something that must hold does not."""
        biased = self.figure == RATIO and not abs(self.bias) < self.scenario.bias
        return biased or any(self.share(what) < least for what, least in self.required.items())

    def __str__(self) -> str:
        must = ", ".join(f"{what} {least:.0%}" for what, least in self.required.items())
        n = fmean(o.n for o in self.outcomes)
        truth = not math.isnan(self.bias)
        cells = (
            self.scenario.name,
            self.figure,
            f"{self.budget:,}",
            f"{self.share('held'):.1%}" if truth else "-",
            f"{self.share('stopped'):.0%}",
            f"{n:.0f}",
            f"{self.share('flagged'):.1%}",
            f"{self.share('unstable'):.1%}",
            f"{self.share('either'):.1%}",
            f"{self.bias:+.3%}" if truth else "-",
            f"{must}: {'SHORT' if self.short else 'met'}" if must else "",
        )
        return f"| {' | '.join(cells)} |"


_HEAD = (
    "| noise | figure | blocks at most | held | stopped | mean n | flagged | unstable "
    "| held or flagged | bias | must |\n" + "| --- " * 2 + "| ---: " * 8 + "| --- |"
)


def fast_lines(pool: Pool, runs: int) -> list[Line]:
    """Draw every scenario, print its lines and return them."""
    found = []
    for scenario in SCENARIOS:
        for figure in (TIME, RATIO):
            results = pool.map(partial(drawn, scenario, figure), range(runs), 20)
            for budget, outcomes in zip(scenario.budgets, zip(*results, strict=True), strict=True):
                found.append(Line(scenario, figure, budget, tuple(outcomes)))
                print(found[-1], flush=True)
    return found


def whole_lines(pool: Pool, runs: int) -> list[Line]:
    """Measure the scenarios that must hold something, print their lines and return them."""
    found = []
    for scenario in SCENARIOS[:6]:
        for figure in (TIME, RATIO):
            if figure == TIME and scenario.noise.drift:
                continue  # the truth would depend on when the runner began
            for budget in (160, SETTINGS.blocks):
                job = partial(measured, scenario, figure, budget)
                outcomes = pool.map(job, range(runs), 20)
                found.append(Line(scenario, figure, budget, tuple(outcomes)))
                print(found[-1], flush=True)
    return found


def main() -> int:
    """Print both tables, and return 1 if a line falls short."""
    defaults = {"RUNS": RUNS, "RUNS_OF_THE_RUNNER": RUNS_OF_THE_RUNNER}
    runs, few = asked.numbers(__doc__, defaults)
    with Pool() as pool:
        print(f"The statistics alone, {runs} runs a line:\n\n{_HEAD}")
        lines = fast_lines(pool, runs)
        print(f"\nThe whole runner, {few} runs a line:\n\n{_HEAD}")
        lines += whole_lines(pool, few)
    return int(any(line.short for line in lines))


if __name__ == "__main__":
    sys.exit(main())
