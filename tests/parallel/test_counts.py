"""Numbers of devices, as a user writes them."""

from __future__ import annotations

import pytest

from gpumap.errors import QuestionError
from gpumap.parallel.counts import counts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2", (2,)),
        ("8, 2,4", (2, 4, 8)),
        ("1:1024:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
        ("2:9:x2,3", (2, 3, 4, 8)),
        ("1000000", (1_000_000,)),
    ],
)
def test_numbers_and_ranges(text, found):
    """Commas between them; ascending, whatever the order."""
    assert counts(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no number of devices"),
        ("0", "'0' is no number of devices"),
        ("2,x", "'x' is no number of devices"),
        ("1000001", "'1000001' is no number of devices"),
        ("9" * 5000, f"'{'9' * 40}' is no number of devices"),
        ("\u0662", "'\u0662' is no number of devices"),
        ("8:2:x2", "'8:2:x2' goes nowhere"),
        ("2:8", "'2:8' is no range of devices"),
        ("2:8:x1", "'2:8:x1' is no range of devices"),
        ("2:8:2", "'2:8:2' is no range of devices"),
        ("2,1:4:x2", "a number of devices stands twice"),
    ],
)
def test_what_is_none(text, message):
    """It says what, and how to write it."""
    with pytest.raises(QuestionError) as raised:
        counts(text)

    (said,) = raised.value.diagnostics
    assert said.message == message
    assert said.hint
