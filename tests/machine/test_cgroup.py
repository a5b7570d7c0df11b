import pytest

from gpumap.machine.cgroup import MemoryLimit, memory_limits, quota
from gpumap.machine.tree import Tree

V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/cpu,cpuacct"


def build(sketch, own, files):
    sketch.file("proc/self/cgroup", own)
    for path, content in files.items():
        sketch.file(path, content)
    return Tree(sketch.root)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b", {f"{V2}/a/b/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b", {f"{V2}/a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b", {f"{V2}/a/b/cpu.max": "400000 100000", f"{V2}/a/cpu.max": "50000 100000"}, 0.5),
        ("0::/a/b", {f"{V2}/a/b/cpu.max": "50000 100000", f"{V2}/a/cpu.max": "max 100000"}, 0.5),
        ("0::/a/b", {f"{V2}/other/cpu.max": "50000 100000"}, None),
        ("0::/docker/1f", {f"{V2}/cpu.max": "200000 100000"}, 2.0),
        ("0::/../x", {f"{V2}/cpu.max": "200000 100000", f"{V2}/x/cpu.max": "1 100000"}, 2.0),
        ("", {f"{V2}/cpu.max": "200000 100000"}, 2.0),
        ("1:name=systemd:/\n0::/a", {f"{V2}/unified/a/cpu.max": "200000 100000"}, 2.0),
    ],
    ids=[
        "own", "max", "parent smaller", "parent without", "another's", "namespace root",
        "outside of the namespace", "no membership", "hybrid",
    ],
)  # fmt: skip
def test_quota_v2(sketch, own, files, expected):
    """The smallest quota of the process's group and of all groups above it binds."""
    assert quota(build(sketch, own, files)) == expected


def v1(folder, time, period="100000"):
    return {f"{folder}/cpu.cfs_quota_us": time, f"{folder}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("4:cpu,cpuacct:/d/1", v1(f"{V1}/d/1", "150000"), 1.5),
        ("4:cpu,cpuacct:/d/1", v1("sys/fs/cgroup/cpu/d/1", "150000"), 1.5),
        ("4:cpu,cpuacct:/d/1", v1(f"{V1}/d/1", "-1"), None),
        ("4:cpu,cpuacct:/d/1", v1(f"{V1}/d/1", "300000") | v1(f"{V1}/d", "150000"), 1.5),
        ("4:cpu,cpuacct:/d/1", v1(V1, "150000"), 1.5),
        ("4:cpu,cpuacct:/d/1", v1(f"{V1}/d/1", "150000", "0"), None),
        ("4:cpuset:/d/1", v1(f"{V1}/d/1", "150000"), None),
    ],
    ids=["own", "link", "none", "parent smaller", "namespace root", "no period", "another's"],
)
def test_quota_v1(sketch, own, files, expected):
    assert quota(build(sketch, own, files)) == expected


@pytest.mark.parametrize(("own", "content"), [
    ("0::/a", "rubbish"), ("0::/a", "-5 100000"), ("0::/a", "1 -1"), ("0::/a", "9" * 400 + " 1"),
    ("0::/a", "\x00\x01"), ("0::/" + "a/" * 5000, "max"), ("::::\n:\n0", "")])  # fmt: skip
def test_garbage_is_no_quota(sketch, own, content):
    assert quota(build(sketch, own, {f"{V2}/a/cpu.max": content})) is None


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
