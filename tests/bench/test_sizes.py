"""Sizes as a user writes them."""

import re

import pytest

from gpumap.bench.sizes import Size, counts, squares, transfers
from gpumap.errors import QuestionError

NO_SQUARES = [
    "0", "-1", "abc", "1e9", "1.5", "٣", "9999999999", "64:32:x2", "32:64:x1", "32:64:2", "32:64",
]  # fmt: skip
NO_TRANSFERS = [
    "-1", "tiny", "1K", "0", "1.5B", "4kib", "large:small", "64B:1KiB", "64B:1KiB:xx",
    "64B:1KiB:x²", "1KiB:64B:x2", "64B:1KiB:x1", "1:2:x9999999999", "1:2:x٣", "1:2:3:x2",
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "text", "sizes"),
    [
        (squares, "1024", (1024,)), (squares, "256,1024", (256, 1024)),
        (squares, " 256 , 8 ", (256, 8)), (squares, "256:4096:x2", (256, 512, 1024, 2048, 4096)),
        (squares, "1:100:x3,7", (1, 3, 9, 27, 81, 7)), (squares, "64:64:x2", (64,)),
        (squares, "007", (7,)),
        (transfers, "small", (Size(400, "small"),)),
        (transfers, "small,large", (Size(400, "small"), Size(400_000, "large"))),
        (transfers, "large, 1", (Size(400_000, "large"), Size(1))),
        (transfers, "4KiB", (Size(4096),)), (transfers, "1MB", (Size(1_000_000),)),
        (transfers, "64B:1KiB:x2", tuple(map(Size, (64, 128, 256, 512, 1024)))),
    ],
)  # fmt: skip
def test_sizes_as_they_are_written(read, text, sizes):
    """Single ones, several in their order, a range by a factor; two words of Theano's users."""
    assert sizes == read(text)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        *((squares, text, f"'{text}'") for text in NO_SQUARES),
        (squares, "64,,128", "''"), (squares, "", "''"), (squares, "32:64:x0", "'32:64:x0'"),
        (squares, "64,64", "'64,64'"), (squares, "32:64:x2,64", "'32:64:x2,64'"),  # one size twice
        *((transfers, text, f"'{text}'") for text in NO_TRANSFERS),
        (transfers, "64B:1K:x2", "'1K'"), (transfers, "400,small", "'400,small'"),
        (transfers, "small,,large", "''"), (transfers, "", "''"),
    ],
)  # fmt: skip
def test_what_is_no_size(read, text, said):
    """The message names the part that is wrong, the hint is the fix."""
    with pytest.raises(QuestionError, match=re.escape(said)) as error:
        read(text)
    assert all(each.hint for each in error.value.diagnostics)


@pytest.mark.parametrize(("text", "found"), [
    ("2", (2,)), ("8, 2,4", (2, 4, 8)),
    ("1:1024:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    ("2:9:x2,3", (2, 3, 4, 8)), ("1000000", (1_000_000,)),
])  # fmt: skip
def test_numbers_of_devices_and_ranges(text, found):
    assert counts(text) == found


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
