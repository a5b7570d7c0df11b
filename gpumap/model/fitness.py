"""What `preflight` checked: one item of a name, of a pair of names, or of the node."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpumap.model.field_types import Code
from gpumap.model.maps import Estimate

Fitness = Literal["fit", "unfit", "missing", "wrong-data", "cannot-tell"]
WORST_FIRST: tuple[Fitness, ...] = ("wrong-data", "missing", "unfit", "cannot-tell", "fit")


class FitnessCheck(Struct, frozen=True):
    """One item that was checked, and what it says of whether the machine may take a job.

    Attributes:
        what: The item: a topic of `gpumap explain preflight`.
        fitness: What it says. cannot-tell: it could not be read, tried or judged.
        text: What was seen.
        fix: What to do about it; null: it is fit.
        name: Of the map; null: it is of the whole node.
        other: The second name of a pair; null: it is of one.
        figure: What was measured; null: nothing was.
    """

    what: Code
    fitness: Fitness
    text: str
    fix: str | None = None
    name: str | None = None
    other: str | None = None
    figure: Estimate | None = None


def worst(checks: tuple[FitnessCheck, ...]) -> Fitness:
    """Return what some checks say together: the worst of them; of none nothing is known."""
    found = {check.fitness for check in checks}
    return next((each for each in WORST_FIRST if each in found), "cannot-tell")
