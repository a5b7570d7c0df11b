"""Sizes as a user writes them."""

import re

import pytest

from gpumap.bench.sizes import Size, squares, transfers
from gpumap.errors import QuestionError

NO_SQUARES = [
    "0", "-1", "abc", "1e9", "1.5", "٣", "9999999999", "64:32:x2", "32:64:x1", "32:64:2", "32:64",
]  # fmt: skip
NO_TRANSFERS = [
    "-1", "tiny", "1K", "0", "1.5B", "4kib", "large:small", "64B:1KiB", "64B:1KiB:xx",
    "64B:1KiB:x²", "1KiB:64B:x2", "64B:1KiB:x1", "1:2:x9999999999", "1:2:x٣", "1:2:3:x2",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1024", (1024,)),
        ("256,1024", (256, 1024)),
        (" 256 , 8 ", (256, 8)),
        ("256:4096:x2", (256, 512, 1024, 2048, 4096)),
        ("1:100:x3,7", (1, 3, 9, 27, 81, 7)),
        ("64:64:x2", (64,)),
        ("007", (7,)),
    ],
)
def test_square_sizes(text, sizes):
    """Single ones, several in the order they are written, a range by a factor."""
    assert sizes == squares(text)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("small", (Size(400, "small"),)),
        ("small,large", (Size(400, "small"), Size(400_000, "large"))),
        ("large, 1", (Size(400_000, "large"), Size(1))),
        ("4KiB", (Size(4096),)),
        ("1MB", (Size(1_000_000),)),
        ("64B:1KiB:x2", (Size(64), Size(128), Size(256), Size(512), Size(1024))),
    ],
)
def test_transfer_sizes(text, sizes):
    """Two words of Theano's users, bytes with a unit, a range by a factor."""
    assert sizes == transfers(text)


@pytest.mark.parametrize(
    ("read", "text", "part"),
    [
        *((squares, text, text) for text in NO_SQUARES),
        (squares, "64,,128", ""), (squares, "", ""), (squares, "32:64:x0", "0"),
        (squares, "64,64", "64,64"), (squares, "32:64:x2,64", "32:64:x2,64"),  # a size stands twice
        *((transfers, text, text) for text in NO_TRANSFERS),
        (transfers, "64B:1K:x2", "1K"), (transfers, "400,small", "400,small"),
    ],
)  # fmt: skip
def test_what_is_no_size(read, text, part):
    """The message names the part that is wrong, the hint is the fix."""
    with pytest.raises(QuestionError, match=re.escape(f"'{part}'")) as error:
        read(text)
    assert all(said.hint for said in error.value.diagnostics)


@pytest.mark.parametrize("text", ["small,,large", ""])
def test_an_empty_size_is_none(text):
    """With the fix."""
    with pytest.raises(QuestionError, match="an empty size"):
        transfers(text)
