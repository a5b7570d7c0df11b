"""Each benchmark of one process on a core and on OpenCL's device: all that it tells is verified."""

import os

import pytest
from scripts import asked, report
from shell import timely
from tables import table

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read

COMMANDS = table(__file__)


def opencl():
    probe = load("pyopencl", Host({**os.environ, "POCL_AFFINITY": "1"}, read())).probe()
    refs = [str(device.ref) for device in probe.devices if device.cores]
    parts = [ref for ref in refs if "." in ref][:2] or refs[:1] * 2
    return ";".join(f"dev{n}->{ref}" for n, ref in enumerate(parts))


@pytest.mark.parametrize("backend", ["numpy", "pyopencl"])
@pytest.mark.parametrize("name", COMMANDS)
def test_real_devices(gpumap, name, backend):
    """Rows have figures and were right, but for what a device lacks and what had no time."""
    map_ = "a->cpu0;b->cpu0" if backend == "numpy" else opencl()
    if not map_:
        pytest.skip("no OpenCL device on a CPU")
    words = (*COMMANDS[name].split(), "--backend", backend, "--map", map_)
    answer = gpumap(*words, "--format", "json")
    found = report(answer)
    assert (answer.code, found["simulated"]) == (0, False), answer.err
    assert {device["backend"] for device in found["devices"]} == {backend}
    rows = [row for row in asked(found) if (row["reason"] or {}).get("code") != "unsupported"]
    if name == "break-evens":
        rows = [row for row in rows if "break_even" in row["metrics"]]
        assert rows
    else:
        rows = timely(rows)
    assert all(row["check"]["passed"] and row["metrics"] for row in rows)
