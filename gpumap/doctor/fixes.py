"""What to do about an item of `preflight` that is not fit."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.model import Fitness


def fix_of(group: Literal["step", "counter"], what: str, fitness: Fitness) -> str | None:
    """Return what to do about an item by its name and verdict; None where it is fit."""
    if fitness == "fit":
        return None
    fixes = _table()[group]
    return fixes.get(fitness) or fixes.get(what) or fixes["other"]


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    return shipped("gpumap.doctor", "fixes.toml", dict[str, Any])
