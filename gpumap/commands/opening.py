"""The devices of a map, opened on one clock, and closed whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.backends.base import Clock, Session
from gpumap.bench.scripted import lighten
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.model import Resolution
    from gpumap.resolve import Inventory


@dataclass(frozen=True, slots=True)
class Opened:
    """A session for each name, and their clock; `again` opens one more on the device of a name."""

    sessions: dict[str, Session]
    clock: Clock
    again: Callable[[str], Session]


@contextmanager
def opened(resolution: Resolution, inventory: Inventory) -> Iterator[Opened]:
    """Open the devices of a map; all sessions are closed at the end.

    Raises:
        QuestionError: some devices are fake and some are real; their times cannot be compared.
    """
    backends = {binding.device.backend for binding in resolution.bindings}
    if "fake" in backends and len(backends) > 1:
        raise QuestionError("fake and real devices cannot be measured together", "--backend fake")
    clock = inventory.backend(min(backends)).clock()
    devices = {binding.name: binding.device for binding in resolution.bindings}
    inventory.attempt(list(devices.values()))
    with ExitStack() as stack:

        def session(name: str) -> Session:
            made = stack.enter_context(inventory.open(devices[name], clock))
            lighten(made)
            return made

        yield Opened({name: session(name) for name in devices}, clock, session)
