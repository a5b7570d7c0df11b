"""What each backend finds on this machine, and sessions on it: each is asked once, when needed."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.backends import REGISTRY, load
from gpumap.backends.probe import end_all
from gpumap.errors import DeviceError, GpumapError
from gpumap.machine.process_control import keep_orphans
from gpumap.model import Device, DeviceLibrary, Kind, Probe, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.backends.base import Backend, Clock, Host, Session

_IMPORT = 5.0  # seconds for a framework that was not requested; real ones take 2 to 4
_SHARE = 0.4  # of the time that is left, for a driver to list its devices


class Inventory:
    """What each backend found on this machine; each is probed once, when first needed.

    Args:
        host: of its drivers.
        backend: the only one that is asked; None: those that the kinds of a map need.
        end: the moment (`time.monotonic`) by which all have answered, however many hang.
    """

    def __init__(self, host: Host, backend: str | None = None, end: float = math.inf) -> None:
        self.host = host
        self._end = end
        self.requested = backend
        self._backends: dict[str, Backend] = {}
        self._probes: dict[str, Probe] = {}
        self._opened: dict[tuple[str, str], str] = {}  # backend, id: why a child could not; or ""
        self._preferred: dict[Kind, tuple[str, ...]] = {}
        self._hurried = False
        if backend is not None:
            self.backend(backend)  # an unknown name fails here, before anything is looked for

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Return what was probed so far, in the order of the registry."""
        return tuple(self._probes[name] for name in REGISTRY if name in self._probes)

    @property
    def libraries(self) -> tuple[DeviceLibrary, ...]:
        """Return the same without their devices, as a report has them."""
        return tuple(probe.library for probe in self.probes)

    def backend(self, name: str) -> Backend:
        """Return the backend called `name`."""
        if name not in self._backends:
            self._backends[name] = load(name, self.host)
        return self._backends[name]

    def of(self, kind: Kind) -> list[Probe]:
        """Return the probes of the backends that may drive `kind`, up to the first that can."""
        default = kind.row.backends if self.requested is None else (self.requested,)
        names = self._preferred.get(kind, default)
        probed = []
        for place, name in enumerate(names):
            if self._hurried and place == 1:  # the first, which is preferred, has none
                self.ask(names[1:])
            if kind in self.backend(name).kinds:
                probed.append(self.probe(name))
                if of_kind(kind, probed[-1]):
                    break
        return probed

    def prefer(self, name: str, kinds: Iterable[Kind]) -> None:
        """Let the backend called `name` drive these kinds; the others keep their own."""
        self._preferred = dict.fromkeys(kinds, (name,))

    def expect(self, names: Iterable[str]) -> None:
        """Let each probe from now on open these devices too, as a map names them.

        "*" are those of a default map. It spares `open` a child process of its own.
        """
        self.host.opens[:] = dict.fromkeys(names)

    def open(self, device: Device, clock: Clock) -> Session:
        """Open a device that a child process has opened before: its driver may crash, or hang.

        Raises:
            DeviceError: it did so in the child.
        """
        self.attempt([device])
        if why := self._opened.get((device.backend, device.id)):
            raise DeviceError(f"{device.ref}: {why}", "remove or update the driver")
        return self.backend(device.backend).open(device, clock)

    def attempt(self, devices: Sequence[Device]) -> None:
        """Let a child process open each of these devices that none has opened, or failed at."""
        for name in dict.fromkeys(device.backend for device in devices):
            if not hasattr(self.backend(name), "inventory"):  # it has no driver
                continue
            keep_orphans()
            own = [device for device in devices if device.backend == name]
            while missing := [d for d in own if (name, d.id) not in self._opened]:
                self.expect(str(device.ref) for device in missing)
                probe = self._ask(self.backend(name))
                if all((name, device.id) not in self._opened for device in missing):
                    reason = probe.reason or ""  # it is gone, or no longer answers
                    self._opened |= {(name, device.id): reason for device in missing}

    def _ask(self, backend: Backend) -> Probe:
        probe = backend.probe()
        self._opened |= {(backend.name, id_): why for id_, why in probe.opened}
        return probe

    def hurry(self) -> None:
        """Give the import of a framework less time, unless a backend was requested."""
        self._hurried = self.requested is None

    def ask(self, names: Sequence[str]) -> None:
        """Probe these backends concurrently; who is interrupted ends their children, too."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(names)) as pool:
            asked = [pool.submit(self.probe, name) for name in names]
            try:
                for done in asked:
                    with suppress(GpumapError):  # it is reported where names are resolved
                        done.result()
            except BaseException:
                end_all()
                raise

    def know(self, probe: Probe) -> None:
        """Take what a backend found as told: it is not probed, and its library not loaded."""
        self._probes[probe.name] = probe

    def probe(self, name: str) -> Probe:
        """Return what the backend called `name` found."""
        if name not in self._probes:
            backend = self.backend(name)
            if hasattr(backend, "load"):
                imports = _IMPORT if self._hurried else self.host.imports
                host = replace(self.host, patience=self.patience, imports=imports)
                backend = load(name, host)
            self._probes[name] = self._ask(backend)
        return self._probes[name]

    @property
    def patience(self) -> float:
        """Return the seconds that a driver may take now."""
        left = round(_SHARE * max(self._end - time.monotonic(), 0.0), 1)
        return min(self.host.patience, left)


def of_kind(kind: Kind, *probes: Probe) -> list[Device]:
    """Return the devices of a kind that backends found."""
    return [device for probe in probes for device in probe.devices if device.kind is kind]
