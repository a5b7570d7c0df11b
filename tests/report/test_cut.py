"""Text for a picture: never wider than its room, and short without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import bindings, case

from gpumap.text import briefly, label, middle, short, shortened, width

ZALGO = "e" + "\u0301" * 300


@pytest.mark.parametrize(("text", "at_end", "in_middle"), [
    ("gpu0", "gpu0", "gpu0"), ("x" * 13, "x" * 11 + "…", "xxxxx…xxxxx"),
    ("worker-node-11", "worker-node…", "worke…de-11"), ("漢" * 7, "漢" * 5 + "…", "漢漢…漢漢"),
    ("\x1b[2J", r"\x1b[2J", r"\x1b[2J"), (ZALGO, ZALGO[:4], ZALGO[:4]),
    # one of a million signs takes no longer than one of a thousand
    pytest.param("é" * 10**6, "é" * 11 + "…", "ééééé…ééééé", id="very long"),
])  # fmt: skip
def test_a_label_is_cut_at_its_end_and_a_name_in_its_middle(text, at_end, in_middle):
    """By columns, not characters; marks on one sign are no tower."""
    assert (label(text, 12), middle(text, 12)) == (at_end, in_middle)


@given(st.text(), st.integers(3, 40))
def test_nothing_is_wider_than_its_room(text, most):
    for found in (label(text, most), middle(text, most)):
        assert found.isprintable()
        assert width(found) <= most


@pytest.mark.parametrize(("names", "first_and_last", "shortest"), [
    (["a"], "a", "a"), (["gpu0", "gpu1", "gpu2"], "gpu0+gpu1+gpu2", "gpu0+gpu1+gpu2"),
    (["gpu0", "gpu1", "gpu2", "gpu3"], "gpu0+gpu1+gpu2+gpu3", "4 devices"),
    ([f"gpu{n}" for n in range(8)], "gpu0+…+gpu7 (8)", "8 devices"),
    (["node-with-gpu-0", "node-with-gpu-1"], "node…pu-0+node…pu-1", "2 devices"),
    (["a" * 30], "a" * 11 + "…" + "a" * 11, "a" * 7 + "…" + "a" * 7),
])  # fmt: skip
def test_of_many_names_the_first_and_the_last_are_shown(names, first_and_last, shortest):
    """Those that do not fit become a count, those of more than three too."""
    of = case("many", bindings(names))
    assert (briefly(of), short(of)) == (first_and_last, shortest)


@pytest.mark.parametrize(("names", "shown"), [
    (["gpu0", "gpu1"], {}),
    (["a" * 20 + "0", "a" * 20 + "1"], ["aaaaaaa…aaaaaa0", "aaaaaaa…aaaaaa1"]),
    (["node-000-in-the-hall", "node-001-in-the-hall"], ["…node-000-in-th…", "…node-001-in-th…"]),
])  # fmt: skip
def test_long_names_are_cut_so_that_they_stay_apart(names, shown):
    assert list(shortened(names).values()) == list(shown)


@given(st.lists(st.text(), unique=True))
def test_no_shortened_name_is_wider_than_a_cell(names):
    assert all(width(name) <= 16 for name in shortened(names).values())
