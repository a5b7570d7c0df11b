"""The system's own files below a root, and the PCI devices that they list."""

from pathlib import Path

import pytest

from gpumap.machine.topology import (
    CPUS_MAX,
    PciDevice,
    Tree,
    cpu_list,
    number,
    pci_address,
    pci_devices,
)
from gpumap.model import replace


@pytest.mark.parametrize(("text", "expected"), [
    ("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-1,64-65", (0, 1, 64, 65)), (" 2,3,6-7\n", (2, 3, 6, 7)),
    ("7,0-2,1-3", (0, 1, 2, 3, 7)), ("", ()), ("5-3", ()), ("x,1,-,2-,-3,4", (1, 4)), ("٣", ()),
    ("70000", ()), ("9" * 5000, ()),
    # without end it is cut where no processor can be; many cost no more than one
    ("0-99999999999", tuple(range(CPUS_MAX))), ("0-65535," * 20_000, tuple(range(CPUS_MAX))),
], ids=lambda each: None if len(each) > 99 else str(each))  # fmt: skip
def test_cpu_list(text, expected):
    """A list gives its numbers in ascending order, each once; parts that do not parse give none."""
    assert cpu_list(text) == expected


@pytest.mark.parametrize(("text", "base", "expected"), [
    ("12", 10, 12), (" -1\n", 10, -1), ("0x10de", 16, 0x10DE), ("", 10, None), (None, 10, None),
    ("max", 10, None), ("9" * 5000, 10, None)])  # fmt: skip
def test_number(text, base, expected):
    """A number is all of a text, or there is none."""
    assert number(text, base) == expected


def test_a_file_that_cannot_be_read_is_none(sketch):
    tree = Tree(sketch.file("folder/file", b" \xff\x00 text \n").root)
    assert tree.text("folder/file") == "\ufffd\x00 text"
    assert [tree.text(path) for path in ("none", "folder", "a\0b")] == [None, None, None]
    assert [tree.names(path) for path in ("none", "folder", "a\0b")] == [(), ("file",), ()]
    assert (tree.live, Tree(Path("/")).live) == (False, True)  # only the real root is the system


ODD = PciDevice("10000:01:00.0", None, None, (), None, None)


@pytest.mark.parametrize(("text", "expected"), [
    ("0000:09:00.0", "0000:09:00.0"), ("00000000:DF:00.0", "0000:df:00.0"),
    ("09:00.0", "0000:09:00.0"), (" 9:0.1\n", "0000:09:00.1"), ("10000:e1:00.0", "10000:e1:00.0"),
    ("0000:09:00.8", None), ("0000:09:00", None), ("GPU-1a2b", None), ("", None)])  # fmt: skip
def test_a_pci_address(text, expected):
    """Every way to write an address becomes one; the rest is none."""
    assert pci_address(text) == expected


@pytest.mark.parametrize(("files", "expected"), [
    ({}, ODD), ({"numa_node": "-1"}, ODD),
    ({"numa_node": "rubbish", "vendor": "x", "local_cpulist": "\x00"}, ODD),
    ({"current_link_width": "255"}, ODD), ({"max_link_width": "0"}, ODD),
    ({"local_cpulist": "0-1"}, replace(ODD, local_cpus=(0, 1))),
])  # fmt: skip
def test_what_a_pci_device_does_not_tell_is_none(sketch, files, expected):
    assert pci_devices(Tree(sketch.root)) == ()
    sketch.pci("10000:01:00.0", class_="0x120000", **files)
    sketch.pci("no-address", class_="0x030000").pci("0000:01:00.0", class_="rubbish")
    assert pci_devices(Tree(sketch.root)) == (expected,)
