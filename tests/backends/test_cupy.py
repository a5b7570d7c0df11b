"""CUDA by CuPy: what is true without a device; with one, the conformance suite says the rest."""

import importlib.util
import os

import pytest

from gpumap.backends.base import Host
from gpumap.backends.cupy import INSTALL, CupyBackend, _uuid, _version
from gpumap.machine import topology
from gpumap.model import Probe

HOST = Host(dict(os.environ), topology.read())
INSTALLED = importlib.util.find_spec("cupy") is not None


@pytest.mark.skipif(INSTALLED, reason="cupy is installed")
def test_not_installed():
    """The fix is the command that installs it."""
    assert CupyBackend(HOST).probe() == Probe(
        "cupy", usable=False, reason="not installed", fix=INSTALL
    )


@pytest.mark.skipif(not INSTALLED, reason=f"cupy: not installed ({INSTALL})")
def test_installed():
    """Devices with an identity, or a reason; never a traceback."""
    probe = CupyBackend(HOST).probe()
    if not probe.usable:
        pytest.skip(f"cupy: {probe.reason}")

    assert all(d.pci and d.uuid and d.silicon == {f"pci:{d.pci}"} for d in probe.devices)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (None, None),
        (b"", None),
        (bytes(range(16)), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (bytes(range(16)) + b"\0", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)
def test_a_uuid_is_written_as_nvidia_smi_writes_it(raw, text):
    """Sixteen bytes, in groups."""
    assert text == _uuid(raw)


@pytest.mark.parametrize(("number", "text"), [(13020, "CUDA 13.2"), (12000, "CUDA 12.0")])
def test_a_version_is_written_with_a_point(number, text):
    """CUDA counts in thousands and tens."""
    assert text == _version(number)
