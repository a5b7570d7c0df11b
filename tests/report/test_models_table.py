"""What there is no model of, and why: said below the tables, as the ladder has none of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_reports import copies, ok, skipped

from gpumap.model import Reason
from gpumap.report.rows import footer

NO_TIME = "no time was left: raise --budget"


def ladder(report, name, **params):
    """Return four sizes of a copy's ladder that nothing was measured of."""
    (row, *_) = report.measurements
    keys = {**row.case.params, "pattern": "ladder", **params}
    sized = [{**keys, "bytes": 8**n} for n in range(2, 6)]
    return [skipped(replace(row.case, name=name, params=p), "budget", NO_TIME) for p in sized]


def said(report, *rows, **keys):
    """Return what the footer says of models, where these rows are measured beside others."""
    report = replace(report, measurements=(*report.measurements, *rows), **keys)
    return [line for line in footer(report) if line.startswith("no model")]


def test_a_model_that_there_is_goes_without_saying():
    """Even if a size of its ladder was left out."""
    report = copies()

    assert said(report, *ladder(report, "h2d")) == []


def test_without_any_model_the_reason_is_enough():
    """There is nothing to tell apart."""
    report = copies()
    rows = [*ladder(report, "h2d"), *ladder(report, "d2h")]

    assert said(report, *rows, fits=()) == [f"no model: {NO_TIME}"]


def test_what_lacks_its_model_is_named():
    """By way, place, memory and mode, as in the table of those that there are; a few of them."""
    report = copies()
    rows = [*ladder(report, "h2d"), *ladder(report, "d2h", memory="pinned")]
    modes = [row for mode in "pqrs" for row in ladder(report, "d2d", mode=mode)]

    assert said(report, *rows) == [f"no model of d2h a pinned sync: {NO_TIME}"]
    named = "d2h a pinned sync, d2d a x p, d2d a x q and 2 more"
    assert said(report, *rows, *modes) == [f"no model of {named}: {NO_TIME}"]


def test_sizes_that_are_too_few_are_a_reason():
    """Where none has one of its own."""
    report = copies()
    rows = [ok(row.case) for row in ladder(report, "d2h")]

    (line,) = said(report, *rows, *ladder(report, "h2d"))

    assert line == "no model of d2h a x sync: too few sizes were measured: raise --budget"


def test_each_reason_is_told_of_its_own():
    """Wrong data is no lack of time."""
    report = copies()
    late = ladder(report, "h2d", memory="pinned")
    wrong = [
        replace(r, status="failed", reason=Reason("x", "byte 5")) for r in ladder(report, "d2h")
    ]
    few = [ok(row.case) for row in ladder(report, "d2d")]

    assert said(report, *late, *wrong, *few, fits=()) == [
        f"no model of h2d a pinned sync: {NO_TIME}",
        "no model of d2h a x sync: byte 5",
        "no model of d2d a x sync: too few sizes were measured: raise --budget",
    ]


@pytest.mark.parametrize("status", ["interrupted", "timeout"])
def test_a_run_that_was_stopped_says_no_more_than_that(status):
    """What it lacks has that reason."""
    report = copies()

    assert said(report, *ladder(report, "d2h"), status=status) == []


def test_a_ladder_that_was_asked_for_says_itself_what_it_lacks():
    """Its rows stand in a table, each with its reason."""
    report = copies()
    rows = tuple(ladder(report, "d2h"))

    assert said(replace(report, measurements=(), fits=()), *rows) == []


def test_a_reason_of_a_driver_is_escaped():
    """It may be anything."""
    report = copies()
    rows = [replace(row, reason=Reason("x", "\x1b[2J")) for row in ladder(report, "d2h")]

    assert said(report, *rows) == ["no model of d2h a x sync: \\x1b[2J"]
