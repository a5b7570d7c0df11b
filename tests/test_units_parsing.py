"""Quantities that people write, and figures that are written for them."""

import pytest

from gpumap.units import duration, nbytes, share, together


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
