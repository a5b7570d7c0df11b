"""Tables that were published, and what follows from them.

What more devices would give: computed, never measured.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gpumap.model.figures import Estimate
from gpumap.model.fitting import Line
from gpumap.model.types import Above, Code, Computed, Count, Positive, Times

Algorithm = Literal["native", "ring", "alltoall", "tree", "host"]


class Forecast(Struct, frozen=True):
    """What a number of devices would give with an algorithm: computed, never measured.

    Attributes:
        algorithm: An algorithm of exchanges.
        devices: How many.
        metrics: Figures that are computed; low and high are what the link's intervals allow
            together, or the figure itself.
    """

    algorithm: Algorithm
    devices: Count
    metrics: Computed


class Payoff(Struct, frozen=True, rename={"best": "best_devices"}):
    """From which size of a step on a second device pays, and which number of devices pays most.

    Attributes:
        algorithm: An algorithm of exchanges.
        metrics: Figures that are computed; low and high are what the link's intervals allow
            together, or the figure itself.
        pays: Whether a second device pays; null: no compute time is known.
        best: The fastest of the numbers of devices.
    """

    algorithm: Algorithm
    metrics: Computed
    pays: Literal["yes", "no", "unclear"] | None = None
    best: Count | None = None


class LinkCost(Struct, frozen=True):
    """What a message between two devices costs, and how that is known.

    Attributes:
        source: given, or the id of a model.
        latency: Of a message.
        bandwidth: Each way.
        lines: The model's lines, in the order of sizes.
    """

    source: str
    latency: Estimate
    bandwidth: Estimate
    lines: Annotated[tuple[Line, ...], Meta(min_length=1)]


class Prediction(Struct, frozen=True, rename={"nbytes": "bytes", "compute": "compute_s"}):
    """What a data-parallel step would take on several devices, and what that is computed from.

    Strong scaling splits the work of one device; weak scaling gives each device as much.

    Attributes:
        nbytes: That each device exchanges in a step.
        link: What a message between two devices costs.
        scaling: strong: the devices share the step of one; weak: each does as much.
        network: Whose parameters those are.
        compute: A step on one device, without an exchange.
        batch: Examples of that step.
        forecasts: What each number of devices would give, algorithm by algorithm.
        payoffs: Whether a second device pays, by each algorithm.
    """

    nbytes: Count
    link: LinkCost
    scaling: Literal["strong", "weak"]
    network: str | None = None
    compute: Above | None = None
    batch: Count | None = None
    forecasts: tuple[Forecast, ...] = ()
    payoffs: tuple[Payoff, ...] = ()


class Cell(Struct, frozen=True, rename={"train": "train_s", "comm": "comm_s", "nbytes": "bytes"}):
    """A published time: of training alone, and of the exchanges beside it.

    Attributes:
        row: Its row: the network, at its batch.
        network: What was trained.
        devices: How many.
        train: Training alone.
        comm: The exchanges beside it; null: the table has none.
        text: As published: 10.35+0.78.
        batch: Examples on each device in a step.
        examples: That the times are for.
        nbytes: That each device exchanges in a step.
        metrics: Figures that are computed; low and high are what the link's intervals allow
            together, or the figure itself.
        flags: What is odd.
    """

    row: str
    network: str
    devices: Count
    train: Above
    comm: Above | None
    text: Times
    batch: Count | None = None
    examples: Count | None = None
    nbytes: Count | None = None
    metrics: Computed = field(default_factory=dict)
    flags: tuple[Code, ...] = ()


class Exchanged(Struct, frozen=True, rename={"predicted": "predicted_s", "measured": "measured_s"}):
    """What exchanges took, and what a model says that was not fitted to them.

    Attributes:
        devices: How many.
        predicted: By the model.
        measured: By the table.
    """

    devices: Count
    predicted: Positive
    measured: Above

    @property
    def miss(self) -> float:
        """Return how far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1.0


class LeftOut(Struct, frozen=True, rename={"fixed": "fixed_s", "exchanged": "exchanges"}):
    """A row, predicted from the exchanges of all others: fixed cost, and bytes over bandwidth.

    Attributes:
        row: Which.
        fixed: The fixed cost of an exchange.
        bandwidth: In B/s; null: without an end.
        exchanged: What was predicted.
    """

    row: str
    fixed: Positive
    bandwidth: Above | None
    exchanged: tuple[Exchanged, ...]


class OtherLink(Struct, frozen=True):
    """That a number of devices does not go by the model of fewer ones; ends over all rows.

    Attributes:
        devices: How many.
        ratio: Measured over predicted, least and most of all rows.
        bandwidth: In B/s, least and most; null: no bandwidth explains it.
    """

    devices: Count
    ratio: tuple[Positive, Positive]
    bandwidth: tuple[Above, Above] | None


class Published(Struct, frozen=True, rename={"fitted": "fitted_devices", "others": "other_links"}):
    """A table that was published, what follows from its cells, and what predicts them.

    Attributes:
        origin: A file, or the name of the table that gpumap ships.
        source: What the table says of itself, line by line.
        cells: Its cells.
        fitted: The numbers of devices that the models are fitted to.
        models: The exchanges of each row, predicted by all others.
        others: Numbers of devices that need a second, slower link.
    """

    origin: str
    source: tuple[str, ...]
    cells: Annotated[tuple[Cell, ...], Meta(min_length=1)]
    fitted: tuple[Count, ...] = ()
    models: tuple[LeftOut, ...] = ()
    others: tuple[OtherLink, ...] = ()
