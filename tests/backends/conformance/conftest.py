"""What tests of conformance are given."""

import numpy as np
import pytest
from contract import PLACES, SEED, opened


@pytest.fixture(params=PLACES)
def session(request):
    with opened(request.param) as session:
        yield session


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)
