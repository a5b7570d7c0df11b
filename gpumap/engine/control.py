"""The control product: a product of one size that is measured beside every case.

Two runs on one machine differ by more than their intervals say: the machine has changed between
them. What both measured beside the same product, the control, can be compared all the same, block
by block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.engine.base import Benchmark, Iteration
from gpumap.engine.estimates import time_and_rate
from gpumap.engine.products import BUFFERS, Pair, Product, multiplied
from gpumap.engine.verify import host_bytes, one_of_each
from gpumap.model import Case, Group, Plan, Work, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.engine.base import Metrics, Taken
    from gpumap.model import Binding, Limit, Param

KEY = "control"
SIZE = 512  # large enough to keep any device at work, and quick
_BYTES = 4 * SIZE**2


def controlled(plan: Plan, bindings: Sequence[Binding]) -> Plan:
    """Return a plan with controls in every group, on each device and on those that work at once."""
    first = one_of_each(bindings)
    groups = tuple(
        group if group.blocks else replace(group, cases=(*group.cases, *_controls(group, first)))
        for group in plan.groups
    )
    memory = dict(plan.memory)
    for binding in first:
        memory[binding.device.id] = memory.get(binding.device.id, 0) + BUFFERS * _BYTES
    memory["host"] = memory.get("host", 0) + host_bytes(SIZE)  # one pair for all
    largest = max(plan.largest_buffer, _BYTES)
    return replace(plan, groups=groups, memory=memory, largest_buffer=largest)


class Controlled(Benchmark):
    """A benchmark whose plan has control products in every group."""

    def __init__(self, inner: Benchmark, sessions: Mapping[str, Session]) -> None:
        self.key, self.computes, self.work = inner.key, inner.computes, inner.work
        self.plan = inner.plan
        self._inner = inner
        self._sessions = sessions
        self._pair = Pair((0, 0), SIZE, "float32")  # the same numbers in every run, whatever --seed
        self._products: dict[str, Product] = {}

    def begin(self, group: Group) -> None:
        """Let the benchmark let go; the control's matrices stay."""
        self._inner.begin(_without(group))

    def iteration(self, case: Case) -> Iteration:
        """Return the benchmark's iteration of a case, or the control's."""
        if not case.is_control:
            return self._inner.iteration(case)
        for name in case.names:
            if name not in self._products:
                self._products[name] = Product(name, self._sessions[name], self._pair)
        return multiplied([self._products[name] for name in case.names], None, fetched=False)

    def metrics(self, group: Group, samples: Taken, confidence: float) -> Metrics:
        """Return the benchmark's figures, and time and rate of each control."""
        figures = dict(self._inner.metrics(_without(group), samples, confidence))
        for case in group.cases:
            if case.is_control and case.id in samples:
                figures[case.id] = time_and_rate(case, samples[case.id], confidence)
        return figures

    def limit(self, case: Case) -> Limit | None:
        """Return the benchmark's limit; a control is for comparing only."""
        return None if case.is_control else self._inner.limit(case)


def _without(group: Group) -> Group:
    return replace(group, cases=tuple(case for case in group.cases if not case.is_control))


def _controls(group: Group, alone: Iterable[Binding]) -> Iterable[Case]:
    """Yield a control on each device, and on all devices of each case that computes on several.

    What devices take from each other at once, as two threads of a core do, a single one never sees.
    """
    places = [[binding] for binding in alone]
    places += [one_of_each(case.bindings) for case in group.cases if case.work.operations]
    params: dict[str, Param] = {"size": SIZE, "dtype": "float32", "beside": group.key}
    for place in {tuple(b.device.id for b in place): tuple(place) for place in places}.values():
        work = Work(len(place), len(place) * 2 * SIZE**3)
        yield Case(KEY, "product", params, place, work, role="control")
