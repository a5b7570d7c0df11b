"""Names of a map that a benchmark needs: two of them for some cases, one as the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.engine.base import Recipe, Settings
from gpumap.errors import QuestionError
from gpumap.model import Reason
from gpumap.text import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.model import Binding


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


class ReferenceRecipe(Recipe):
    """A recipe with a reference and cases."""

    every: tuple[str, ...]  # case

    def __init__(self, settings: Settings, *, cases: str | None, reference: str | None) -> None:
        super().__init__(settings)
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
