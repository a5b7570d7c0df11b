"""Where an operation runs: one rule, which the order of operands does not change but for ties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.contexts.array import HOST, place

# A target, its device, and bytes: two names stand for one of the devices.
DEVICES = {"dev0": "cuda:0", "dev1": "cuda:1", "also1": "cuda:1", HOST: None}
OPERANDS = st.lists(
    st.builds(lambda name, nbytes: (name, DEVICES[name], nbytes),
              st.sampled_from(sorted(DEVICES)), st.integers(0, 1 << 40)), min_size=1, max_size=6,
)  # fmt: skip


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


@given(OPERANDS, st.randoms(use_true_random=False))
def test_it_runs_where_an_operand_holds_most(operands, rng):
    target, held = place(operands), {}
    for name, device, nbytes in operands:
        if name != HOST:
            held[device] = held.get(device, 0) + nbytes
    shuffled = rng.sample(operands, len(operands))
    assert target in {name for name, *_ in operands}
    assert (target == HOST) == (not held)
    assert not held or held[DEVICES[target]] == max(held.values())
    if len(held) == len(set(held.values())):
        assert DEVICES[target] == DEVICES[place(shuffled)]
