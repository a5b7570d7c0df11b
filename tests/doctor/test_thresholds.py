"""Where each cause begins: at its bound exactly, by the end of an interval, not its middle."""

import math

import pytest
from test_causes import CORE, GPU, codes, known, named, nvidia

from gpumap.doctor.evidence import Setting
from gpumap.machine.state import Others
from gpumap.machine.topology import Topology
from gpumap.model import Estimate, replace

FLOAT64 = {"theano": {"floatX": Setting("float64", "THEANO_FLAGS")}}


def figure(low, high, unit="s"):
    return Estimate(low, low, high, unit)


def measured(device=GPU, others=None, **figures):
    found = {name: figure(*ends) for name, ends in figures.items()}
    return known(named(device, figures=found), **(others or {}))


def busy(share):
    return known(named(), nvidia=nvidia(busy=share))


def free(nbytes):
    return known(named(replace(GPU, memory_total=1 << 34, memory_free=nbytes)))


def quota(cores):
    topology = known().topology
    here = Topology(topology.cpus, 4, cores, "A processor", 1 << 34, 1 << 33)
    return known(named(CORE), topology=here)


def taken(cores):
    return known(named(CORE), others=Others(cores, 4, ()))


BELOW = math.nextafter(1e-3, 0.0)


@pytest.mark.parametrize(("code", "beyond", "within"), [
    ("GM401", measured(launch=(1e-3, 1.0)), measured(launch=(BELOW, 1.0))),
    ("GM405", measured(waiting=(1e-3, 1.0)), measured(waiting=(BELOW, 1.0))),
    ("GM403", measured(setup=(10.0, 99.0)), measured(setup=(9.99, 99.0))),
    ("GM402", measured(bandwidth=(1e8, 0.999e9)), measured(bandwidth=(1e8, 1e9))),
    ("GM406", measured(product=(2.1e-3, 3e-3), host_product=(1e-3, 2e-3)),
     measured(product=(2e-3, 3e-3), host_product=(1e-3, 2e-3))),
    ("GM407", measured(others=FLOAT64, product=(1e-3, 1.2e-3), double=(4.9e-3, 6e-3)),
     measured(others=FLOAT64, product=(1e-3, 1.2e-3), double=(4.8e-3, 6e-3))),
    ("GM215", busy(0.101), busy(0.1)), ("GM213", free(74_999_999), free(75_000_000)),
    ("GM302", quota(0.99), quota(1.0)), ("GM303", taken(0.5), taken(0.49)),
])  # fmt: skip
def test_a_cause_begins_beyond_its_bound(code, beyond, within):
    """Where the interval reaches back to it, the figure may be that of a sound device."""
    assert (codes(beyond), codes(within)) == ([code], [])


@pytest.mark.parametrize("value", ["Yes", "yes", "No", "1", ""])
def test_only_yes_marks_a_parent_that_has_the_device(value):
    found = codes(known(named(), variables={"THEANO_GPU_IS_ALREADY_ACTIVE": value}))
    assert found == (["GM108"] if value == "Yes" else [])
