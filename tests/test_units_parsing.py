"""Quantities that people write."""

import pytest
from tables import table

from gpumap.units import duration, nbytes, quantity, share


@pytest.mark.parametrize(("text", "seconds"), [
    ("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0.5", 0.5),
    (" 8s ", 8.0),
])  # fmt: skip
def test_a_duration_is_in_seconds(text, seconds):
    assert seconds == duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.5%", 0.005), ("99.9 %", 0.999), ("50%", 0.5)]
)
def test_a_share_has_its_sign(text, value):
    assert value == pytest.approx(share(text), rel=1e-15)


@pytest.mark.parametrize(("text", "size"), [
    ("400", 400), ("1B", 1), ("4KiB", 4096), ("4 KiB", 4096), ("1kB", 1000), ("1KB", 1000),
    ("1MB", 10**6), ("1.5MiB", 3 * 2**19), ("2GiB", 2**31), ("1TB", 10**12), ("0.5KiB", 512),
])  # fmt: skip
def test_bytes_have_a_unit_that_means_one_thing(text, size):
    """Binary units have an i, decimal ones have none, bare numbers are bytes."""
    assert size == nbytes(text)


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


@pytest.mark.parametrize(
    ("unit", "fix", "text"),
    [(unit, fix, text) for unit, fix, texts in table(__file__)["wrong"] for text in texts],
)
def test_what_is_no_quantity(unit, fix, text):
    """Other units and digits, nothing, or what may mean two things: a message ends in the fix."""
    with pytest.raises(ValueError, match="write") as error:
        READERS[unit](text) if unit in READERS else quantity(text, unit)
    assert str(error.value).startswith(f"{text!r} ")
    assert str(error.value).endswith(fix)
