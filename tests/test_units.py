"""Quantities for people."""

import pytest

from gpumap import units
from gpumap.units import memory


@pytest.mark.parametrize(("nbytes", "text"), [
    (None, "-"), (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4096, "4.0 KiB"),
    (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (25_232_932_864, "23.5 GiB"), (2**40, "1.0 TiB"),
    (5000 * 2**40, "5000.0 TiB"),
])  # fmt: skip
def test_memory_is_in_binary_units(nbytes, text):
    """The largest unit that leaves at least one, one digit after the point, bytes exact."""
    assert text == memory(nbytes)


@pytest.mark.parametrize(("values", "unit", "shown"), [
    ([999.4e9, 1e12], "B/s", ["999 GB/s", "1000"]),
    ([999.6e9, 1e12], "B/s", ["1.00 TB/s", "1.00"]),
    ([0.9994], "s", ["999 ms"]), ([0.9996], "s", ["1.00 s"]),
    ([0.0352, 0.0351, 0.1], "s", ["35.2 ms", "35.1", "100.0"]),
    ([5e-6], "s", ["5.00 µs"]), ([-2e-9], "s", ["-2.00 ns"]), ([1234.0], "s", ["1234 s"]),
    ([0.0], "s", ["0.00 s"]), ([1e-15], "s", ["0.00 ps"]), ([90.0], "s", ["90.0 s"]),
    ([2.25e11, 2.07e11, float("inf")], "FLOP/s", ["225 GFLOP/s", "207", "inf"]),
    ([float("inf")], "B/s", ["inf B/s"]), ([0.5], "B/s", ["0.50 B/s"]), ([0.125], "1", ["0.12"]),
    ([7.4], "1/s", ["7.40 /s"]), ([7400.0], "1/s", ["7.40 k/s"]), ([1.84], "1", ["1.84"]),
    ([2.5e15], "FLOP/s", ["2.50 PFLOP/s"]),
])  # fmt: skip
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
