"""What is offered where no backend drives a kind: what is installed, then what is smallest."""

import shlex
import sys

import pytest
from tables import table

from gpumap.kinds import Kind
from gpumap.machine.topology import Tree, no_gpu
from gpumap.model import Device, DeviceRef, Probe
from gpumap.remedies import other_build, remedy

TABLE = table(__file__)
VENDORS = TABLE["vendors"]


def bus(root, vendors):
    """Write a PCI bus with a display controller of each vendor, behind a bridge."""
    for number, vendor in enumerate(["bridge", *vendors]):
        folder = root / "sys" / "bus" / "pci" / "devices" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{VENDORS.get(vendor, 0x1AF4):#06x}\n")
        (folder / "class").write_text("0x030000\n" if number else "0x060400\n")
    return root


def probe(name, lack, version, fix):
    usable = lack == "usable"
    return Probe(name, usable, version or None, fix=fix or None, lack=None if usable else lack)


@pytest.mark.parametrize("case", TABLE["case"])
def test_what_needs_the_least_is_offered(tmp_path, case):
    """Another spelling, an installed library, another machine, another build, a new library."""
    root = bus(tmp_path, case["bus"])
    probes = [probe(*each) for each in case["probes"]]
    pip = shlex.join([sys.executable, "-m", "pip", "install"])
    offered = case["offered"].format(pip=pip, elsewhere=TABLE["elsewhere"])
    found = remedy(Kind(case["kind"]), probes, root, case.get("system", "linux"))
    assert (found or "") == offered


def test_a_device_that_is_there_under_another_kind_is_named(tmp_path):
    """PyTorch itself found it: no bus is asked."""
    ref = DeviceRef(Kind.ROCM, 0)
    device = Device("rocm:0", Kind.ROCM, ref, "MI300X", "torch")
    probes = [Probe("torch", usable=True, version="2.12.0+rocm7.2", devices=(device,))]
    assert remedy(Kind.CUDA, probes, tmp_path).endswith("write rocm0")
    assert remedy(Kind.XPU, probes, tmp_path, "linux").endswith("whl/xpu")


@pytest.mark.parametrize(("file", "vendor", "shown"), TABLE["drivers"])
def test_a_driver_speaks_for_the_gpus_of_its_own_vendor(tmp_path, file, vendor, shown):
    """A bus may be hidden, or the GPU be off it; that tells nothing of another vendor's."""
    root = bus(tmp_path, [])
    (root / "dev").mkdir()
    (root / file).touch()
    assert no_gpu(Tree(root), VENDORS[vendor]) == shown


@pytest.mark.parametrize(("kind", "version", "word"), TABLE["builds"])
def test_a_build_for_another_kind_is_why_there_is_no_device(kind, version, word):
    """Where its version names no build that is known, nothing is claimed."""
    said = other_build(Kind(kind), Probe("torch", usable=True, version=version))
    assert said == (word and f"PyTorch {version} is not built for {word}")
