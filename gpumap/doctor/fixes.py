"""An item of `preflight`, with what to do about it where it is not fit."""

from __future__ import annotations

from gpumap.files import shipped
from gpumap.model import FitnessCheck, replace


def fixed(check: FitnessCheck) -> FitnessCheck:
    """Return an item with what to do about it, where it is not fit and that is not known yet."""
    if check.fitness == "fit" or check.fix is not None:
        return check
    fixes = shipped("gpumap.doctor", "fixes.toml", dict)
    return replace(check, fix=fixes.get(check.fitness) or fixes.get(check.what) or fixes["other"])
