"""What a watcher of a run is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpumap.bench.timing import Taken
from gpumap.model import Group


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a group after a block."""

    group: Group
    done: float  # the share of the group's time
    blocks: int
    look: float  # the share of the time at which the next look is
    width: float | None  # half of the widest interval that sets the stop, at the last look
    taken: Mapping[str, Taken]  # of each case, in this block
