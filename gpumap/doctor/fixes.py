"""An item of `preflight`, with what to do about it where it is not fit."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.files import shipped
from gpumap.model import FitnessCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.model import Estimate, Fitness


def checked(
    what: str,
    fitness: Fitness,
    text: str,
    name: str | None = None,
    other: str | None = None,
    figure: Estimate | None = None,
) -> FitnessCheck:
    """Return an item with its fix of fixes.toml."""
    fixes = _table()
    fix = fixes.get(fitness) or fixes.get(what) or fixes["other"]
    return FitnessCheck(what, fitness, text, None if fitness == "fit" else fix, name, other, figure)


@cache
def _table() -> Mapping[str, str]:
    return shipped("gpumap.doctor", "fixes.toml", dict[str, Any])
