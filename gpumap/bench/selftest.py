"""A against A: the very same product measured as two cases, so that whatever differs is noise.

One group for each device of the map, with the cases `a` and `b`; both multiply the same matrices
into the same memory. `b` is compared with `a` in consecutive runs of blocks, each as long as a
short comparison: every alarm is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.base import Benchmark
from gpumap.bench.dot import Pair, Product, multiplied
from gpumap.bench.figures import by_block, ratio, time_and_rate
from gpumap.bench.keys import ProductKey
from gpumap.bench.operands import one_of_each
from gpumap.bench.registry import BenchmarkSpec, CaseSpec, Column, Family
from gpumap.bench.verify import host_bytes
from gpumap.judge.pairs import LAST, Change, alarms, located, passing
from gpumap.model import Case, Group, Plan, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.base import Round
    from gpumap.dtypes import Arithmetic
    from gpumap.judge.pairs import Word
    from gpumap.model import Alarms, Binding, Estimate, Param, Samples

KEY = "selftest"
CASES = ("a", "b")
SIZES = (1024, 512, 256, 128, 64)
PILOT = 512  # the size of the product whose time tells which one fits
_DTYPE: Arithmetic = "float32"
_ITEMSIZE = 4
_BUFFERS = 3  # a, b and out
RUNS = 12  # of some two seconds each, in a minute for two devices
SHORTEST = 20  # blocks of a run
_MEASURING = 0.6  # of a device's time: the rest is warm-up and checks
_WANTED = 2 * RUNS * SHORTEST  # blocks: runs of twice the shortest length


def fitting(pilot: float, share: float) -> int:
    """Return the size of the largest product of which enough fit into a device's share of time.

    Args:
        pilot: the seconds that a product of the size PILOT takes.
        share: the seconds that the device has.
    """
    enough = _MEASURING * share / (_WANTED * len(CASES))
    return next((n for n in SIZES if pilot * (n / PILOT) ** 3 <= enough), SIZES[-1])


def plan(bindings: Sequence[Binding], sizes: Mapping[str, int]) -> Plan:
    """Return A and B for each device, and the memory that they take; `sizes` is by name."""
    chosen = one_of_each(bindings)
    together = (tuple(range(len(CASES))),)
    groups = tuple(
        Group(tuple(_cases(b, sizes[b.name])), order=together, insists=True) for b in chosen
    )
    buffer = {b.device.id: sizes[b.name] ** 2 * _ITEMSIZE for b in chosen}
    memory = {id_: _BUFFERS * nbytes for id_, nbytes in buffer.items()}
    memory["host"] = max(host_bytes(sizes[b.name]) for b in chosen)
    return Plan(groups, memory, max(buffer.values()))


def false_alarms(case: Case, ratios: Sequence[float], threshold: float) -> Alarms:
    """Return the verdicts on consecutive runs of B over A, one ratio for each block."""
    from gpumap.model import Alarms  # a Struct: a shell's TAB loads this module

    length = max(len(ratios) // RUNS, SHORTEST)
    starts = range(0, len(ratios) - length + 1, length)
    words = [_word(ratios[n : n + length], threshold) for n in starts[:RUNS]]
    (binding,) = case.bindings
    return Alarms(
        case.id,
        binding.device.id,
        binding.name,
        threshold,
        length if words else 0,
        words.count("regression"),
        words.count("pass"),
        words.count("inconclusive"),
    )


def _word(run: Sequence[float], threshold: float) -> Word:
    """Return the verdict on a run in both directions: B may seem slower, or A."""
    found = located(run, LAST / 2)
    if found is None:
        return "inconclusive"
    slower = Change(found.value, found.low, found.high)
    both = (slower, -slower)
    if alarms([lambda _, way=way: way for way in both], threshold):  # type: ignore[misc]
        return "regression"
    clear = all(passing(way, threshold) != "inconclusive" for way in both)
    return "pass" if clear else "inconclusive"


class SelfTest(Benchmark):
    """A and B of each device, on opened sessions."""

    key = KEY

    def __init__(
        self,
        bindings: Sequence[Binding],
        sessions: Mapping[str, Session],
        sizes: Mapping[str, int],
        seed: int = 1,
    ) -> None:
        self.plan = plan(bindings, sizes)
        self._sessions = sessions
        self._seed = seed
        self._rounds: dict[str, Round] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the matrices of the device before."""
        self._rounds = {}

    def round(self, case: Case) -> Round:
        """Return the round of a device: the same one for A and for B."""
        name = case.names[0]
        if name not in self._rounds:
            pair = Pair((self._seed, 0), int(case.params["size"]), _DTYPE)
            product = Product(name, self._sessions[name], pair)
            self._rounds[name] = multiplied([product], None, fetched=False)
        return self._rounds[name]

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time and rate of A and of B, and B's false speed-up."""
        figures: dict[str, dict[str, Estimate]] = {}
        for case in group.cases:
            if case.id in samples:
                figures[case.id] = time_and_rate(case, samples[case.id], confidence)
        for case in group.cases:
            if case.against in figures and case.id in figures:
                a, b = by_block(samples[case.against]), by_block(samples[case.id])
                if (gain := ratio(a, b, confidence)) is not None:
                    figures[case.id]["speedup"] = gain
        return figures


def _cases(binding: Binding, size: int) -> Iterable[Case]:
    against = None
    for name in CASES:
        keys: dict[str, Param] = {"size": size, "dtype": _DTYPE}
        case = Case(KEY, name, keys, (binding,), Work(1, 2 * size**3), against)
        against = case.id
        yield case


SPEC = BenchmarkSpec(
    KEY,
    tuple(map(CaseSpec, CASES)),
    (Family(CASES, ("size", "dtype"), ("time", "rate", "speedup")),),
    columns=("case", "on", "time", "rate", Column("a/b", "speedup"), "error", "n", "trust",
             "status"),
    title=lambda case: "A against A: dot {size} x {size} {dtype}".format_map(case.params),
    row_key=ProductKey,
    sizes=("size",),
    work="whole",
)  # fmt: skip
