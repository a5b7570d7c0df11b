"""What PyOpenCL tells about devices and their parts, and what is asked of a driver first."""

from types import SimpleNamespace

import here
import pytest
from sessions import usable
from tables import table

from gpumap.backends import load
from gpumap.backends.base import Clock, Host
from gpumap.backends.pyopencl import PyopenclBackend, _cores, _may_pin, _pci, _useless, natives
from gpumap.errors import AbsentError
from gpumap.machine.topology import Cpu, Topology
from gpumap.model import Device, DeviceRef, Kind

pytest.importorskip("pyopencl", reason="pyopencl: not installed")
TABLE = table(__file__)
POCL = "Portable Computing Language "
EVERY = tuple(Cpu(n, (n,), 0) for n in range(4))


@pytest.fixture(scope="module")
def devices():
    return usable("pyopencl")[1]


def machine(*, first=0, pinnable=True, **env):
    return Host(env, Topology(EVERY[first:], 4, None, "x", 1, 1, pinnable=pinnable))


def test_parts_are_devices_of_one_unit(devices):
    """Numbered from nought, within the whole; as the child listed them, found by their place."""
    assert [d.id for d in PyopenclBackend(here.HOST).inventory().devices] == [d.id for d in devices]
    for whole in (d for d in devices if d.ref.part is None):
        parts = [d for d in devices
                 if d.ref.part is not None and d.id.startswith(f"{whole.id}.")]  # fmt: skip
        assert [d.ref.part for d in parts] == list(range(len(parts)))
        assert all(d.units == 1 and d.hardware <= whole.hardware for d in parts)
        assert len(parts) in (0, whole.units)
    for device in devices:
        found = natives(device.ref, here.HOST)
        assert found[device.ref.part or 0].max_compute_units == device.units
        assert len(found) == 1 or device.ref.part is not None


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("ref", [DeviceRef(Kind.OPENCL, 0, 99), DeviceRef(Kind.OPENCL, 99, 0)])
def test_a_device_that_is_gone(ref):
    gone = Device(f"opencl:{ref.platform}:{ref.index}", Kind.OPENCL, ref, "gone", "pyopencl")
    with pytest.raises(AbsentError, match=f"{ref} is no longer there"):
        load("pyopencl", here.HOST).open(gone, Clock())


@pytest.mark.parametrize(("version", "why"), [
    ("OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic", "knows no processor like"),
    ("OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-znver3", None),
    ("OpenCL 3.0 PoCL HSTR: cpu-aarch64-unknown-linux-gnu-generic", None),
])  # fmt: skip
def test_pocl_that_does_not_know_the_processor_is_not_used(version, why):
    """LLVM calls a new one "generic", which clang refuses on x86 alone: no kernel is built."""
    native = SimpleNamespace(version=version)
    found = _useless(SimpleNamespace(name=POCL), [native], here.HOST)
    assert why in found if why else found is None


@pytest.mark.parametrize(("native", "address"), [
    (SimpleNamespace(pci_domain_id_nv=1, pci_bus_id_nv=0xC1, pci_slot_id_nv=6), "0001:c1:06.0"),
    (SimpleNamespace(topology_amd=SimpleNamespace(bus=-63, device=3, function=1)),
     "0000:c1:03.1"),
    (SimpleNamespace(), None),
])  # fmt: skip
def test_a_pci_address_by_the_query_of_each_vendor(native, address):
    """NVIDIA gives the device, as an H100 at 00:06.0 does; AMD's bus is a signed byte."""
    assert address == _pci(native)


@pytest.mark.parametrize(("host", "may"), TABLE["pinned"])
def test_workers_are_put_on_cores_only_where_each_has_one(host, may):
    """PoCL aborts without a core for a worker, and leaves a mask that is narrower."""
    assert may == _may_pin(machine(**(host or {})))


@pytest.mark.parametrize(("platform", "name", "part", "pinnable", "cores"), TABLE["cores"])
def test_the_cores_of_a_device_that_is_a_processor(platform, name, part, pinnable, cores):
    """Worker i of PoCL is on core i where it may be put there; else it can be on any."""
    named = SimpleNamespace(name=platform), SimpleNamespace(name=name)
    assert tuple(cores) == _cores(*named, part, machine(pinnable=pinnable))
