"""What a chain is given, and how it is checked."""

from unittest.mock import MagicMock

import numpy as np
import pytest
from buffers import verified
from worlds import gpu, world

from gpumap.bench.calls import HostCall
from gpumap.bench.chain_work import OPERATIONS, PART, Data, DeviceIteration, Placed


@pytest.mark.parametrize("place", [0, PART - 1, PART, PART + 2])
def test_one_wrong_number_is_found(place):
    """Wherever it is, in the first block of rows or behind it; by a hundredth, or no number.

    A few units in the last place are rounding, more than the bound is none.
    """
    data, unit = Data(PART + 3, 1), np.finfo(np.float32).eps
    out = data.room()
    out.fill(np.nan)
    data.compute(out)
    assert data.check(out * (1 + 2 * unit)).passed
    assert not data.check(out * (1 + 100 * unit)).passed
    good, scale = out[place, 2], max(1.0, abs(out[place, 2]))
    for wrong in (good + 0.01 * scale, np.nan, np.inf):
        out[place, 2] = wrong
        assert not data.check(out).passed
    out[place, 2] = good
    assert data.check(out).passed


@pytest.mark.parametrize("fused", [True, False])
def test_a_chain_is_right_only_when_it_was_computed(fused):
    session = world(gpu()).sessions["a"]
    placed = Placed("a", session, Data(100, 1))
    work, beside = (DeviceIteration(placed, fused=fused) for _ in range(2))
    beside.poison()
    assert verified(work).passed
    assert not beside.check().passed


def test_the_host_has_all_cores_and_its_clock():
    found, cores, data = world(gpu()), MagicMock(), Data(1000, 1)
    work = HostCall(data, found.clock, cores)
    work.poison()
    assert not work.check().passed
    before = found.clock.now()
    work.queue(iterations=3)
    assert found.clock.now() - before == pytest.approx(3 * 1000 * OPERATIONS / 1e11)
    assert (cores.all.call_count, work.check().passed) == (1, True)
