"""Scripted devices: exact times on a clock of their own, and faults on demand.

`gpumap.backends.fake.script` explains the script.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.backends.base import Backend
from gpumap.backends.fake.script import (
    Engine,
    FakeClock,
    FakeDevice,
    default,
    device_of,
    features,
    read,
)
from gpumap.model import Device, Kind, Probe

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Host
    from gpumap.backends.fake.session import FakeSession

SCRIPT = "GPUMAP_FAKE"


class FakeBackend(Backend):
    """The devices of a script."""

    name = "fake"
    kinds = frozenset(Kind)

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        path = host.env.get(SCRIPT)
        self._script = read(Path(path)) if path else default()
        self._clock = FakeClock(self._script.host)
        self._engines: dict[str, Engine] = {}

    def probe(self) -> Probe:
        """Return the scripted devices."""
        devices = tuple(map(device_of, self._script.devices))
        reason = None if devices else "its script lists no device"
        return Probe(self.name, bool(devices), "1", reason, None, devices)

    def open(self, device: Device, clock: Clock) -> FakeSession:
        """Open a scripted device on the backend's own clock."""
        from gpumap.backends.fake.session import FakeSession, Log

        assert clock is self._clock
        script = self._scripted(device)
        engine = self._engines.setdefault(script.engine or device.id, Engine())
        log = None if self._script.log is None else Log(self._script.log)
        return FakeSession(device, script, self._clock, engine, log)

    def features(self, device: Device) -> frozenset[Any]:
        """Return what the script says."""
        return features(self._scripted(device))

    def clock(self) -> FakeClock:
        """Return the scripted clock."""
        return self._clock

    def _scripted(self, device: Device) -> FakeDevice:
        return next(s for s in self._script.devices if device_of(s).id == device.id)
