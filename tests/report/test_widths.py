"""Tables of every benchmark fit: 100 columns in a pipe, a terminal's own width on a terminal."""

from functools import cache
from itertools import permutations

import pytest
from made_reports import device, figure, made
from saved_reports import written
from tables import table

from gpumap.model import Binding, Explanation, replace
from gpumap.model.io import read
from gpumap.report import Style
from gpumap.results.shown import render
from gpumap.text import width

TABLE = table(__file__)
NAMES, HEADS = TABLE["names"], TABLE["heads"]
# Copies between 64 names are 4,032 rows of each size: test_tables.py.
SHOWN = [(key, count) for key in HEADS for count in (2, 8, 16 if key == "copies" else 64)]


def places(case, bound):
    """Return the devices of each row that a row becomes: of each, each pair, or all of them."""
    if case.ordered:
        return [*permutations(bound, 2)]
    return [(each,) for each in bound] if len(case.bindings) == 1 else [bound]


def spread(found, bound):
    """Return rows or models of a run on two devices as those of more, and each only once."""
    there = [
        [replace(each.case, bindings=place) for place in places(each.case, bound)] for each in found
    ]
    ids = {each.case.id: cases[0].id for each, cases in zip(found, there, strict=True)}
    return {
        case.id: replace(each, case=replace(case, against=ids.get(case.against)))
        for each, cases in zip(found, there, strict=True)
        for case in cases
    }


def explained(row):
    """Return a row with as much to say as one can have: of two names, and a flag."""
    text = f"{' '.join(row.case.names[:2])} took longer than they should"
    return replace(row, explanation=Explanation("unexplained", text), flags=("unstable",))


@cache
def report(name, count, form):
    saved = read(written(name).path)
    bound = tuple(Binding(NAMES[form].format(n), device(n)) for n in range(count))
    few = [row for row in saved.measurements if not (row.case.swept and row.case.ordered)]
    rows = tuple(explained(row) for row in spread(few, bound).values())
    fits = tuple(replace(fit, id=id_) for id_, fit in spread(saved.fits, bound).items())
    return replace(made(), bindings=bound, measurements=rows, fits=fits)


def lines(format_, found, columns=100):
    text = render(format_, found, Style(width=columns))
    return [line for line in text.splitlines() if not line.startswith("Mapped name")]


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize(("key", "count"), SHOWN)
def test_no_line_is_wider_than_its_room(key, count, form):
    """In a pipe 100 columns; on a terminal its own width. What people quote is never left out."""
    found = report(key, count, form)
    assert [line for line in lines("plain", found) if width(line) > 100] == []
    for columns in (80, 100, 120):
        shown = lines("rich", found, columns)
        assert [line for line in shown if width(line) > columns] == []
        assert [head for head in HEADS[key] if head not in "\n".join(shown)] == []


def test_devices_alone_are_one_line():
    found = report("dot", 8, "short")
    rows = list(found.measurements)
    keys = [(each.case.name, each.case.names) for each in rows]
    slow = keys.index(("solo", ("gpu5",)))
    rows[slow] = replace(rows[slow], metrics={"rate": figure(1.5e9, "FLOP/s")})
    found = replace(found, measurements=tuple(rows))
    text = "\n".join(lines("plain", found))
    assert "alone: 1.50 to 2.15 GFLOP/s; slowest gpu5 (0.70 of the fastest)" in text
    assert [line for line in text.splitlines() if line.startswith("  solo  ")] == []
    assert render("plain", found, Style(verbose=True)).count("solo") >= 8
    rows[slow] = replace(rows[slow], flags=("cpu",))  # CPU times are not compared with others
    assert "alone: " not in "\n".join(lines("plain", replace(found, measurements=tuple(rows))))
