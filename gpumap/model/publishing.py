"""Tables that were published, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.model.figures import Estimate


@dataclass(frozen=True, slots=True)
class Cell:
    """A published time: of training alone, and of the exchanges beside it."""

    row: str
    network: str
    devices: int
    train: float
    comm: float | None  # None: nothing is said of it
    text: str  # as published: 10.35+0.78
    batch: int | None = None  # examples on each device
    examples: int | None = None  # that the times are for
    nbytes: int | None = None  # that each device exchanges in a step
    metrics: Mapping[str, Estimate] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What exchanges took, and what a model says that was not fitted to them."""

    devices: int
    predicted: float
    measured: float

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row, predicted from the exchanges of all others: fixed cost, and bytes over bandwidth."""

    row: str
    fixed: float  # seconds of an exchange
    bandwidth: float
    exchanged: tuple[Exchanged, ...]


@dataclass(frozen=True, slots=True)
class OtherLink:
    """That a number of devices does not go by the model of fewer ones; ends over all rows."""

    devices: int
    ratio: tuple[float, float]  # measured over predicted
    bandwidth: tuple[float, float] | None  # that it takes; None: not even an infinite one would do


@dataclass(frozen=True, slots=True)
class Published:
    """A table that was published, what follows from its cells, and what predicts them."""

    origin: str  # a file, or the table that gpumap ships
    source: tuple[str, ...]  # what the table says of itself
    cells: tuple[Cell, ...]
    fitted: tuple[int, ...] = ()  # the numbers of devices that the models are fitted to
    models: tuple[LeftOut, ...] = ()
    others: tuple[OtherLink, ...] = ()
