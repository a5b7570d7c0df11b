"""Text for a picture: never wider than its room, and short without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import bindings, case

from gpumap.cut import briefly, label, middle, short, shortened
from gpumap.escape import width

ZALGO = "e" + "\u0301" * 300


@pytest.mark.parametrize(("text", "shown"), [
    ("gpu0", "gpu0"), ("x" * 13, "x" * 11 + "…"), ("漢" * 7, "漢" * 5 + "…"),
    ("\x1b[2J", r"\x1b[2J"), (ZALGO, ZALGO[:4]),
])  # fmt: skip
def test_a_label_is_cut_at_its_end(text, shown):
    """By columns, not characters; marks on one sign are no tower."""
    assert label(text, 12) == shown


@pytest.mark.parametrize(("text", "shown"), [
    ("worker-node-11", "worke…de-11"), ("漢字の名前はとても長い", "漢字…長い"), (ZALGO, ZALGO[:4]),
])  # fmt: skip
def test_a_name_is_cut_in_its_middle(text, shown):
    assert middle(text, 12) == shown


@given(st.text(), st.integers(3, 40))
def test_nothing_is_wider_than_its_room(text, most):
    for found in (label(text, most), middle(text, most)):
        assert found.isprintable()
        assert width(found) <= most


def test_what_is_very_long_is_not_looked_at():
    assert middle("é" * 10**6, 12) == "ééééé…ééééé"
    assert label("é" * 10**6, 12) == "ééééééééééé…"


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["a"], "a"), (["gpu0", "gpu1", "gpu2", "gpu3"], "gpu0+gpu1+gpu2+gpu3"),
     ([f"gpu{n}" for n in range(8)], "gpu0+…+gpu7 (8)"),
     (["node-with-gpu-0", "node-with-gpu-1"], "node…pu-0+node…pu-1"),
     (["a" * 30], "a" * 11 + "…" + "a" * 11)],
)  # fmt: skip
def test_of_many_names_the_first_and_the_last_are_shown(names, shown):
    assert briefly(case("many", bindings(names))) == shown


@pytest.mark.parametrize(("names", "shown"), [
    (["a"], "a"), (["gpu0", "gpu1", "gpu2"], "gpu0+gpu1+gpu2"),
    ([f"gpu{n}" for n in range(8)], "8 devices"),
    (["node-with-gpu-0", "node-with-gpu-1"], "2 devices"),
    (["a" * 30], "a" * 7 + "…" + "a" * 7),
])  # fmt: skip
def test_names_that_do_not_fit_become_a_count(names, shown):
    assert short(case("many", bindings(names))) == shown


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
