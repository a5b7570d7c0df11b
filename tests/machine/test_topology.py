import os
import platform
import threading

import psutil
import pytest
from trees import CPU

from gpumap.machine.topology import Cpu, Topology, read


def test_eight(eight):
    """Siblings n and n+64 are one core; packages and nodes follow the sockets."""
    topology = read(eight.root)
    assert len(topology.cpus) == topology.online == 128
    assert topology.cpus[33] == Cpu(33, package=1, core=1, siblings=(33, 97), numa_node=1)
    assert topology.cpus[97] == Cpu(97, package=1, core=1, siblings=(33, 97), numa_node=1)
    assert topology.cpus[33].hardware == topology.cpus[97].hardware == "core:33"
    assert [cpu.index for cpu in topology.physical] == list(range(64))
    assert (topology.model, topology.quota) == ("AMD EPYC 9554", None)
    assert (topology.memory_total, topology.memory_available) == (2 * 2**40, 2**40)
    assert len(topology.pci) == 9


def test_desktop(desktop):
    """Cores with and without SMT stand side by side; without a NUMA folder no node is known."""
    topology = read(desktop.root)
    assert [cpu.index for cpu in topology.physical] == [0, 2, 4, 6, 8, 9, 10, 11]
    assert topology.cpus[1] == Cpu(1, package=0, core=0, siblings=(0, 1), numa_node=None)
    assert topology.cpus[8] == Cpu(8, package=0, core=24, siblings=(8,), numa_node=None)
    # the first that is allowed stands for its core
    assert [cpu.index for cpu in read(desktop.status("1,3,8").root).physical] == [1, 3, 8]


def test_clusters(clusters):
    """A package may hold several nodes; a node of memory alone takes no processor."""
    cpus = read(clusters.root).cpus
    assert [cpu.package for cpu in cpus] == [0] * 8 + [1] * 8
    assert [cpu.numa_node for cpu in cpus] == [n for n in range(8) for _ in range(2)]


def test_container(desktop):
    """Only what the cpuset leaves is there, the quota is told, memory ends at the group's limit."""
    desktop.status("2,3,6-7").file("proc/self/cgroup", "0::/")
    desktop.file("sys/fs/cgroup/cpu.max", "150000 100000")
    desktop.file("sys/fs/cgroup/memory.max", str(8 * 2**30))
    desktop.file("sys/fs/cgroup/memory.current", str(2**30))
    assert read(desktop.root) == Topology(
        cpus=(
            Cpu(2, 0, 4, (2, 3), None),
            Cpu(3, 0, 4, (2, 3), None),
            Cpu(6, 0, 12, (6, 7), None),
            Cpu(7, 0, 12, (6, 7), None),
        ),
        online=12,
        quota=1.5,
        model="12th Gen Intel(R) Core(TM) i7",
        memory_total=8 * 2**30,
        memory_available=7 * 2**30,
    )


@pytest.mark.parametrize(("allowed", "online", "expected"), [
    ("0-63", "0-3", [0, 1, 2, 3]), ("8-9", "0-3", [8, 9]), ("", "0-3", [0, 1, 2, 3]),
    ("rubbish", "0-3", [0, 1, 2, 3]), ("4-5", "rubbish", [4, 5])
], ids=["off-line ones", "a virtual list", "no mask", "bad mask", "bad online"])  # fmt: skip
def test_allowed(sketch, allowed, online, expected):
    """The mask decides, without processors that are off; where there is none, all that are on."""
    sketch.status(allowed).file(f"{CPU}/online", online)
    assert [cpu.index for cpu in read(sketch.root).cpus] == expected


def test_an_empty_tree(sketch):
    """Without any file Python and psutil are asked, as on macOS."""
    topology = read(sketch.root)
    count = os.cpu_count()
    assert topology.cpus == tuple(Cpu(i, None, None, (i,), None) for i in range(count))
    assert (topology.online, topology.quota, topology.pci) == (count, None, ())
    assert topology.model == platform.machine()
    assert topology.memory_total == psutil.virtual_memory().total
    assert 0 < topology.memory_available <= topology.memory_total


def test_a_system_that_cannot_pin(desktop, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert read(desktop.root).pinnable is False


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"-1", b"9" * 6000, b"0-99999999999"])
def test_garbage(desktop, content):
    """Whatever stands in the files about a processor, it is still there."""
    for name in ("physical_package_id", "core_id", "thread_siblings_list"):
        desktop.file(f"{CPU}/cpu8/topology/{name}", content)
    desktop.file("sys/devices/system/node/node0/cpulist", b"\x00,-1,x")
    desktop.file("sys/devices/system/node/nodeX/cpulist", "8")
    desktop.file("proc/meminfo", content).file("proc/self/cgroup", content)
    cpu = next(c for c in read(desktop.root).cpus if c.index == 8)
    assert (cpu.package, cpu.core, cpu.numa_node) == (None, None, None)
    assert 8 in cpu.siblings


def test_files_of_older_and_newer_kernels(sketch):
    """The newer file about siblings is preferred; without MemAvailable free memory is available."""
    sketch.file("proc/meminfo", "MemTotal: 100 kB\nMemFree: 40 kB\nrubbish\nCached:")
    sketch.status("4").file(f"{CPU}/online", "0-7")
    sketch.file(f"{CPU}/cpu4/topology/core_cpus_list", "5")
    sketch.file(f"{CPU}/cpu4/topology/thread_siblings_list", "0-7")
    found = read(sketch.root)
    assert found.cpus == (Cpu(4, None, None, (4, 5), None),)  # always its own sibling
    assert found.memory_available == 40 * 1024


def test_this_machine():
    """The real root gives the processors of this process, each its own sibling."""
    topology = read()
    assert topology.cpus
    assert topology.online >= 1
    assert all(cpu.index in cpu.siblings for cpu in topology.cpus)
    assert 0 < topology.memory_available <= topology.memory_total
    assert topology.model
    if topology.pinnable:
        assert {cpu.index for cpu in topology.cpus} == os.sched_getaffinity(os.getpid())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin")
def test_a_pinned_worker_sees_the_whole_process():
    seen = []

    def work():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        seen.append(read().cpus)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert seen == [read().cpus]
