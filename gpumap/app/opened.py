"""The devices of a map, opened on one clock, and closed whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import Clock, Feature, Session
from gpumap.bench.scripted import lighten
from gpumap.errors import DeviceError, QuestionError
from gpumap.model import Device

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from gpumap.model import Resolution
    from gpumap.resolve import Inventory


@dataclass(frozen=True, slots=True)
class Opened:
    """A session for each name, and their clock; `again` opens one more on the device of a name."""

    sessions: dict[str, Session]
    clock: Clock
    again: Callable[[str], Session]


@dataclass(frozen=True, slots=True)
class Unopened:
    """A device that a dry run plans for: it is known what it should have, and it does nothing."""

    device: Device
    features: frozenset[Feature]
    holds: int = sys.maxsize

    def __getattr__(self, name: str) -> NoReturn:
        raise DeviceError(f"{self.device.ref} is not opened", "leave --dry-run away")


def unopened(resolution: Resolution, inventory: Inventory) -> Opened:
    """Return the devices of a map as they are to be planned for; no driver is asked for it."""

    def session(name: str) -> Any:
        device = devices[name]
        return Unopened(device, inventory.backend(device.backend).features(device))

    devices = {binding.name: binding.device for binding in resolution.bindings}
    clock = inventory.backend(resolution.bindings[0].device.backend).clock()
    return Opened({name: session(name) for name in devices}, clock, session)


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
