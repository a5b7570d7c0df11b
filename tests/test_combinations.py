"""Thinned parameters keep every value, and of three or more every pair of values."""

from itertools import combinations, product
from types import SimpleNamespace

import pytest
from combinations import MANY, chosen


def items(*lists, skipped=()):
    """Return the items of a test of these parameters; some values of the first one are skipped."""
    found = []
    for row in product(*lists):
        item = SimpleNamespace(nodeid=f"test_x[{row}]", row=row)
        item.callspec = SimpleNamespace(params=dict(enumerate(row)))
        item.get_closest_marker = lambda _, skip=row[0] in skipped: skip or None
        found.append(item)
    return found


def held(found, size):
    return {some for item in found for some in combinations(enumerate(item.row), size)}


@pytest.mark.parametrize(("lists", "size"), [
    ((range(9), "abcdefghij"), 1), (("abc", range(5), "vwxyz", (True, False)), 2),
])  # fmt: skip
def test_all_values_meet_in_fewer_items(lists, size):
    """Each value of two parameters; each pair of values of three or more."""
    every = items(*lists)
    found = chosen(every)
    assert len(every) > MANY
    assert len(found) < len(every) / 3
    assert held(found, size) == held(every, size)


def test_what_is_skipped_covers_nothing():
    """All pairs are of items that run; one item is left to give the reason."""
    found = chosen(items("abcd", range(5), "vwxyz", skipped="ad"))
    run = [item for item in found if item.row[0] in "bc"]
    assert held(run, 2) == held(items("bc", range(5), "vwxyz"), 2)
    assert len(found) == len(run) + 1


def test_few_items_are_all_run():
    for every in (items(range(MANY)), items(range(10 * MANY)), items(range(6), range(10))):
        assert chosen(every) == every
