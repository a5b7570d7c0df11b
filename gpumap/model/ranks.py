"""The processes of a job, each with the device that it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.model.devices import Binding


@dataclass(frozen=True, slots=True)
class Rank:
    """One of several processes that a launcher has started, on whatever machine."""

    number: int
    local: int  # among those of its machine
    host: str
    process: int
    binding: Binding | None  # None: it has found no device
