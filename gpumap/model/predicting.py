"""What more devices would give: computed, never measured."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpumap.model.figures import Estimate
from gpumap.model.fitting import Line
from gpumap.model.types import Above, Computed, Count

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
