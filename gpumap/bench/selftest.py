"""The self-test, A against A: the very same product measured as two cases.

Whatever differs is noise. There is one group for each device of the map, with the cases `a` and
`b`; both multiply the same matrices into the same memory. `b` is compared with `a` in consecutive
runs of blocks, each as long as a short comparison: every alarm is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.registry import BenchmarkSpec, Family
from gpumap.engine.base import Benchmark, Iteration, OpenDevices, Recipe
from gpumap.engine.estimates import time_and_rate
from gpumap.engine.products import BUFFERS, Pair, Product, multiplied
from gpumap.engine.stopping import LAST
from gpumap.engine.verify import host_bytes, one_of_each
from gpumap.judge.pairs import alarms, located, passing
from gpumap.model import Case, Group, Plan, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.dtypes import Arithmetic
    from gpumap.engine.base import Blocks, Figures
    from gpumap.judge.pairs import Outcome
    from gpumap.model import Alarms, Binding, Param, Samples

KEY = "selftest"
_SIDES = ("a", "b")
_SIZE = 256  # of the product
_DTYPE: Arithmetic = "float32"
_ITEMSIZE = 4
RUNS = 12  # of some two seconds each, in a minute for two devices
SHORTEST = 20  # blocks of a run


def selftest_plan(bindings: Sequence[Binding]) -> Plan:
    """Return A and B for each device, and the memory that they take."""
    chosen, buffer = one_of_each(bindings), _SIZE**2 * _ITEMSIZE
    together = (tuple(range(len(_SIDES))),)
    groups = tuple(Group(tuple(_both(b)), order=together, insists=True) for b in chosen)
    memory = {b.device.id: BUFFERS * buffer for b in chosen}
    return Plan(groups, {**memory, "host": host_bytes(_SIZE)}, buffer)


def false_alarms(case: Case, ratios: Sequence[float], threshold: float) -> Alarms:
    """Return the verdicts on consecutive runs of B over A, one ratio for each block."""
    from gpumap.model import Alarms  # a Struct: a shell's TAB loads this module

    length = max(len(ratios) // RUNS, SHORTEST)
    starts = range(0, len(ratios) - length + 1, length)
    words: list[str] = [_verdict(ratios[n : n + length], threshold) for n in starts[:RUNS]]
    counts = map(words.count, ("regression", "pass", "inconclusive"))
    (binding,) = case.bindings
    whole = length if words else 0
    return Alarms(case.id, binding.device.id, binding.name, threshold, whole, *counts)


def _verdict(run: Sequence[float], threshold: float) -> Outcome:
    """Return the verdict on a run in both directions: B may seem slower, or A."""
    slower = located(run, LAST / 2)
    if slower is None:
        return "inconclusive"
    both = (slower, -slower)
    if alarms([lambda _, way=way: way for way in both], threshold):  # type: ignore[misc]
        return "regression"
    clear = all(passing(way, threshold) != "inconclusive" for way in both)
    return "pass" if clear else "inconclusive"


class SelfTest(Benchmark):
    """A and B of each device, on opened sessions."""

    key = KEY
    work = "whole"

    def __init__(self, devices: OpenDevices, seed: int) -> None:
        self.plan = selftest_plan(devices.bindings)
        self._sessions = devices.sessions
        self._seed = seed
        self._iterations: dict[str, Iteration] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the matrices of the device before."""
        self._iterations = {}

    def iteration(self, case: Case) -> Iteration:
        """Return the iteration of a device: the same one for A and for B."""
        name = case.names[0]
        if name not in self._iterations:
            pair = Pair((self._seed, 0), _SIZE, _DTYPE)
            product = Product(name, self._sessions[name], pair)
            self._iterations[name] = multiplied([product], None, fetched=False)
        return self._iterations[name]

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:  # noqa: ARG002
        """Return time and rate of A or of B."""
        return time_and_rate(case, samples, confidence)


class SelfTestRecipe(Recipe):
    """Recipe of what `selftest` measures."""

    control = False  # A is what B is compared with

    def benchmark(self, devices: OpenDevices) -> SelfTest:
        """Return them on open devices."""
        return SelfTest(devices, self.settings.seed)


def _both(binding: Binding) -> Iterable[Case]:
    against = None
    for name in _SIDES:
        keys: dict[str, Param] = {"size": _SIZE, "dtype": _DTYPE}
        case = Case(KEY, name, keys, (binding,), Work(1, 2 * _SIZE**3), against)
        against = case.id
        yield case


SPEC = BenchmarkSpec(
    (Family(_SIDES, ("size", "dtype"), ("time", "rate")),),
    columns=("case", "on", "time", "rate", "error", "n", "trust", "status"),
    title=lambda case: "A against A: dot {size} x {size} {dtype}".format_map(case.params),
    sizes=("size",),
)  # fmt: skip
