"""What a command line chooses by name: cases, and the name of a map that is their reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.engine.base import Recipe, Settings
from gpumap.errors import QuestionError
from gpumap.text import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.model import Binding


class ReferenceRecipe(Recipe):
    """A recipe with cases, and a reference where they have one."""

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
