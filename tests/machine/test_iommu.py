"""Whether an IOMMU translates a device's addresses: as the kernel's files tell, or why not."""

import pytest

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


@pytest.mark.parametrize(("line", "expected"), [
    ("quiet iommu=pt", (False, "kernel option iommu=pt")),
    ("iommu.passthrough=1", (False, "kernel option iommu.passthrough=1")),
    ("iommu.passthrough=0", (True, "kernel option iommu.passthrough=0")),
    ("intel_iommu=on iommu=pt", (False, "kernel option intel_iommu=on iommu=pt")),
    ("intel_iommu=on,sm_on", (True, "kernel option intel_iommu=on,sm_on")),
    ("amd_iommu=force_enable", (True, "kernel option amd_iommu=force_enable")),
    ("iommu=nopt", (True, "kernel option iommu=nopt")),
    ("quiet", (None, "the system has one, and does not tell what it does for this device")),
])  # fmt: skip
def test_where_no_group_tells_the_options_do(sketch, line, expected):
    grouped(sketch).file("proc/cmdline", line)
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
