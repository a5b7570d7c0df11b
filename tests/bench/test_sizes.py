"""Sizes as a user writes them."""

import pytest

from gpumap.bench.sizes import Size, squares, transfers
from gpumap.errors import QuestionError

WHOLE = "is not a size: a whole number from 1 on"
NOWHERE = "first <= last, and a factor of 2 or more"


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
    ("text", "message", "hint"),
    [
        ("0", f"'0' {WHOLE}", "write --size 1024"),
        ("-1", f"'-1' {WHOLE}", "write --size 1024"),
        ("abc", f"'abc' {WHOLE}", "write --size 1024"),
        ("1e9", f"'1e9' {WHOLE}", "write --size 1024"),
        ("1.5", f"'1.5' {WHOLE}", "write --size 1024"),
        ("", f"'' {WHOLE}", "write --size 1024"),
        ("64,,128", f"'' {WHOLE}", "write --size 1024"),
        ("٣", f"'٣' {WHOLE}", "write --size 1024"),
        ("9999999999", "'9999999999' is too large: a size is 999999999 at most",
         "write --size 1024"),
        ("64:32:x2", "'64:32:x2' goes nowhere", NOWHERE),
        ("32:64:x1", "'32:64:x1' goes nowhere", NOWHERE),
        ("32:64:x0", f"'0' {WHOLE}", "write --size 1024"),
        ("32:64:2", "'32:64:2' is not a range of sizes",
         "write first:last:xfactor, such as 256:4096:x2"),
        ("32:64", "'32:64' is not a range of sizes",
         "write first:last:xfactor, such as 256:4096:x2"),
        ("64,64", "a size stands twice in '64,64'", "name each size once"),
        ("32:64:x2,64", "a size stands twice in '32:64:x2,64'", "name each size once"),
    ],
)  # fmt: skip
def test_what_is_no_square_size(text, message, hint):
    """The message names the part that is wrong, the hint is the fix."""
    with pytest.raises(QuestionError) as error:
        squares(text)

    (said,) = error.value.diagnostics
    assert (message, hint) == (said.message, said.hint)


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
    ("text", "message", "hint"),
    [
        ("small,,large", "an empty size", "drop one comma, or write small,large"),
        ("", "an empty size", "drop one comma, or write small,large"),
        ("-1", "'-1' is not a size", "write 400, 4KiB or 1MB"),
        ("tiny", "'tiny' is not a size", "write 400, 4KiB or 1MB"),
        ("1K", "'1K' can mean two sizes", "write 1KiB or 1kB"),
        ("0", "'0' is not a whole number of bytes from 1 on", "write 400 or 4KiB"),
        ("1.5B", "'1.5B' is not a whole number of bytes from 1 on", "write 400 or 4KiB"),
        ("4kib", "'4kib' has no unit that is known", "write 4KiB, 1MB or 400 (bytes)"),
        ("large:small", "'large:small' is not a range of sizes", "write 64B:1GiB:x2"),
        ("64B:1KiB", "'64B:1KiB' is not a range of sizes", "write 64B:1GiB:x2"),
        ("64B:1KiB:xx", "'64B:1KiB:xx' is not a range of sizes", "write 64B:1GiB:x2"),
        ("64B:1KiB:x²", "'64B:1KiB:x²' is not a range of sizes", "write 64B:1GiB:x2"),
        ("1KiB:64B:x2", "'1KiB:64B:x2' goes nowhere", NOWHERE),
        ("64B:1KiB:x1", "'64B:1KiB:x1' goes nowhere", NOWHERE),
        ("64B:1K:x2", "'1K' can mean two sizes", "write 1KiB or 1kB"),
        ("400,small", "400 bytes stand twice in '400,small'", "name each size once"),
        ("1:2:x" + "9" * 10, "'1:2:x9999999999' is not a range of sizes", "write 64B:1GiB:x2"),
        ("1:2:x٣", "'1:2:x٣' is not a range of sizes", "write 64B:1GiB:x2"),
        ("1:2:3:x2", "'1:2:3:x2' is not a range of sizes", "write 64B:1GiB:x2"),
    ],
)
def test_what_is_no_transfer_size(text, message, hint):
    """The message names the part that is wrong, the hint is the fix."""
    with pytest.raises(QuestionError) as error:
        transfers(text)

    (said,) = error.value.diagnostics
    assert (message, hint) == (said.message, said.hint)
