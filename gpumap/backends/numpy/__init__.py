"""The cores of the host as devices; to list them takes no driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.backends.base import Backend
from gpumap.extras import pip
from gpumap.model import Device, DeviceRef, Kind, Probe

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Feature
    from gpumap.backends.numpy.session import NumpySession
    from gpumap.machine.topology import Topology

NAME = "numpy"


class NumpyBackend(Backend):
    """NumPy on the cores that this process may run on."""

    name = NAME
    kinds = frozenset({Kind.CPU})

    def probe(self) -> Probe:
        """Return NumPy's version and the cores; needs no child process, there is no driver."""
        try:
            import numpy as np

            version = np.__version__
        except (ImportError, AttributeError) as error:  # another file may be called numpy
            reason = f"NumPy cannot be loaded: {error}"
            again = pip("install", "--force-reinstall", "numpy")
            fix = f"{again}; see PYTHONPATH for another numpy.py"
            return Probe(self.name, usable=False, reason=reason, fix=fix)
        return Probe(self.name, usable=True, version=version, devices=cores(self._host.topology))

    def open(self, device: Device, clock: Clock) -> NumpySession:
        """Open a core, or all of them."""
        from gpumap.backends.numpy.session import NumpySession

        return NumpySession(device, clock)

    def features(self, device: Device) -> frozenset[Feature]:  # noqa: ARG002 - the contract's
        """Return what its sessions have."""
        return frozenset({"kernels", "float64"})


def cores(topology: Topology) -> tuple[Device, ...]:
    """Return every core by its place in the affinity mask, and all of them as one device."""
    every = tuple(range(len(topology.cpus)))
    each = (_device(topology, DeviceRef(Kind.CPU, n), (n,)) for n in every)
    return (*each, _device(topology, DeviceRef(Kind.CPU), every))


def _device(topology: Topology, ref: DeviceRef, places: tuple[int, ...]) -> Device:
    cpus = [topology.cpus[n] for n in places]
    nodes = {cpu.numa_node for cpu in cpus}
    return Device(
        id="cpu" if ref.index is None else f"cpu:{ref.index}",
        kind=Kind.CPU,
        ref=ref,
        name=topology.model,
        backend=NAME,
        memory_total=topology.memory_total,
        memory_free=topology.memory_available,
        units=len({cpu.hardware for cpu in cpus}),
        numa_node=nodes.pop() if len(nodes) == 1 else None,
        cores=tuple(cpu.index for cpu in cpus),
        hardware=frozenset(cpu.hardware for cpu in cpus),
    )
