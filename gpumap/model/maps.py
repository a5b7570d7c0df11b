"""Nouns that others are made of: entries of a map, and estimates with what bounds them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from gpumap.errors import Diagnostic, Span
from gpumap.kinds import Kind as Kind  # noqa: PLC0414, TC001 - a noun as the others are

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

Origin = Literal[
    "argument", "--map", "@FILE", "GPUMAP_CONTEXTS", "gpumap.toml", "THEANO_FLAGS", ".theanorc",
    "default",
]  # fmt: skip


class Compact:
    """A noun that JSON has in a form of its own (`gpumap.model.io`): it is what its slots hold."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._all()}"

    def _all(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def replaced(self, **changes: Any) -> Self:
        """Return one that differs in some slots."""
        return type(self)(**{name: getattr(self, name) for name in self.__slots__} | changes)


class DeviceRef(Compact):
    """A device as the map asks for it, before anything looked for it.

    An index of None is the kind's default or only device, or all cores. A platform and a part, the
    sub-device of one compute unit, are of OpenCL; an identity, a PCI bus id or a UUID, of CUDA.
    """

    __slots__ = ("identity", "index", "kind", "part", "platform")

    def __init__(
        self,
        kind: Kind,
        index: int | None = None,
        platform: int | None = None,
        part: int | None = None,
        identity: str | None = None,
    ) -> None:
        self.kind, self.index, self.platform = kind, index, platform
        self.part, self.identity = part, identity

    def __str__(self) -> str:
        if self.identity is not None:
            return f"{self.kind}@{self.identity}"
        platform = "" if self.platform is None else f"{self.platform}:"
        index = "" if self.index is None else str(self.index)
        part = "" if self.part is None else f".{self.part}"
        return f"{self.kind}{platform}{index}{part}"


class Entry(NamedTuple):
    """One `name->device` of a map.

    Attributes:
        name: The user's word.
        ref: The device as requested.
        span: Half-open range of characters in source.text.
    """

    name: str
    ref: DeviceRef
    span: Span = Span(0, 0)

    def __str__(self) -> str:
        return f"{self.name}->{self.ref}"


class ContextMap(NamedTuple):
    """Names mapped to device references, in the order they were written.

    Attributes:
        entries: Its entries.
        text: As it was written.
        notes: What its text alone tells; all notes are in notes of the report.
    """

    entries: tuple[Entry, ...]
    text: str = ""
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        return ";".join(map(str, self.entries))


class MapText(NamedTuple):
    """The text of a map, where it was found, and what its source dropped on the way.

    Attributes:
        text: As it was written.
        origin: Where it is from.
        path: The file, if it is from one.
        notes: What was dropped on the way; all notes are in notes of the report.
    """

    text: str
    origin: Origin
    path: str | None = None
    notes: tuple[Diagnostic, ...] = ()


UNDISTURBED = 0.98  # share of a sample in which its threads ran, at least
FEWEST = 6  # such samples, of which there is an interval


def separate(over: AbstractSet[int], under: AbstractSet[int]) -> bool:
    """Return whether two rows have an interval each, and blocks in which the other has none.

    Then their ratio is one of medians; else the median of one ratio for each shared block.
    """
    within = over <= under or under <= over
    return not within and min(len(over), len(under)) >= FEWEST


LimitOrigin = Literal["computed", "reported"]  # by gpumap; or by a table, or a driver
Unit = Literal["s", "FLOP/s", "B/s", "1", "B", "1/s"]
_OF_UNIT: dict[Unit, tuple[str, ...]] = {
    "s": (
        "time", "time_observed", "issue_interval", "latency", "comm", "input", "transfer",
        "compute", "sync", "update", "fetch",
    ),
    "1": (
        "speedup", "speedup_observed", "speedup_over_one", "speedup_over_host", "efficiency",
        "ideal", "ideal_balanced", "overlap", "undisturbed", "loss", "accuracy", "epochs",
    ),
    "FLOP/s": ("rate",),
    "B/s": ("bandwidth", "bus_bandwidth", "peak_bandwidth"),
    "B": ("n_half", "break_even"),
    "1/s": ("examples_per_s",),
}  # fmt: skip
# Metrics of rows and models, which metrics.toml explains.
UNITS: dict[str, Unit] = {name: unit for unit, names in _OF_UNIT.items() for name in names}


class Estimate(Compact):
    """A figure with its interval; the interval holds in this run.

    From -inf to inf means that there is no interval: no comparison with an end of it is then true.
    """

    __slots__ = ("high", "low", "unit", "value")

    def __init__(self, value: float, low: float, high: float, unit: str) -> None:
        self.value, self.low, self.high, self.unit = value, low, high, unit

    @classmethod
    def without_interval(cls, value: float, unit: str) -> Self:
        """Return a figure of too few samples for an interval."""
        return cls(value, -math.inf, math.inf, unit)

    @classmethod
    def exact(cls, value: float, unit: str = "1") -> Self:
        """Return a figure that was read or computed, and is certain."""
        return cls(float(value), float(value), float(value), unit)

    @classmethod
    def refused(cls, unit: str) -> Self:
        """Return the place of a ratio that no hardware can have."""
        return cls(math.nan, -math.inf, math.inf, unit)

    @property
    def has_interval(self) -> bool:
        """Return whether it has one."""
        return (self.low, self.high) != (-math.inf, math.inf)

    @property
    def impossible(self) -> bool:
        """Return whether it is the place of a refused ratio."""
        return math.isnan(self.value) and not self.has_interval


class Limit(NamedTuple):
    """What physics allows a metric to be, and how that is known."""

    metric: str
    value: float
    unit: Unit
    source: str  # how it was measured, or what it was computed from
    origin: LimitOrigin
