import pytest

from gpumap.machine.topology import MemoryLimit, memory_limits, quota
from gpumap.machine.tree import Tree

V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/cpu,cpuacct"


def build(sketch, own, files):
    sketch.file("proc/self/cgroup", own)
    for path, content in files.items():
        sketch.file(path, content)
    return Tree(sketch.root)


def v1(folder, time, period="100000"):
    return {f"{folder}/cpu.cfs_quota_us": time, f"{folder}/cpu.cfs_period_us": period}


CPU = "4:cpu,cpuacct:/d/1"
QUOTAS = {
    "own": ("0::/a/b", {f"{V2}/a/b/cpu.max": "150000 100000"}, 1.5),
    "max": ("0::/a/b", {f"{V2}/a/b/cpu.max": "max 100000"}, None),
    "parent smaller": (
        "0::/a/b", {f"{V2}/a/b/cpu.max": "400000 100000", f"{V2}/a/cpu.max": "50000 100000"}, 0.5),
    "parent without": (
        "0::/a/b", {f"{V2}/a/b/cpu.max": "50000 100000", f"{V2}/a/cpu.max": "max 100000"}, 0.5),
    "another's": ("0::/a/b", {f"{V2}/other/cpu.max": "50000 100000"}, None),
    "namespace root": ("0::/docker/1f", {f"{V2}/cpu.max": "200000 100000"}, 2.0),
    "outside of the namespace": (
        "0::/../x", {f"{V2}/cpu.max": "200000 100000", f"{V2}/x/cpu.max": "1 100000"}, 2.0),
    "no membership": ("", {f"{V2}/cpu.max": "200000 100000"}, 2.0),
    "hybrid": ("1:name=systemd:/\n0::/a", {f"{V2}/unified/a/cpu.max": "200000 100000"}, 2.0),
    "v1": (CPU, v1(f"{V1}/d/1", "150000"), 1.5),
    "v1, link": (CPU, v1("sys/fs/cgroup/cpu/d/1", "150000"), 1.5),
    "v1, none": (CPU, v1(f"{V1}/d/1", "-1"), None),
    "v1, parent smaller": (CPU, v1(f"{V1}/d/1", "300000") | v1(f"{V1}/d", "150000"), 1.5),
    "v1, namespace root": (CPU, v1(V1, "150000"), 1.5),
    "v1, no period": (CPU, v1(f"{V1}/d/1", "150000", "0"), None),
    "v1, another's": ("4:cpuset:/d/1", v1(f"{V1}/d/1", "150000"), None),
    **{f"garbage {n}": ("0::/a", {f"{V2}/a/cpu.max": content}, None) for n, content in enumerate(
        ("rubbish", "-5 100000", "1 -1", "9" * 400 + " 1", "\x00\x01"))},
    "garbage, deep": ("0::/" + "a/" * 5000, {f"{V2}/a/cpu.max": "max"}, None),
    "garbage, own": ("::::\n:\n0", {f"{V2}/a/cpu.max": ""}, None),
}  # fmt: skip


@pytest.mark.parametrize(("own", "files", "expected"), QUOTAS.values(), ids=QUOTAS)
def test_quota(sketch, own, files, expected):
    """The smallest quota of the process's group and of all groups above it binds."""
    assert quota(build(sketch, own, files)) == expected


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
