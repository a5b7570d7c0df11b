"""What more devices would give: computed, never measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpumap.model.figures import Estimate
from gpumap.model.fitting import Line
from gpumap.model.types import Above, Count, Word

Algorithm = Literal["native", "ring", "alltoall", "tree", "host"]


class Forecast(Struct, frozen=True):
    """What a number of devices would give with an algorithm: computed, never measured."""

    algorithm: Algorithm
    devices: Count
    metrics: Mapping[Word, Estimate]


class Payoff(Struct, frozen=True, rename={"best": "best_devices"}):
    """From which size of a step on a second device pays, and which number of devices pays most."""

    algorithm: Algorithm
    metrics: Mapping[Word, Estimate]  # from_compute; with a batch, from_batch
    pays: Literal["yes", "no", "unclear"] | None = None  # a second one; None: no compute time known
    best: Count | None = None  # of the numbers of devices that were asked for, the fastest


class LinkCost(Struct, frozen=True):
    """What a message between two devices costs, and how that is known."""

    source: str  # "given", or the id of a model
    latency: Estimate
    bandwidth: Estimate
    lines: Annotated[tuple[Line, ...], Meta(min_length=1)]


class Prediction(Struct, frozen=True, rename={"nbytes": "bytes", "compute": "compute_s"}):
    """What a data-parallel step would take on several devices, and what that is computed from.

    Strong scaling splits the work of one device; weak scaling gives each device as much.
    """

    nbytes: Count  # that each device exchanges in a step
    link: LinkCost
    scaling: Literal["strong", "weak"]
    network: str | None = None
    compute: Above | None = None  # seconds of a step on one device
    batch: Count | None = None  # examples of that step
    forecasts: tuple[Forecast, ...] = ()
    payoffs: tuple[Payoff, ...] = ()
