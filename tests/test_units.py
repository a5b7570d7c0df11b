"""Quantities for people."""

import pytest
from tables import table

from gpumap import units
from gpumap.units import memory

TABLE = table(__file__)


@pytest.mark.parametrize(("nbytes", "text"), [
    (None, "-"), (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4096, "4.0 KiB"),
    (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (25_232_932_864, "23.5 GiB"), (2**40, "1.0 TiB"),
    (5000 * 2**40, "5000.0 TiB"),
])  # fmt: skip
def test_memory_is_in_binary_units(nbytes, text):
    """The largest unit that leaves at least one, one digit after the point, bytes exact."""
    assert text == memory(nbytes)


@pytest.mark.parametrize(("values", "unit", "shown"), TABLE["figures"])
def test_a_figure_has_three_digits_and_the_prefix_of_what_is_shown(values, unit, shown):
    """What rounds up to a thousand has the next prefix; its interval has the same one."""
    assert units.together(values, unit) == shown
    assert unit != "1/s" or units.quantity(shown[0], unit) == values[0]  # a limit may be so written


@pytest.mark.parametrize(("numbers", "text"), [
    ((), ""), ((3,), "3"), ((1, 3), "1,3"), ((8, 0, 2, 1, 3, 10, 11, 3), "0-3,8,10-11"),
])  # fmt: skip
def test_numbers_are_listed_as_the_kernel_does(numbers, text):
    """In their order, each once; neighbours as a range, and no number that is not there."""
    assert units.ranges(numbers) == text
