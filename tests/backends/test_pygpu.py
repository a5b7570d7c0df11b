"""pygpu: what is true with and without it; the conformance suite covers its sessions."""

import os

import here
import pytest

from gpumap.backends.base import Clock, Host
from gpumap.backends.pygpu import PygpuBackend
from gpumap.errors import AbsentError
from gpumap.machine.topology import read
from gpumap.model import Device, DeviceRef, Kind


@pytest.fixture(scope="module")
def usable():
    backend = PygpuBackend(here.HOST)
    probe = backend.probe()
    if not probe.usable:
        pytest.skip(f"pygpu: {probe.reason} ({probe.fix})")
    return backend, probe


def test_opencl_devices_come_without_parts_and_without_identity(usable):
    """Libgpuarray opens whole devices, cannot tell an id, and crashes when asked out of range."""
    opencl = [device for device in usable[1].devices if device.kind == "opencl"]
    assert opencl
    assert all((d.ref.part, d.pci, d.uuid) == (None, None, None) for d in opencl)
    env = {**os.environ, "OCL_ICD_VENDORS": "/nonexistent", "CUDA_VISIBLE_DEVICES": ""}
    probe = PygpuBackend(Host(env, read())).probe()
    assert not probe.usable
    assert "crash" not in probe.reason


def test_a_device_that_is_gone(usable):
    """Libgpuarray calls it a wrong value; whoever asked for it is told that it is not there."""
    backend, _ = usable
    ref = DeviceRef(Kind.OPENCL, 0, 99)
    gone = Device("opencl:99:0", Kind.OPENCL, ref, "gone", "pygpu")
    with pytest.raises(AbsentError, match=r"opencl99:0 \(gone\): Platform ID out of range"):
        backend.open(gone, Clock())
