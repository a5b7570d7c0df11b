"""What holds devices back: counts of heat that go up, clocks that drop, and the driver's words."""

from types import SimpleNamespace

import pytest
from trees import CPU

from gpumap.machine.state import Throttle
from gpumap.model import Device, DeviceRef, Kind


def cpu(index, *cores):
    ref = DeviceRef(Kind.CPU, index)
    return Device(f"cpu:{index}", Kind.CPU, ref, "Xeon", "numpy", cores=cores)


BOTH = ("cpu:0", "cpu:1")


def heat(sketch, core, count):
    sketch.file(f"{CPU}/cpu{core}/thermal_throttle/core_throttle_count", str(count))


def clock(sketch, core, gigahertz):
    sketch.file(f"{CPU}/cpu{core}/cpufreq/scaling_cur_freq", f"{gigahertz * 1e6:.0f}")


def watch(sketch, **reasons):
    gpus = SimpleNamespace(throttled=lambda: reasons)
    return Throttle([cpu(0, 0), cpu(1, 1, 2)], gpus, sketch.root)


def test_a_count_of_heat_that_goes_up(sketch):
    for core, count in enumerate((7, 0, 0)):
        heat(sketch, core, count)
    throttle = watch(sketch)
    before = throttle.read(BOTH)
    heat(sketch, 1, 2)
    heat(sketch, 2, 1)
    during, after = throttle.read(), throttle.read()
    assert (before, after) == ({}, {})
    assert during == {"cpu:1": "heat, in core 1 and 1 more"}


def test_a_clock_that_drops_below_ninety_percent(sketch):
    """An idle core has a low clock by right: only devices that worked just now are judged."""
    for core in range(3):
        clock(sketch, core, 2.0)
    throttle = watch(sketch)
    seen = []
    for gigahertz in (2.0, 3.0, 2.7, 2.6, 3.0):
        clock(sketch, 0, gigahertz)
        seen.append(throttle.read(BOTH))
    assert seen == [{}, {}, {}, {"cpu:0": "core 0 at 2.60 GHz, before at 3.00 GHz"}, {}]
    clock(sketch, 0, 0.8)
    clock(sketch, 1, 0.8)
    assert set(throttle.read(("cpu:1",))) == {"cpu:1"}
    assert throttle.read() == {}


def test_the_drivers_words_come_first(sketch):
    """A GPU's reasons are joined; those of cores stand beside them under their own ids."""
    heat(sketch, 0, 1)
    throttle = watch(sketch, **{"cuda:0": ("power cap", "hardware slowdown")})
    heat(sketch, 0, 2)
    expected = {"cuda:0": "power cap, hardware slowdown", "cpu:0": "heat, in core 0"}
    assert throttle.read(BOTH) == expected


@pytest.mark.parametrize("content", [None, "", "-1", "x", "\x00"])
def test_files_that_are_missing_or_broken_say_nothing(sketch, content):
    if content is not None:
        sketch.file(f"{CPU}/cpu0/thermal_throttle/core_throttle_count", content)
        sketch.file(f"{CPU}/cpu0/cpufreq/scaling_cur_freq", content)
    heat(sketch, 1, 5)
    clock(sketch, 1, 3.0)
    throttle = watch(sketch)
    found = [throttle.read(BOTH)]
    if content is not None:
        sketch.file(f"{CPU}/cpu1/thermal_throttle/core_throttle_count", content)
        sketch.file(f"{CPU}/cpu1/cpufreq/scaling_cur_freq", content)
    found.append(throttle.read(BOTH))
    heat(sketch, 1, 5)
    found.append(throttle.read(BOTH))
    assert found == [{}, {}, {}]
