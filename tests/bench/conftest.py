"""What several of these tests are given."""

import gc

import pytest
from worlds import Counted


@pytest.fixture
def counted():
    gc.collect()
    Counted.live, Counted.highest = {}, {}
    return Counted
