"""What there is no model of, and why: said below the tables, as the ladder has none of its own."""

from made_reports import copies, ok, skipped

from gpumap.model import Reason, replace
from gpumap.report.rows import footer

NO_TIME = "no time was left: raise --budget"


def ladder(report, name, **params):
    (row, *_) = report.measurements
    keys = {**row.case.params, "pattern": "ladder", **params}
    sized = [{**keys, "bytes": 8**n} for n in range(2, 6)]
    return [skipped(replace(row.case, name=name, params=p), "budget", NO_TIME) for p in sized]


def said(report, *rows, **keys):
    report = replace(report, measurements=(*report.measurements, *rows), **keys)
    return [line for line in footer(report) if line.startswith("no model")]


def test_what_lacks_its_model_is_named():
    report = copies()
    rows = [*ladder(report, "h2d"), *ladder(report, "d2h", memory="pinned")]
    modes = [row for mode in "pqrs" for row in ladder(report, "d2d", mode=mode)]
    assert said(report, *rows) == [f"no model of d2h a pinned sync: {NO_TIME}"]
    named = "d2h a pinned sync, d2d a x p, d2d a x q and 2 more"
    assert said(report, *rows, *modes) == [f"no model of {named}: {NO_TIME}"]


def test_each_reason_is_told_of_its_own():
    report = copies()
    late = ladder(report, "h2d", memory="pinned")
    wrong = [
        replace(r, status="failed", reason=Reason("x", "\x1b[2J")) for r in ladder(report, "d2h")
    ]
    few = [ok(row.case) for row in ladder(report, "d2d")]
    assert said(report, *late, *wrong, *few, fits=()) == [
        f"no model of h2d a pinned sync: {NO_TIME}",
        "no model of d2h a x sync: \\x1b[2J",
        "no model of d2d a x sync: too few sizes were measured: raise --budget",
    ]


def test_what_goes_without_saying():
    """A model that there is, a run that was stopped, a ladder that was asked for: not a word."""
    report = copies()
    late = ladder(report, "d2h")
    assert said(report, *ladder(report, "h2d")) == []
    assert said(report, *late, fits=()) == [f"no model: {NO_TIME}"]  # nothing to tell apart
    for status in ("interrupted", "timeout"):
        assert said(report, *late, status=status) == []
    assert said(replace(report, measurements=(), fits=()), *late) == []
