"""Control product: a fixed product on each device in every block of a run.

Two runs on one machine differ by more than their intervals say: the machine has changed between
them. What both measured beside the same product can be compared all the same, block by block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.bench.base import Benchmark
from gpumap.bench.dot import Pair, Product, multiplied
from gpumap.bench.figures import time_and_rate
from gpumap.bench.keys import ControlKey
from gpumap.bench.operands import one_of_each
from gpumap.bench.registry import CONTROL, BenchmarkSpec, CaseSpec, Family, is_control
from gpumap.bench.verify import host_bytes
from gpumap.model import Case, Group, Plan, Work, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.base import Round
    from gpumap.model import Binding, Estimate, Limit, Param, Samples

KEY = CONTROL
SIZE = 512  # large enough to keep any device at work, and quick
_BYTES = 4 * SIZE**2
_BUFFERS = 3  # a, b and out


def controlled(plan: Plan, bindings: Sequence[Binding]) -> Plan:
    """Return a plan with a control for each device in every group."""
    first = one_of_each(bindings)
    groups = tuple(
        replace(group, cases=(*group.cases, *(_case(binding, group.key) for binding in first)))
        for group in plan.groups
    )
    memory = dict(plan.memory)
    for binding in first:
        memory[binding.device.id] = memory.get(binding.device.id, 0) + _BUFFERS * _BYTES
    memory["host"] = memory.get("host", 0) + host_bytes(SIZE)  # one pair for all
    largest = max(plan.largest_buffer, _BYTES)
    return replace(plan, groups=groups, memory=memory, largest_buffer=largest)


class Controlled(Benchmark):
    """A benchmark, and the control beside it."""

    def __init__(
        self, inner: Benchmark, bindings: Sequence[Binding], sessions: Mapping[str, Session]
    ) -> None:
        self.key, self.computes = inner.key, inner.computes
        self.plan = controlled(inner.plan, bindings)
        self._inner = inner
        self._sessions = sessions
        self._pair = Pair((0, 0), SIZE, "float32")  # the same numbers in every run, whatever --seed
        self._rounds: dict[str, Round] = {}

    def begin(self, group: Group) -> None:
        """Let the benchmark let go; the control's matrices stay."""
        self._inner.begin(_without(group))

    def round(self, case: Case) -> Round:
        """Return the benchmark's round of a case, or the control's."""
        if not is_control(case):
            return self._inner.round(case)
        name = case.names[0]
        if name not in self._rounds:
            product = Product(name, self._sessions[name], self._pair)
            self._rounds[name] = multiplied([product], None, fetched=False)
        return self._rounds[name]

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return the benchmark's figures, and time and rate of each control."""
        figures = dict(self._inner.metrics(_without(group), samples, confidence))
        for case in group.cases:
            if is_control(case) and case.id in samples:
                figures[case.id] = time_and_rate(case, samples[case.id], confidence)
        return figures

    def limit(self, case: Case) -> Limit | None:
        """Return the benchmark's limit; a control is for comparing only."""
        return None if is_control(case) else self._inner.limit(case)


def _without(group: Group) -> Group:
    return replace(group, cases=tuple(case for case in group.cases if not is_control(case)))


def _case(binding: Binding, beside: str) -> Case:
    params: dict[str, Param] = {"size": SIZE, "dtype": "float32", "beside": beside}
    return Case(KEY, "product", params, (binding,), Work(1, 2 * SIZE**3))


SPEC = BenchmarkSpec(
    KEY,
    (CaseSpec("product"),),
    (Family(("product",), ("size", "dtype", "beside"), ("time", "rate")),),
    charts=("timeline",),
    row_key=ControlKey,
    sizes=("size",),
)
