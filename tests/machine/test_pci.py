import pytest

from gpumap.machine.tree import PciDevice, Tree, pci_address, pci_devices
from gpumap.model import replace

ODD = PciDevice("10000:01:00.0", None, None, 0x120000, None, (), None, None, None, None)


@pytest.mark.parametrize(("text", "expected"), [
    ("0000:09:00.0", "0000:09:00.0"), ("00000000:DF:00.0", "0000:df:00.0"),
    ("09:00.0", "0000:09:00.0"), (" 9:0.1\n", "0000:09:00.1"), ("10000:e1:00.0", "10000:e1:00.0"),
    ("0000:09:00.8", None), ("0000:09:00", None), ("GPU-1a2b", None), ("", None)])  # fmt: skip
def test_address(text, expected):
    """Every way to write an address becomes one; the rest is none."""
    assert pci_address(text) == expected


def test_eight(eight):
    """Only displays and accelerators count, in the order of their addresses, each near a node."""
    found = pci_devices(Tree(eight.root))
    assert [(d.address, d.numa_node) for d in found] == [
        ("0000:02:00.0", 0), ("0000:1b:00.0", 0), ("0000:43:00.0", 0), ("0000:52:00.0", 0),
        ("0000:61:00.0", 0), ("0000:9d:00.0", 1), ("0000:c3:00.0", 1), ("0000:d1:00.0", 1),
        ("0000:df:00.0", 1),
    ]  # fmt: skip
    assert found[-1] == PciDevice(
        address="0000:df:00.0", vendor=0x10DE, device=0x2330, class_code=0x030200, numa_node=1,
        local_cpus=(*range(32, 64), *range(96, 128)), link_speed=2.5e9, link_width=16,
        max_link_speed=32e9, max_link_width=16,
    )  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), [
    ({}, ODD), ({"numa_node": "-1"}, ODD),
    ({"numa_node": "rubbish", "vendor": "x", "local_cpulist": "\x00"}, ODD),
    ({"current_link_speed": "Unknown", "current_link_width": "255"}, ODD),
    ({"current_link_speed": "8 GT/s", "max_link_width": "0"}, replace(ODD, link_speed=8e9)),
    ({"local_cpulist": "0-1"}, replace(ODD, local_cpus=(0, 1))),
])  # fmt: skip
def test_what_is_not_known_is_none(sketch, files, expected):
    assert pci_devices(Tree(sketch.root)) == ()
    sketch.pci("10000:01:00.0", class_="0x120000", **files)
    sketch.pci("no-address", class_="0x030000").pci("0000:01:00.0", class_="rubbish")
    assert pci_devices(Tree(sketch.root)) == (expected,)
