"""Whether an IOMMU translates a device's addresses: as the kernel's files tell, or why not."""

import pytest
from tables import table

from gpumap.machine.link_state import options, translated
from gpumap.machine.tree import Tree

GPU, OTHER = "0000:09:00.0", "0000:0a:00.0"


def grouped(sketch, type_=None, *, number="17"):
    folder = f"sys/kernel/iommu_groups/{number}"
    sketch.file("sys/class/iommu/dmar0/name", "dmar0").file(f"{folder}/devices/{GPU}/class", "x")
    return sketch if type_ is None else sketch.file(f"{folder}/type", type_)


@pytest.mark.parametrize(
    ("type_", "expected"), [("DMA", True), ("DMA-FQ", True), ("identity", False)]
)
def test_the_type_of_the_group_decides(sketch, type_, expected):
    grouped(sketch, type_).file("proc/cmdline", "iommu=pt intel_iommu=on")
    found = translated(Tree(sketch.root), GPU)
    assert found == (expected, f"its IOMMU group is of type {type_}")
    (sketch.root / "proc/cmdline").unlink()  # nor does a group tell of other devices
    assert [translated(Tree(sketch.root), other)[0] for other in (OTHER, None)] == [None, None]


@pytest.mark.parametrize("type_", ["auto", "blocked", "\x1b[2J", ""])
def test_a_type_that_tells_nothing(sketch, type_):
    grouped(sketch, type_)
    value, why = translated(Tree(sketch.root), GPU)
    assert (value, "\x1b" in why) == (None, False)


@pytest.mark.parametrize(("line", "value", "why"), table(__file__)["options"])
def test_where_no_group_tells_the_options_do(sketch, line, value, why):
    grouped(sketch).file("proc/cmdline", line)
    expected = {"yes": True, "no": False, "unknown": None}[value], why
    assert translated(Tree(sketch.root), GPU) == expected


@pytest.mark.parametrize(("folder", "flags", "expected"), [
    (False, "", (None, "the system does not tell")),  # in a container, or no Linux
    (True, "", (False, "the system uses none")),  # the folder is there, and empty
    (True, "fpu hypervisor lahf_lm", (None, "a virtual machine does not see its host's")),
])  # fmt: skip
def test_a_system_without_one(sketch, folder, flags, expected):
    """A host may translate, and the guest's files would say no."""
    if folder:
        (sketch.root / "sys/class/iommu").mkdir(parents=True)
    sketch.file("proc/cpuinfo", f"processor\t: 0\nflags\t\t: {flags}\n")
    assert translated(Tree(sketch.root), GPU) == expected


def test_of_the_kernels_command_line_nothing_else_is_kept(sketch):
    sketch.file("proc/cmdline", "password=hunter2 iommu=pt xiommu=1 iommu=\x1b[2J root=/dev/sda")
    assert options(Tree(sketch.root)) == ("iommu=pt",)
