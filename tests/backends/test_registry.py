"""The registry: backends are loaded by name, and each drives the kinds that it is listed for."""

import os
import subprocess
import sys

import here
import pytest
from tables import table

from gpumap.backends import REGISTRY, load
from gpumap.backends.base import Host
from gpumap.machine import topology
from gpumap.model import Kind, Probe

HOST = Host({}, topology.read())


def test_every_kind_has_a_default_that_drives_it():
    assert all(kind.row.backends for kind in Kind)
    assert all(kind in load(name, HOST).kinds for kind in Kind for name in kind.row.backends)
    assert "fake" not in {name for kind in Kind for name in kind.row.backends}
    command = [sys.executable, "-c", table(__file__)["loaded"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", REGISTRY)
def test_a_probe_always_answers(name):
    """Usable with devices, or not with a reason; it never raises, also without its library."""
    backend = load(name, HOST)
    probe = backend.probe()
    assert backend.name == name
    assert backend.kinds <= set(Kind)
    assert backend.kinds
    assert isinstance(probe, Probe)
    assert probe.name == name
    assert probe.usable == bool(probe.devices) == bool(probe.version and not probe.reason)
    assert {d.backend for d in probe.devices} <= {name}
    assert {d.kind for d in probe.devices} <= backend.kinds
    assert len({d.id for d in probe.devices}) == len(probe.devices)
    assert all(device.hardware for device in probe.devices)


@pytest.mark.skipif("CI" not in os.environ, reason="this is not CI, where OpenCL must not skip")
def test_ci_has_a_real_opencl_driver():
    """What `make system` installs is there: its tests run, and are not skipped."""
    probe = load("pyopencl", here.HOST).probe()
    assert (probe.usable, probe.reason) == (True, None)
