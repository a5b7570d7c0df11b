"""Quantities for people, and quantities that people write."""

import pytest
from tables import table

from gpumap import units
from gpumap.units import duration, memory, nbytes, quantity, share

TABLE = table(__file__)


@pytest.mark.parametrize(("nbytes", "text"), [
    (None, "-"), (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4096, "4.0 KiB"),
    (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (25_232_932_864, "23.5 GiB"), (2**40, "1.0 TiB"),
    (5000 * 2**40, "5000.0 TiB"),
])  # fmt: skip
def test_memory_is_in_binary_units(nbytes, text):
    assert text == memory(nbytes)


@pytest.mark.parametrize(("values", "unit", "shown"), TABLE["figures"])
def test_a_figure_has_three_digits_and_the_prefix_of_what_is_shown(values, unit, shown):
    """What rounds up to a thousand has the next prefix; its interval has the same one."""
    assert units.same_prefix(values, unit) == shown
    assert unit != "1/s" or units.quantity(shown[0], unit) == values[0]  # a limit may be so written


@pytest.mark.parametrize(("numbers", "text"), [
    ((), ""), ((3,), "3"), ((1, 3), "1,3"), ((8, 0, 2, 1, 3, 10, 11, 3), "0-3,8,10-11"),
])  # fmt: skip
def test_numbers_are_listed_as_the_kernel_does(numbers, text):
    """In their order, each once; neighbours as a range, and no number that is not there."""
    assert units.ranges(numbers) == text


@pytest.mark.parametrize(("read", "texts"), [
    (duration, {"30": 30.0, "30s": 30.0, "500ms": 0.5, "2m": 120.0, "10min": 600.0, "1h": 3600.0,
                "0.5": 0.5, " 8s ": 8.0}),
    (nbytes, {"400": 400, "1B": 1, "4KiB": 4096, "4 KiB": 4096, "1kB": 1000, "1KB": 1000,
              "1MB": 10**6, "1.5MiB": 3 * 2**19, "2GiB": 2**31, "1TB": 10**12, "0.5KiB": 512}),
    (share, {text: pytest.approx(value, rel=1e-15) for text, value in (
        ("2%", 0.02), ("0.5%", 0.005), ("99.9 %", 0.999), ("50%", 0.5))}),
])  # fmt: skip
def test_what_people_write_has_a_unit_that_means_one_thing(read, texts):
    """Seconds where there is none; bytes: binary units have an i; a share has its sign."""
    assert {text: read(text) for text in texts} == texts


@pytest.mark.parametrize(("text", "unit", "value"), [
    ("1.8", "1", 1.8), ("1.8x", "1", 1.8), ("29%", "1", 0.29),  # 29 * 0.01 is not
    ("5us", "s", 5e-6),  # 5 * 1e-6 is not
    ("5 µs", "s", 5e-6), ("5 \u03bcs", "s", 5e-6), ("2.5ns", "s", 2.5e-9), ("3s", "s", 3.0),
    ("4KiB", "B", 4096.0), ("1.5MB", "B", 1.5e6), ("50GB/s", "B/s", 5e10),
    ("2GiB/s", "B/s", 2.0**31), ("10TFLOP/s", "FLOP/s", 1e13), ("7FLOP/s", "FLOP/s", 7.0),
    ("100/s", "1/s", 100.0),
])  # fmt: skip
def test_a_quantity_has_the_unit_of_its_metric(text, unit, value):
    """To the last bit what the decimal says; a ratio needs no unit."""
    assert value == quantity(text, unit)


READERS = {"duration": duration, "share": share, "nbytes": nbytes}


@pytest.mark.parametrize(("unit", "fix", "texts"), table(__file__, "units_parsing")["wrong"])
def test_what_is_no_quantity(unit, fix, texts):
    """Other units and digits, nothing, or what may mean two things: a message ends in the fix."""
    for text in texts:
        with pytest.raises(ValueError, match="write") as error:
            READERS[unit](text) if unit in READERS else quantity(text, unit)
        assert str(error.value).startswith(f"{text!r} ")
        assert str(error.value).endswith(fix)
