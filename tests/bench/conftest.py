"""What several of these tests are given."""

import gc

import pytest
from worlds import Counted


@pytest.fixture
def counted():
    """Return a kind of session that counts its bytes, from nothing on."""
    gc.collect()
    Counted.live, Counted.highest = {}, {}
    return Counted
