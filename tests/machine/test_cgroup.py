import pytest
from tables import tables

from gpumap.machine.topology import MemoryLimit, memory_limits, quota
from gpumap.machine.tree import Tree

V2 = "sys/fs/cgroup"


def build(sketch, own, files):
    sketch.file("proc/self/cgroup", own)
    for path, content in files.items():
        sketch.file(path, content)
    return Tree(sketch.root)


QUOTAS = tables(__file__)
QUOTAS["garbage, deep"] = {"own": "0::/" + "a/" * 5000, "files": {f"{V2}/a/cpu.max": "max"}}


@pytest.mark.parametrize("group", QUOTAS.values(), ids=QUOTAS)
def test_quota(sketch, group):
    """The smallest quota of the process's group and of all groups above it binds."""
    assert quota(build(sketch, group["own"], group["files"])) == group.get("quota")


def test_memory_limits_v2(sketch):
    """Cold page cache is not in use; "max" is no limit."""
    files = {
        f"{V2}/a/b/memory.max": "1000",
        f"{V2}/a/b/memory.current": "700",
        f"{V2}/a/b/memory.stat": "anon 300\ninactive_file 400\n",
        f"{V2}/a/memory.max": "max",
        f"{V2}/memory.max": "5000",
    }
    assert memory_limits(build(sketch, "0::/a/b", files)) == (
        MemoryLimit(1000, 300),
        MemoryLimit(5000, 0),
    )


def test_memory_limits_v1(sketch):
    folder = "sys/fs/cgroup/memory/d"
    files = {
        f"{folder}/memory.limit_in_bytes": "1000",
        f"{folder}/memory.usage_in_bytes": "1700",
        f"{folder}/memory.stat": "inactive_file 9\ntotal_inactive_file 100\n",
    }
    limits = memory_limits(build(sketch, "8:memory:/d", files))
    assert limits == (MemoryLimit(1000, 1600),)
    assert limits[0].free == 0
