"""Devices as plain text: what a table shows of them."""

from __future__ import annotations

import pytest

from gpumap.model import Device, DeviceRef, Kind
from gpumap.report.plain import DEVICE_COLUMNS, device_row

LINK = DEVICE_COLUMNS.index("link")
FULL = {"link_generation": 1, "link_width": 16, "max_link_generation": 5, "max_link_width": 16}


@pytest.mark.parametrize(
    ("facts", "link"),
    [
        ({}, "-"),
        ({"mig": False, "max_link_width": 16}, "-"),
        (FULL, "PCIe 5 x16"),
        ({**FULL, "link_width": 8}, "PCIe 5 x8 of x16"),
        ({"max_link_generation": 4, "max_link_width": 8}, "PCIe 4 x8"),
    ],
)
def test_a_link_is_what_it_can_do_at_the_width_it_has(facts, link):
    """An idle link drops its generation, which says nothing; lanes that are missing say a lot."""
    device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "A GPU", "cupy", facts=facts)

    assert device_row(device)[LINK] == link
