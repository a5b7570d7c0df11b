"""Quantities that people write, and figures that are written for them."""

import pytest

from gpumap.units import duration, nbytes, quantity, share, together


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0.5", 0.5),
     (" 8s ", 8.0)],
)  # fmt: skip
def test_a_duration_is_in_seconds(text, seconds):
    """A bare number too."""
    assert seconds == duration(text)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0ms", "-1", "abc", "1d", "30 s", "1e3", "inf", "nan", ".5", "5.", "1_000", "٣",
     "9" * 400, "300000h"],
)  # fmt: skip
def test_what_is_no_duration(text):
    """Zero, other units, other digits and what nobody waits for; the message ends in the fix."""
    with pytest.raises(ValueError, match="is not a duration") as error:
        duration(text)

    assert f"{text!r} is not a duration: write 30, 30s, 500ms or 2m" == str(error.value)


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.5%", 0.005), ("99.9 %", 0.999), ("50%", 0.5)]
)
def test_a_share_has_its_sign(text, value):
    """Two percent are written 2%."""
    assert value == pytest.approx(share(text), rel=1e-15)


@pytest.mark.parametrize("text", ["2", "0.02", "0%", "100%", "-1%", "%", "abc", "", "1e1%", "٢%"])
def test_what_is_no_share(text):
    """No sign, nothing, everything; the message ends in the fix."""
    with pytest.raises(ValueError, match="is not a share") as error:
        share(text)

    assert f"{text!r} is not a share: write 2% or 0.5%" == str(error.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("400", 400), ("1B", 1), ("4KiB", 4096), ("4 KiB", 4096), ("1kB", 1000), ("1KB", 1000),
     ("1MB", 10**6), ("1.5MiB", 3 * 2**19), ("2GiB", 2**31), ("1TB", 10**12), ("0.5KiB", 512)],
)  # fmt: skip
def test_bytes_have_a_unit_that_means_one_thing(text, size):
    """Binary units have an i, decimal ones have none, bare numbers are bytes."""
    assert size == nbytes(text)


UNKNOWN = "has no unit that is known: write 4KiB, 1MB or 400 (bytes)"
NO_SIZE = "is not a size: write 400, 4KiB or 1MB"
NOT_WHOLE = "is not a whole number of bytes from 1 on: write 400 or 4KiB"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1K", "can mean two sizes: write 1KiB or 1kB"),
        ("1k", "can mean two sizes: write 1KiB or 1kB"),
        ("64M", "can mean two sizes: write 64MiB or 64MB"),
        ("2g", "can mean two sizes: write 2GiB or 2GB"),
        ("1T", "can mean two sizes: write 1TiB or 1TB"),
        ("4kib", UNKNOWN),
        ("1mb", UNKNOWN),
        ("3apples", UNKNOWN),
        ("-1", NO_SIZE),
        ("", NO_SIZE),
        ("KiB", NO_SIZE),
        ("1e6", NO_SIZE),
        ("small", NO_SIZE),
        ("9" * 40, NO_SIZE),
        ("0", NOT_WHOLE),
        ("0KiB", NOT_WHOLE),
        ("1.5", NOT_WHOLE),
        ("1.0001KiB", NOT_WHOLE),
    ],
)
def test_what_is_no_size_in_bytes(text, problem):
    """`1K` offers both that it can mean; every message ends in the fix."""
    with pytest.raises(ValueError, match="write") as error:
        nbytes(text)

    assert f"{text!r} {problem}" == str(error.value)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0352, "s", "35.2 ms"),
        (0.000244140625, "s", "244 µs"),
        (5.1e-6, "s", "5.10 µs"),
        (2.5e-9, "s", "2.50 ns"),
        (1.0, "s", "1.00 s"),
        (90.0, "s", "90.0 s"),
        (1234.0, "s", "1234 s"),
        (2147483648.0, "FLOP/s", "2.15 GFLOP/s"),
        (1.22e11, "FLOP/s", "122 GFLOP/s"),
        (7.84e7, "B/s", "78.4 MB/s"),
        (1.5, "1", "1.50"),
        (0.125, "1", "0.12"),
        (float("inf"), "B/s", "inf B/s"),
        (0.5, "B/s", "0.50 B/s"),
        (1e-15, "s", "0.00 ps"),
        (0.0, "s", "0.00 s"),
    ],
)
def test_a_figure_has_three_digits_and_a_prefix(value, unit, text):
    """The largest prefix that leaves one or more; seconds have none above, numbers none at all."""
    assert [text] == together((value,), unit)


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ((0.0352, 0.0009, 1.5), "s", ["35.2 ms", "0.9", "1500.0"]),
        ((1.84, 1.7, 1.92), "1", ["1.84", "1.70", "1.92"]),
        ((2.25e11, 2.07e11, float("inf")), "FLOP/s", ["225 GFLOP/s", "207", "inf"]),
    ],
)
def test_figures_together_share_the_unit_of_the_first(values, unit, texts):
    """Its prefix and its decimals are those of all, and it alone shows them."""
    assert texts == together(values, unit)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1.8", "1", 1.8),
        ("1.8x", "1", 1.8),
        ("29%", "1", 0.29),  # 29 * 0.01 is not
        ("5us", "s", 5e-6),  # 5 * 1e-6 is not
        ("5 µs", "s", 5e-6),
        ("5 \u03bcs", "s", 5e-6),
        ("2.5ns", "s", 2.5e-9),
        ("3s", "s", 3.0),
        ("4KiB", "B", 4096.0),
        ("1.5MB", "B", 1.5e6),
        ("50GB/s", "B/s", 5e10),
        ("2GiB/s", "B/s", 2.0**31),
        ("10TFLOP/s", "FLOP/s", 1e13),
        ("7FLOP/s", "FLOP/s", 7.0),
        ("100/s", "1/s", 100.0),
    ],
)
def test_a_quantity_has_the_unit_of_its_metric(text, unit, value):
    """To the last bit what the decimal says; a ratio needs no unit."""
    assert value == quantity(text, unit)


@pytest.mark.parametrize(
    ("text", "unit", "problem"),
    [
        ("5", "s", "has no unit: write it as 5ms"),
        ("50", "B/s", "has no unit: write it as 50GB/s"),
        ("1K", "B", "can mean two figures: write 1KiB or 1kB"),
        ("50G", "B/s", "can mean two figures: write 50GiB/s or 50GB/s"),
        ("50g/s", "B/s", "can mean two figures: write 50GiB/s or 50GB/s"),
        ("50GB", "B/s", "is not in B/s: write it as 50GB/s"),
        ("50GB/s", "s", "is not in s: write it as 5ms"),
        ("50%", "s", "is not in s: write it as 5ms"),
        ("1.8s", "1", "is no plain number: write it as 1.8 or 90%"),
        ("5m", "s", "has no unit that is known: write it as 5ms"),
        ("50Gb/s", "B/s", "has no unit that is known: write it as 50GB/s"),
        ("10TFLOPS", "FLOP/s", "has no unit that is known: write it as 10TFLOP/s"),
        ("1K", "s", "has no unit that is known: write it as 5ms"),
        ("", "1", "is not a figure: write 1.8 or 90%"),
        ("nan", "1", "is not a figure: write 1.8 or 90%"),
        ("inf", "1", "is not a figure: write 1.8 or 90%"),
        ("-1", "1", "is not a figure: write 1.8 or 90%"),
        ("1e3", "1", "is not a figure: write 1.8 or 90%"),
        ("1,8", "1", "is not a figure: write 1.8 or 90%"),
        ("9" * 40, "1", "is not a figure: write 1.8 or 90%"),
        ("\u0663", "1", "is not a figure: write 1.8 or 90%"),
    ],
)
def test_what_is_no_quantity(text, unit, problem):
    """A unit is needed, and of the right dimension; every message ends in the fix."""
    with pytest.raises(ValueError, match="write") as error:
        quantity(text, unit)

    assert f"{text!r} {problem}" == str(error.value)
