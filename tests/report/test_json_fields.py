"""What the JSON report makes of a device and of a case's work, whatever order a set has."""

from __future__ import annotations

import pytest

from gpumap.model import Case, Device, DeviceRef, Kind, Work
from gpumap.report import json as renderer


def test_what_hardware_a_device_is_has_one_order():
    """Two reports of one machine are the same text: a set has another order in each run."""
    names = [f"core:{number}" for number in range(40)]
    device = Device(
        "cpu:0", Kind.CPU, DeviceRef(Kind.CPU, 0), "", "numpy", silicon=frozenset(names)
    )

    assert renderer._device(device)["silicon"] == sorted(names)


@pytest.mark.parametrize(
    ("work", "written"),
    [
        (Work(2, 10), {"products": 2, "operations": 10, "bytes_to_device": 0, "bytes_to_host": 0}),
        (Work(0, 0, 400), {"bytes": 400, "bytes_to_device": 400, "bytes_to_host": 0}),
        (Work(0, 0, 0, 400), {"bytes": 400, "bytes_to_device": 0, "bytes_to_host": 400}),
        (Work(0, 0, 3, 4), {"bytes": 7, "bytes_to_device": 3, "bytes_to_host": 4}),
    ],
)
def test_copies_have_the_bytes_of_both_ways(work, written):
    """Their sum, and each way by itself; products have what they compute."""
    assert renderer._work(Case("x", "y", {}, (), work)) == written
