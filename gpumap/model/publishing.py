"""Tables that were published, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from gpumap.model.figures import Estimate
from gpumap.model.types import Above, Code, Count, Positive, Times, Word


class Cell(Struct, frozen=True, rename={"train": "train_s", "comm": "comm_s", "nbytes": "bytes"}):
    """A published time: of training alone, and of the exchanges beside it."""

    row: str
    network: str
    devices: Count
    train: Above
    comm: Above | None  # None: nothing is said of it
    text: Times  # as published: 10.35+0.78
    batch: Count | None = None  # examples on each device
    examples: Count | None = None  # that the times are for
    nbytes: Count | None = None  # that each device exchanges in a step
    metrics: Mapping[Word, Estimate] = field(default_factory=dict)
    flags: tuple[Code, ...] = ()


class Exchanged(Struct, frozen=True, rename={"predicted": "predicted_s", "measured": "measured_s"}):
    """What exchanges took, and what a model says that was not fitted to them."""

    devices: Count
    predicted: Positive
    measured: Above

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0


class LeftOut(Struct, frozen=True, rename={"fixed": "fixed_s", "exchanged": "exchanges"}):
    """A row, predicted from the exchanges of all others: fixed cost, and bytes over bandwidth."""

    row: str
    fixed: Positive  # seconds of an exchange
    bandwidth: Above | None  # None: without end
    exchanged: tuple[Exchanged, ...]


class OtherLink(Struct, frozen=True):
    """That a number of devices does not go by the model of fewer ones; ends over all rows."""

    devices: Count
    ratio: tuple[Positive, Positive]  # measured over predicted
    bandwidth: tuple[Above, Above] | None  # that it takes; None: not even an infinite one would do


class Published(Struct, frozen=True, rename={"fitted": "fitted_devices", "others": "other_links"}):
    """A table that was published, what follows from its cells, and what predicts them."""

    origin: str  # a file, or the table that gpumap ships
    source: tuple[str, ...]  # what the table says of itself
    cells: Annotated[tuple[Cell, ...], Meta(min_length=1)]
    fitted: tuple[Count, ...] = ()  # the numbers of devices that the models are fitted to
    models: tuple[LeftOut, ...] = ()
    others: tuple[OtherLink, ...] = ()
