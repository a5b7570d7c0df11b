"""Open the devices of a map; a dry run plans for them as their drivers list them."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.engine.base import OpenDevices
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.backends.base import Feature, Session
    from gpumap.inventory import Inventory
    from gpumap.model import Device, Resolution


class Unopened(NamedTuple):
    """A device that a dry run plans for: it is known what it should have."""

    device: Device
    features: frozenset[Feature]
    holds: int = sys.maxsize


def unopened(resolution: Resolution, inventory: Inventory) -> OpenDevices:
    """Return the devices of a map as they are to be planned for; no driver is asked for it."""

    def session(name: str) -> Any:
        device = devices[name]
        return Unopened(device, inventory.backend(device.backend).features(device))

    devices = {binding.name: binding.device for binding in resolution.bindings}
    clock = inventory.backend(resolution.bindings[0].device.backend).clock()
    sessions = {name: session(name) for name in devices}
    cpus = len(inventory.host.topology.cpus)
    return OpenDevices(resolution.bindings, sessions, clock, session, cpus)


@contextmanager
def opened(resolution: Resolution, inventory: Inventory) -> Iterator[OpenDevices]:
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
        from gpumap.engine.verify import lighten

        def session(name: str) -> Session:
            made = stack.enter_context(inventory.open(devices[name], clock))
            lighten(made)
            return made

        sessions = {name: session(name) for name in devices}
        cpus = len(inventory.host.topology.cpus)
        yield OpenDevices(resolution.bindings, sessions, clock, session, cpus)
