"""Numbers of devices, as a user writes them."""

import pytest
from refusals import refusal

from gpumap.errors import QuestionError
from gpumap.parallel.counts import counts


@pytest.mark.parametrize(("text", "found"), [
    ("2", (2,)), ("8, 2,4", (2, 4, 8)),
    ("1:1024:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    ("2:9:x2,3", (2, 3, 4, 8)), ("1000000", (1_000_000,)),
])  # fmt: skip
def test_numbers_and_ranges(text, found):
    assert counts(text) == found


@pytest.mark.parametrize("text", [
    "", "0", "2,x", "1000001", "\u0662", "8:2:x2", "2:8", "2:8:x1", "2:8:2", "2,1:4:x2", "9" * 5000,
])  # fmt: skip
def test_what_is_none(text):
    said = refusal(QuestionError, counts, text)
    shown = text.removeprefix("2,")[:40]  # a message is no place for thousands of digits
    assert said.message.startswith((f"'{shown}' ", "a number of devices stands"))
