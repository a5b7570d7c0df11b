"""Quantities for people."""

import pytest

from gpumap import units
from gpumap.units import memory


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4096, "4.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (25_232_932_864, "23.5 GiB"),
        (2**40, "1.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_memory_is_in_binary_units(nbytes, text):
    """The largest unit that leaves at least one, one digit after the point, bytes exact."""
    assert text == memory(nbytes)


@pytest.mark.parametrize(
    ("value", "shown"), [(7.4, "7.40 /s"), (7400.0, "7.40 k/s"), (31.7e6, "31.7 M/s")]
)
def test_a_rate_of_things_is_shown_without_its_one(value, shown):
    """And as it is shown, a limit may be written."""
    assert units.together([value], "1/s") == [shown]
    assert units.quantity(shown, "1/s") == value
