"""Where an operation runs: one rule, which the order of operands does not change but for ties."""

import pytest

from gpumap.contexts.array import HOST, place


@pytest.mark.parametrize(("operands", "target"), [
    ([("dev0", "a", 8)], "dev0"), ([("dev0", "a", 8), ("dev1", "b", 9)], "dev1"),
    ([("dev1", "b", 8), ("dev0", "a", 8)], "dev1"),  # a tie: the first
    ([("dev0", "a", 8), (HOST, None, 1 << 30)], "dev0"),
    ([(HOST, None, 8), (HOST, None, 8)], HOST), ([(HOST, None, 8), ("dev0", "a", 0)], "dev0"),
    ([("dev0", "a", 8), ("dev1", "b", 5), ("also1", "b", 4)], "dev1"),
])  # fmt: skip
def test_the_most_bytes_decide(operands, target):
    """Of a device, whatever its names; host data count nothing."""
    assert target == place(operands)
