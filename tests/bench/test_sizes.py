"""Sizes as a user writes them."""

import re

import pytest
from tables import table

from gpumap.bench.sizes import Size, counts, squares, transfers
from gpumap.errors import QuestionError

TABLES = table(__file__)
READ = {"squares": squares, "transfers": transfers}


@pytest.mark.parametrize(("read", "text", "sizes"), TABLES["right"])
def test_sizes_as_they_are_written(read, text, sizes):
    """Single ones, several in their order, a range by a factor; two words of Theano's users."""
    expected = sizes if read == "squares" else [Size(*size) for size in sizes]
    assert list(READ[read](text)) == expected


@pytest.mark.parametrize(("read", "text", "said"), TABLES["wrong"])
def test_what_is_no_size(read, text, said):
    with pytest.raises(QuestionError, match=re.escape(said)) as error:
        READ[read](text)
    assert all(each.hint for each in error.value.diagnostics)


@pytest.mark.parametrize(("text", "found"), TABLES["numbers_of_devices_and_ranges"])
def test_numbers_of_devices_and_ranges(text, found):
    assert counts(text) == tuple(found)


@pytest.mark.parametrize("text", [
    "", "0", "2,x", "1000001", "\u0662", "8:2:x2", "2:8", "2:8:x1", "2:8:2", "2,1:4:x2", "9" * 5000,
])  # fmt: skip
def test_what_is_no_number_of_devices(text):
    with pytest.raises(QuestionError) as raised:
        counts(text)
    (said,) = raised.value.diagnostics
    assert said.hint
    shown = text.removeprefix("2,")[:40]  # a message is no place for thousands of digits
    assert said.message.startswith(f"'{shown}' ") or said.message.endswith(" has a number twice")
