import os
import platform

import psutil
import pytest
from tables import table
from trees import CPU

from gpumap.machine.topology import (
    Cpu,
    Topology,
    Tree,
    memory_limits,
    model,
    quota,
    read,
)

V2 = "sys/fs/cgroup"


def test_eight(eight):
    """Siblings n and n+64 are one core; of PCI, displays and accelerators count, in their order."""
    topology = read(eight.root)
    assert len(topology.cpus) == topology.online == 128
    assert topology.cpus[33] == Cpu(33, siblings=(33, 97), numa_node=1)
    assert topology.cpus[97] == Cpu(97, siblings=(33, 97), numa_node=1)
    assert topology.cpus[33].hardware == topology.cpus[97].hardware == "core:33"
    assert [cpu.index for cpu in topology.physical] == list(range(64))
    assert (topology.model, topology.quota) == ("AMD EPYC 9554", None)
    assert (topology.memory_total, topology.memory_available) == (2 * 2**40, 2**40)
    assert " ".join(d.address[5:7] for d in topology.pci) == "02 1b 43 52 61 9d c3 d1 df"


def test_container(desktop):
    """Only what the cpuset leaves is there, the quota is told, memory ends at the group's limit.

    Cores with and without SMT stand side by side, and the first that is allowed stands for its
    core; without a NUMA folder no node is known.
    """
    desktop.status("3,6-8").file("proc/self/cgroup", "0::/")
    desktop.file(f"{V2}/cpu.max", "150000 100000")
    desktop.file(f"{V2}/memory.max", str(8 * 2**30))
    desktop.file(f"{V2}/memory.current", str(2**30))
    four = ((3, (2, 3)), (6, (6, 7)), (7, (6, 7)), (8, (8,)))
    cpus = tuple(Cpu(n, siblings, None) for n, siblings in four)
    model_ = "12th Gen Intel(R) Core(TM) i7"
    found = read(desktop.root)
    assert found == Topology(cpus, 12, 1.5, model_, 8 * 2**30, 7 * 2**30)
    assert [cpu.index for cpu in found.physical] == [3, 6, 8]


@pytest.mark.parametrize(("allowed", "online", "expected"), [
    ("8-9", "0-3", [8, 9]), ("", "0-3", [0, 1, 2, 3]),
    ("rubbish", "0-3", [0, 1, 2, 3]), ("4-5", "rubbish", [4, 5])
], ids=["a virtual list", "no mask", "bad mask", "bad online"])  # fmt: skip
def test_allowed(sketch, allowed, online, expected):
    """The mask decides; where there is none, all that are on."""
    sketch.status(allowed).file(f"{CPU}/online", online)
    assert [cpu.index for cpu in read(sketch.root).cpus] == expected


def test_an_empty_tree(sketch):
    """Without any file Python and psutil are asked, as on macOS."""
    topology = read(sketch.root)
    count = os.cpu_count()
    assert topology.cpus == tuple(Cpu(i, (i,), None) for i in range(count))
    assert (topology.online, topology.quota, topology.pci) == (count, None, ())
    assert topology.model == platform.machine()
    assert topology.memory_total == psutil.virtual_memory().total
    assert 0 < topology.memory_available <= topology.memory_total


def test_a_system_that_cannot_pin(desktop, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert read(desktop.root).pinnable is False


@pytest.mark.parametrize(("text", "expected"), [
    ("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n", "Intel(R) Xeon(R) Processor"),
    ("processor\t: 0\nmodel name\t:\n", None), ("", None),
    ("\x00\x01rubbish without a colon", None),
])  # fmt: skip
def test_model(sketch, text, expected):
    assert model(Tree(sketch.file("proc/cpuinfo", text).root)) == expected


def build(sketch, own, files):
    sketch.file("proc/self/cgroup", own)
    for path, content in files.items():
        sketch.file(path, content)
    return Tree(sketch.root)


QUOTAS = table(__file__)


@pytest.mark.parametrize("group", QUOTAS.values(), ids=QUOTAS)
def test_quota(sketch, group):
    """The smallest quota of the process's group and of all groups above it binds."""
    assert quota(build(sketch, group["own"], group["files"])) == group.get("quota")


@pytest.mark.parametrize(("own", "files", "limits"), [
    ("0::/a/b", {"a/b/memory.max": "1000", "a/b/memory.current": "700",
                 "a/b/memory.stat": "anon 300\ninactive_file 400\n", "a/memory.max": "max",
                 "memory.max": "5000"}, [(1000, 700), (5000, 5000)]),
    ("8:memory:/d", {"memory/d/memory.limit_in_bytes": "1000",
                     "memory/d/memory.usage_in_bytes": "700",
                     "memory/d/memory.stat": "inactive_file 9\ntotal_inactive_file 100\n",
                     "memory/memory.limit_in_bytes": "500",
                     "memory/memory.usage_in_bytes": "1700"}, [(1000, 400), (500, 0)]),
], ids=["v2", "v1"])  # fmt: skip
def test_memory_limits(sketch, own, files, limits):
    """Cold page cache is not in use; "max" is no limit."""
    found = memory_limits(build(sketch, own, {f"{V2}/{path}": t for path, t in files.items()}))
    assert found == tuple(limits)
