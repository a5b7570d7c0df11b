"""An item of `preflight`, with what to do about it where it is not fit."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.files import shipped
from gpumap.model import FitnessCheck, replace

if TYPE_CHECKING:
    from collections.abc import Mapping


def fixed(check: FitnessCheck) -> FitnessCheck:
    """Return an item with what to do about it where it is not fit."""
    if check.fitness == "fit":
        return check
    fixes = _table()
    return replace(check, fix=fixes.get(check.fitness) or fixes.get(check.what) or fixes["other"])


@cache
def _table() -> Mapping[str, str]:
    return shipped("gpumap.doctor", "fixes.toml", dict[str, Any])
