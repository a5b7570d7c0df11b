"""Every product of 1 to 67 rows, columns and terms on an OpenCL device: 300,763 of them."""

import numpy as np
import pytest
from test_pyopencl_gemm import all_small, difference, session  # noqa: F401 - a fixture


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("session", ["as it is"], indirect=True)
def test_every_small_size(session):  # noqa: F811 - the fixture
    """Within the bound of its terms, the factors turned and scaled in every way."""
    rng = np.random.default_rng(9)
    worst = max(difference(session, rng, sizes, "float32", *how) for sizes, *how in all_small())
    assert worst <= 1
