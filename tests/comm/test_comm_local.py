"""An exchange between sessions of one process: every rank has the exact sum, on every backend."""

import numpy as np
import pytest
from sessions import got, opened, sent, skipped

from gpumap.backends import REGISTRY
from gpumap.comm.local import exchange


@pytest.fixture(params=[pytest.param(name, marks=skipped(name)) for name in REGISTRY])
def sessions(request):
    with opened(*[request.param] * 3) as found:
        yield found


def exchanged(name, sessions, values, times):
    buffers = [sent(session, each) for session, each in zip(sessions, values, strict=True)]
    made = exchange(name, sessions, buffers)
    routes = made.queue(times)
    for session in sessions:
        session.synchronize()
    return [got(buffer) for buffer in buffers], routes


@pytest.mark.parametrize("name", ["host", "ring"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 7, 4096, 100_003])
def test_every_rank_has_the_exact_sum(sessions, name, ranks, length):
    """Also of exchanges that stand in a queue: scratch is used again."""
    if "kernels" not in sessions[0].features:
        pytest.skip("it has no kernels to add with")
    values = [(2.0**rank * (1 + np.arange(length) % 1000)).astype("f4") for rank in range(ranks)]
    for times in (1, 3):
        found, routes = exchanged(name, sessions[:ranks], values, times)
        for array in found:
            np.testing.assert_array_equal(array, ranks ** (times - 1) * sum(values))
        assert bool(routes) == (ranks > 1 and name == "ring")
