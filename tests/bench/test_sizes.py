"""Sizes as a user writes them."""

import re

import pytest
from tables import tables

from gpumap.bench.sizes import Size, squares, transfers
from gpumap.errors import QuestionError

TABLES = tables(__file__)
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
