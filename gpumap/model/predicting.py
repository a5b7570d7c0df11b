"""What more devices would give: computed, never measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpumap.model.figures import Estimate


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a number of devices would give with an algorithm: computed, never measured."""

    algorithm: str
    devices: int
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Payoff:
    """From which size of a step on a second device pays, and which number of devices pays most."""

    algorithm: str
    metrics: Mapping[str, Estimate]  # from_compute; with a batch, from_batch
    pays: Literal["yes", "no", "unclear"] | None = None  # a second one; None: no compute time known
    best: int | None = None  # of the numbers of devices that were asked for, the fastest


@dataclass(frozen=True, slots=True)
class LinkCost:
    """What a message between two devices costs, and how that is known."""

    source: str  # "given", or the id of a model
    latency: Estimate
    bandwidth: Estimate
    lines: tuple[tuple[float, float, float], ...]  # (from byte, s, s/B)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a data-parallel step would take on several devices, and what that is computed from.

    Strong scaling splits the work of one device; weak scaling gives each device as much.
    """

    nbytes: int  # that each device exchanges in a step
    link: LinkCost
    scaling: Literal["strong", "weak"]
    network: str | None = None
    compute: float | None = None  # seconds of a step on one device
    batch: int | None = None  # examples of that step
    forecasts: tuple[Forecast, ...] = ()
    payoffs: tuple[Payoff, ...] = ()
