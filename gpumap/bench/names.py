"""Names of a map that a benchmark needs: two of them for some cases, one as the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.engine.base import OpenDevices, Recipe, Settings
from gpumap.engine.sampling import patience, reference
from gpumap.errors import QuestionError
from gpumap.model import Reason
from gpumap.text import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.model import Binding, Report


def check_names(
    spec: BenchmarkSpec, bindings: Sequence[Binding], requested: Sequence[str] | None
) -> None:
    """Refuse a requested case that needs more names than the map has.

    Raises:
        QuestionError: one does; a case that was not requested is skipped instead.
    """
    for case in requested or ():
        if _several(spec, case) and len(bindings) == 1:
            fix = "map a second name, or omit the case"
            raise QuestionError(f"the case {case} needs two names, and the map has one", fix)


def one_device(spec: BenchmarkSpec, case: str, bindings: Sequence[Binding]) -> Reason | None:
    """Return why a case of several devices that was not requested is skipped; None if it is not."""
    if _several(spec, case) and len(bindings) == 1:
        return Reason("one-device", "the map has one name: a speed-up needs two")
    return None


def _several(spec: BenchmarkSpec, case: str) -> bool:
    return any(one.several for one in spec.cases if one.name == case)


def reference_of(report: Report, bench: str, backend: str) -> str | None:
    """Return the name that the reference of a backend ran on in a report; None without one."""
    alone = (
        row.case.bindings[0]
        for row in report.measurements
        if row.case.bench == bench and row.case.role != "solo" and len(row.case.names) == 1
    )
    return next((b.name for b in alone if b.device.backend == backend), None)


class ReferenceRecipe(Recipe):
    """A recipe with a reference, cases, and a type of elements."""

    key: str  # of its rows
    dtypes: tuple[str, ...]
    every: tuple[str, ...]  # case
    dtype: Any  # one of `dtypes`
    params: Any
    pilot: Callable[..., Mapping[str, float]]  # a quick time for each name, to choose by

    def __init__(
        self, settings: Settings, *, dtype: str, cases: str | None, reference: str | None
    ) -> None:
        super().__init__(settings)
        (self.dtype,) = chosen(dtype, self.dtypes, "element type", "--dtype", most=1)
        if cases is not None:
            self.cases = chosen(cases, self.every, "case", "--cases")
        self._name = reference

    def named(self, bindings: Sequence[Binding]) -> Binding | None:
        """Return the reference that was named; None where it is to be chosen on open devices.

        Raises:
            QuestionError: the map does not have the name.
        """
        found = next((binding for binding in bindings if binding.name == self._name), None)
        if self._name is not None and found is None:
            fix = f"use one of the map's names: {', '.join(b.name for b in bindings)}"
            raise QuestionError(f"--reference: the map has no name {self._name}", fix)
        return found

    def chosen(self, bindings: Sequence[Binding], devices: OpenDevices) -> Binding:
        """Return the baseline's reference, or one by a look at the devices."""

        def look(some: Sequence[Binding]) -> Mapping[str, float]:
            most = patience(self.settings.budget)
            return self.pilot(some, devices.sessions, devices.clock, self.params, most)

        backend = bindings[0].device.backend
        base = reference_of(self.base, self.key, backend) if self.base else None
        return reference(bindings, look, base)
