"""CUDA by CuPy: what is true without a device; with one, the conformance suite says the rest."""

import importlib.util
import os

import pytest

from gpumap.backends.base import Host
from gpumap.backends.cupy import CupyBackend
from gpumap.backends.cupy_devices import INSTALL
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

    own = {d.id: f"mig:{d.uuid}" if (d.uuid or "").startswith("MIG-") else f"pci:{d.pci}"
           for d in probe.devices}  # fmt: skip
    assert all(d.pci and d.uuid and d.silicon == {own[d.id]} for d in probe.devices)
