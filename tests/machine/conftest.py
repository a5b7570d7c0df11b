"""Captured trees of machines that are not at hand."""

import pytest
from trees import Sketch, listed


@pytest.fixture
def sketch(tmp_path):
    return Sketch(tmp_path)


@pytest.fixture
def eight(sketch):
    """Two sockets of 32 cores with SMT, eight GPUs, a display controller, a network card."""
    sketch.online(range(128)).status("0-127").memory(2 * 2**40, 2**40)
    for core in range(64):
        sketch.core((core, core + 64))
    near = [[*range(32), *range(64, 96)], [*range(32, 64), *range(96, 128)]]
    for node, cpus in enumerate(near):
        sketch.node(node, cpus)
    for place, bus in enumerate(("1b", "43", "52", "61", "9d", "c3", "d1", "df")):
        node = place // 4
        h100 = {"vendor": "0x10de", "device": "0x2330", "class_": "0x030200"}
        link = {"current_link_width": "16"}
        most = {"max_link_width": "16"}
        where = {"numa_node": str(node), "local_cpulist": listed(near[node])}
        sketch.pci(f"0000:{bus}:00.0", **h100, **link, **most, **where)
    sketch.pci("0000:02:00.0", vendor="0x1a03", device="0x2000", class_="0x030000", numa_node="0")
    return sketch.pci("0000:18:00.0", vendor="0x15b3", device="0x1021", class_="0x020700")


@pytest.fixture
def desktop(sketch):
    """Four cores with neighbouring SMT siblings, four without, no NUMA folder."""
    sketch.online(range(12), model="12th Gen Intel(R) Core(TM) i7").status("0-11")
    for core in range(4):
        sketch.core((2 * core, 2 * core + 1))
    for cpu in range(8, 12):
        sketch.core((cpu,))
    return sketch.memory(32 * 2**30, 30 * 2**30)
