"""A machine by the system's own files below a root: its cores, limits, PCI devices and links."""

import os
import platform
from pathlib import Path

import psutil
import pytest
from tables import table
from trees import CPU, Sketch

from gpumap.machine import topology
from gpumap.machine.state import link_states
from gpumap.machine.topology import CPUS_MAX, Cpu, PciDevice, Tree, pci_devices, read
from gpumap.model import Device, DeviceRef, Kind, LinkState, replace

TABLE = table(__file__)
QUOTAS, LIMITS = TABLE["quota"], TABLE["memory"]
V2 = "sys/fs/cgroup"


def test_eight(eight):
    """Siblings n and n+64 are one core; of PCI, displays and accelerators count, in their order."""
    found = read(eight.root)
    assert len(found.cpus) == found.online == 128
    assert found.cpus[33] == Cpu(33, siblings=(33, 97), numa_node=1)
    assert found.cpus[97] == Cpu(97, siblings=(33, 97), numa_node=1)
    assert found.cpus[33].hardware == found.cpus[97].hardware == "core:33"
    assert [cpu.index for cpu in found.physical] == list(range(64))
    assert (found.model, found.quota) == ("AMD EPYC 9554", None)
    assert (found.memory_total, found.memory_available) == (2 * 2**40, 2**40)
    assert " ".join(d.address[5:7] for d in found.pci) == "02 1b 43 52 61 9d c3 d1 df"


def test_container(desktop):
    """Only what the cpuset leaves is there; the first CPU that is allowed stands for its core."""
    desktop.status("3,6-8").file("proc/self/cgroup", "0::/")
    desktop.file(f"{V2}/cpu.max", "150000 100000")
    desktop.file(f"{V2}/memory.max", str(8 * 2**30))
    desktop.file(f"{V2}/memory.current", str(2**30))
    four = ((3, (2, 3)), (6, (6, 7)), (7, (6, 7)), (8, (8,)))
    cpus = tuple(Cpu(n, siblings, None) for n, siblings in four)
    model_ = "12th Gen Intel(R) Core(TM) i7"
    found = read(desktop.root)
    assert found == topology.Topology(cpus, 12, 1.5, model_, 8 * 2**30, 7 * 2**30)
    assert [cpu.index for cpu in found.physical] == [3, 6, 8]


@pytest.mark.parametrize(("allowed", "online", "expected"), TABLE["allowed"])
def test_allowed(sketch, allowed, online, expected):
    """The mask decides; where there is none, all that are on."""
    sketch.status(allowed).file(f"{CPU}/online", online)
    assert [cpu.index for cpu in read(sketch.root).cpus] == expected


def test_an_empty_tree(sketch):
    """Without any file Python and psutil are asked, as on macOS."""
    found = read(sketch.root)
    count = os.cpu_count()
    assert found.cpus == tuple(Cpu(i, (i,), None) for i in range(count))
    assert (found.online, found.quota, found.pci) == (count, None, ())
    assert found.model == platform.machine()
    assert found.memory_total == psutil.virtual_memory().total
    assert 0 < found.memory_available <= found.memory_total


def test_a_system_that_cannot_pin(desktop, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert read(desktop.root).pinnable is False


def build(sketch, own, files):
    sketch.file("proc/self/cgroup", own)
    for path, content in files.items():
        sketch.file(path, content)
    return Tree(sketch.root)


@pytest.mark.parametrize("group", QUOTAS.values(), ids=QUOTAS)
def test_quota(sketch, group):
    """The smallest quota of the process's group and of all groups above it binds."""
    assert topology.quota(build(sketch, group["own"], group["files"])) == group.get("quota")


@pytest.mark.parametrize("group", LIMITS.values(), ids=LIMITS)
def test_memory_limits(sketch, group):
    """Cold page cache is not in use; "max" is no limit."""
    files = {f"{V2}/{path}": text for path, text in group["files"].items()}
    found = topology.memory_limits(build(sketch, group["own"], files))
    assert [*map(list, found)] == group["limits"]


@pytest.mark.parametrize(("text", "expected"), [
    *TABLE["cpu_lists"], ("9" * 5000, ()),
    # without end it is cut where no processor can be; many cost no more than one
    ("0-99999999999", range(CPUS_MAX)), ("0-65535," * 20_000, range(CPUS_MAX)),
], ids=lambda each: None if len(each) > 99 else str(each))  # fmt: skip
def test_cpu_list(text, expected):
    """A list gives its numbers in ascending order, each once; parts that do not parse give none."""
    assert topology.cpu_list(text) == tuple(expected)


def test_a_file_that_cannot_be_read_is_none(sketch):
    tree = Tree(sketch.file("folder/file", b" \xff\x00 text \n").root)
    assert tree.text("folder/file") == "\ufffd\x00 text"
    assert [tree.text(path) for path in ("none", "folder", "a\0b")] == [None, None, None]
    assert [tree.names(path) for path in ("none", "folder", "a\0b")] == [(), ("file",), ()]


def test_only_the_real_root_is_the_system(sketch, monkeypatch):
    """There the kernel is asked where this process may run, and no file."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 5})
    roots = (Path("/"), sketch.status("3").root)
    assert [topology.allowed(Tree(root)) for root in roots] == [(5, 7), (3,)]


ODD = PciDevice("10000:01:00.0", None, None, (), None, None)


@pytest.mark.parametrize(("text", "expected"), TABLE["addresses"])
def test_a_pci_address(text, expected):
    """Every way to write an address becomes one; the rest is none."""
    assert topology.pci_address(text) == expected


@pytest.mark.parametrize(("files", "told"), [
    *TABLE["not_told"], ({"numa_node": "9" * 5000}, {}),
    ({"local_cpulist": "0-1"}, {"local_cpus": (0, 1)}),
])  # fmt: skip
def test_what_a_pci_device_does_not_tell_is_none(sketch, files, told):
    assert pci_devices(Tree(sketch.root)) == ()
    sketch.pci("10000:01:00.0", class_="0x120000", **files)
    sketch.pci("no-address", class_="0x030000").pci("0000:01:00.0", class_="rubbish")
    assert pci_devices(Tree(sketch.root)) == (replace(ODD, **told),)


NEAR_0, NEAR_1 = "0000:1b:00.0", "0000:df:00.0"


def state(sketch, address, backend="cupy", **more):
    device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "x", backend, address, **more)
    return link_states([device], sketch.root).get("cuda:0")


def test_a_card_of_a_large_machine(eight):
    """Its node and its link; the process may run on all cores, or is bound to those of one node."""
    whole = LinkState(node=0, nodes=(0, 1), width=16, max_width=16)
    assert state(eight, NEAR_0) == whole
    assert state(eight.status("32-63"), NEAR_0).nodes == (1,)
    assert [state(eight, pci).node for pci in (NEAR_1, "00000000:1B:00.0")] == [1, 0]


@pytest.mark.parametrize("pci", [None, "0000:77:00.0", "", "../../../etc", "a\x00b"])
def test_a_device_that_is_on_no_bus(eight, pci):
    told = {"link_width": 8, "max_link_width": 16}
    found = state(eight, pci, numa_node=1, facts=told)
    assert (found.node, found.width, found.max_width) == (1, 8, 16)


def test_what_no_file_tells_is_not_known(eight):
    """And of a scripted device nothing is: it is no part of the machine."""
    none = Sketch(eight.root / "none")
    assert replace(state(none, NEAR_0), nodes=()) == LinkState()
    assert state(eight, NEAR_0, "fake") is state(none, NEAR_0, "fake") is None
