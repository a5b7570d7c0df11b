"""Many outcomes end in one exit code: of several, what a script must hear about first."""

import math
from itertools import combinations

import pytest
from cases import thin
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from reports import fake_case, fitted, report
from reports import row as timed
from tables import table

from gpumap import model
from gpumap.bench.selectors import limit as limit_of
from gpumap.errors import Diagnostic, Exit, QuestionError
from gpumap.judge.compare import Baseline, Terms
from gpumap.judge.exit_status import (
    STATUS,
    Gate,
    by_headline,
    decided,
    exit_code,
    gated,
    judged,
    status,
)
from gpumap.judge.limits import early, verdict_on, verdicts
from gpumap.model import replace
from gpumap.model.measurements import fit_id

ORDER = (70, 2, 4, 130, 124, 3, 1, 5, 0)
TABLE = table(__file__)
FLOATS = st.floats(allow_nan=False, min_value=-1e300, max_value=1e300)
LIMIT = "dot.many.speedup>=1.8"


def test_of_two_outcomes_the_one_that_comes_first_is_the_exit_code():
    """In whatever order, and however often, they came; that of a closed pipe no report tells."""
    for first, second in combinations(ORDER, 2):
        assert exit_code([second, first, second]) == exit_code([first, second]) == first
    assert exit_code([]) == Exit.OK
    assert set(ORDER) == set(Exit) - {Exit.CLOSED_PIPE} == set(STATUS)
    assert [status(Exit(code), ()) for code in ORDER] == [
        "internal", "error", "wrong-data", "interrupted", "timeout", "absent", "no",
        "inconclusive", "ok",
    ]  # fmt: skip


def test_a_row_without_an_answer_leaves_a_run_inconclusive():
    """Whatever others say, and only where nothing worse has happened."""
    open_ = gone(case("affine", "transfer", "a", resident="false", pattern="alone"))
    assert [status(code, (open_,)) for code in (Exit.OK, Exit.NO)] == ["inconclusive", "no"]


def case(name="many", bench="dot", *names, **params):
    return fake_case(bench, name, *names, **params)


def figure(value, low=None, high=None, unit="1"):
    low, high = (value if end is None else end for end in (low, high))
    return model.Estimate(value, low, high, unit)


def row(*interval, of=None, flags=(), metric="speedup", unit="1"):
    metrics = {metric: figure(*interval, unit=unit)} if interval else {}
    return model.Measurement(of or case(), "ok", flags=flags, metrics=metrics)


def words(text, *rows, **others):
    found = verdicts([limit_of(text)], report(*rows, **others))
    return [(verdict.id, verdict.verdict) for verdict in found]


@pytest.mark.parametrize(("limits", "base", "kept"), TABLE["measured"])
def test_a_gate_measures_what_it_judges(limits, base, kept):
    """And what that is compared with; the order of what matters names the same cases."""
    one, solo = case("one"), case("solo")
    many = replace(case("many"), against=one.id)
    group = model.Group((one, many, solo), "64", ((0,), (1,), (2,)), first=2)
    before = report(*(row(1.0, of=case(name)) for name in base))
    against = Baseline("base.json", before, Terms()) if base else None
    found = judged(model.Plan((group,)), Gate(tuple(map(limit_of, limits)), against=against))
    (left,) = found.groups
    assert " ".join(each.name for each in left.cases) == kept
    assert [left.cases[p].name for (p,) in left.order] == kept.split()
    assert left.first == sum(name in kept.split() for name in ("one", "many"))


@pytest.mark.parametrize(("limits", "judge", "settings", "expected"), TABLE["by_headline"])
def test_what_headlines_claim_is_measured_alone_at_first_where_a_gate_judges_that(
    limits, judge, settings, expected
):
    """Limits, patterns and cases that were chosen are about any row: then all are measured."""
    base = report(row(1.0), settings=settings or {})
    terms = None if judge is None else Terms(judge=tuple(judge))
    against = Baseline("base.json", base, terms) if terms else None
    assert by_headline(Gate(tuple(map(limit_of, limits)), against=against)) is expected


def ended(found):
    errors = [(problem.diagnostic.code, problem.exit) for problem in found.errors]
    return found.exit_code, found.status, errors


def outcome(*rows, limit=LIMIT, inconclusive="fail", if_absent="fail", **others):
    gate = Gate((limit_of(limit),), inconclusive, if_absent)
    return gated(report(*rows, **others), gate)


def gone(of):
    return model.Measurement(of, "skipped", model.Reason("budget", "no time was left"))


@pytest.mark.parametrize("others", [(), (row(0.99, of=case(size=512), metric="efficiency"),)])
def test_a_row_without_time_is_not_called_impossible(others):
    """Nor a figure that is made of it, whatever another size says: never a pass."""
    lost = outcome(gone(case()))
    assert ended(lost) == (Exit.INCONCLUSIVE, "inconclusive", [("inconclusive", 5)])
    assert "no time was left" in lost.errors[0].diagnostic.message
    # an efficiency needs each device's own time
    bare, alone = row(1.9, of=case(size=4096)), gone(case("solo", "dot", "a", size=4096))
    found = outcome(*others, bare, alone, limit="dot.many.efficiency > 90%")
    assert ended(found)[0] == Exit.INCONCLUSIVE
    assert [verdict.verdict for verdict in found.verdicts][-1] == "inconclusive"


TIME = {"time": figure(1.0, unit="s")}
UNDECIDED = pytest.mark.parametrize("open_", [
    replace(row(), metrics=thin(TIME | {"speedup": figure(1.9)})),
    replace(row(flags=("impossible",)), metrics=TIME | {"speedup": model.Estimate.refused("1")}),
])  # fmt: skip


@UNDECIDED
def test_an_undecided_row_leaves_a_run_inconclusive(open_):
    """With exit code 0, as no verdict was asked for, or of another row; a warning says so."""
    found = gated(report(open_, row(2.0, of=case("one"))), Gate())
    passed = outcome(open_, row(2.0, of=case("one")), limit="dot.one.speedup>=1.8")
    assert ended(found) == ended(passed) == (Exit.OK, "inconclusive", [])
    assert [(note.code, note.severity) for note in found.notes] == [("inconclusive", "warning")]
    assert [verdict.verdict for verdict in passed.verdicts] == ["pass"]


@UNDECIDED
@pytest.mark.parametrize("text", ["dot.many.speedup>=1.8", "dot.many.speedup<=1.8"])
def test_a_limit_on_an_undecided_figure_is_inconclusive(open_, text):
    """So is the exit code, unless that is let pass: the run is inconclusive all the same."""
    found = outcome(open_, limit=text)
    (verdict,) = found.verdicts
    passed = outcome(open_, limit=text, inconclusive="pass")
    assert (verdict.verdict, verdict.low, verdict.high) == ("inconclusive", None, None)
    assert verdict.value == (None if open_.flags else 1.9)
    assert ended(found) == (Exit.INCONCLUSIVE, "inconclusive", [("inconclusive", 5)])
    assert ended(passed) == (Exit.OK, "inconclusive", [("inconclusive", 0)])


@pytest.mark.parametrize(("text", "start", "stop", "hint"), TABLE["refused"])
def test_what_asks_for_nothing_is_said_with_its_place(text, start, stop, hint):
    found = refusal(QuestionError, limit_of, text)
    assert (found.span.start, found.span.stop) == (start, stop)
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    ("operator", "below", "touching_below", "around", "touching_above", "above"),
    TABLE["the_whole_interval_decides"],
)
def test_the_whole_interval_decides(operator, below, touching_below, around, touching_above, above):
    """A limit inside of it is inconclusive; an end on the limit is on the side of `=`."""
    intervals = [(1.0, 1.7), (1.0, 1.8), (1.7, 1.9), (1.8, 2.0), (1.9, 2.0)]
    found = [verdict_on(operator, 1.8, figure(sum(i) / 2, *i)) for i in intervals]
    assert found == [below, touching_below, around, touching_above, above]


@given(st.sampled_from([">=", "<=", ">", "<"]), FLOATS, st.permutations([math.nan, 1.0, 2.0]))
def test_what_is_no_number_never_passes(operator, limit, values):
    """Nor does infinity: what never pays is beyond any limit, a rate in no time no record."""
    found = [verdict_on(each, 1e6, figure(math.inf)) for each in ("<=", ">=")]
    assert found == ["fail", "inconclusive"]
    value, low, high = values
    assert verdict_on(operator, limit, model.Estimate(value, low, high, "1")) == "fail"
    assert verdict_on(operator, limit, model.Estimate(1.0, 2.0, 0.0, "1")) == "fail"


def test_every_row_that_is_selected_has_its_verdict():
    """One that passes does not speak for another; its figure and interval are the row's."""
    sizes = {size: case(size=size) for size in (64, 128, 256)}
    rows = [row(value, of=sizes[size]) for size, value in ((64, 2.0), (128, 1.5), (256, 1.9))]
    (open_,) = verdicts([limit_of(f" {LIMIT} ")], report(row(1.84, 1.7, 1.92)))
    assert [word for _, word in words(LIMIT, *rows)] == ["pass", "fail", "pass"]
    assert words("dot.many[size=128].speedup>=1.8", *rows) == [(sizes[128].id, "fail")]
    assert (open_.value, open_.low, open_.high, open_.limit) == (1.84, 1.7, 1.92, 1.8)
    assert (open_.rule, open_.text, open_.metric) == ("limit", LIMIT, "speedup")


@pytest.mark.parametrize("limit", [LIMIT, "dot.many[size=1].speedup<9", "dot.one.time<1s"])
@pytest.mark.parametrize("rows", [(), (row(),), (row(of=case("solo")),)])
def test_a_limit_that_judges_no_figure_is_missing(limit, rows):
    """No row, or rows of which none has the figure; where another row has it that is judged."""
    alone = row(1.0, of=case("h2d", "transfer", bytes=1, pattern="alone"), metric="time", unit="s")
    together = row(1.0, of=case("h2d", "transfer", bytes=1, pattern="together"))
    assert words(limit, *rows) == [(None, "missing")]
    assert words("transfer.h2d.speedup>=2", alone, together) == [(together.case.id, "fail")]


@pytest.mark.parametrize(("status", "said"), [("skipped", "missing"), ("failed", "fail")])
def test_a_row_that_was_not_measured_is_no_pass(status, said):
    reason = model.Reason("stopped", "not measured")
    lost = model.Measurement(case(size=1), status, reason)
    good = row(2.0)
    assert words(LIMIT, good, lost) == [(good.case.id, "pass"), (lost.case.id, said)]


def ladder(*, names=("a",), status="ok"):
    params = {"bytes": 64, "memory": "pinned", "mode": "sync", "pattern": "ladder"}
    return model.Measurement(case("h2d", "transfer", *names, **params), status)


def test_a_limit_on_a_metric_of_the_model_judges_models():
    """A sweep without a model is missing, as it would be as a row; so is one that does not fit."""
    a, b = ladder(), ladder(names=("b",), status="skipped")
    fits = (fitted(a.case, latency=figure(1e-6, unit="s")),)
    one, other = (fits[0].id, "pass"), (fit_id(b.case), "missing")
    assert words("transfer.h2d.latency<=2us", a, b, fits=fits) == [one, other]
    assert words("transfer.h2d[name=a].latency<=2us", a, b, fits=fits) == [one]
    assert words("transfer.h2d.latency<=2us", b, fits=(fitted(b.case),)) == [other]
    late = replace(b, reason=model.Reason("budget", "no time was left"))
    assert words("transfer.h2d.latency<=2us", late) == [(fit_id(b.case), "inconclusive")]


def given(speedup=(), failed=None, skipped=None, flags=(), **keys):
    """Return a row as a table has it: its speed-up and its interval, or why it has none."""
    if failed or skipped:
        status, code = ("failed", failed) if failed else ("skipped", skipped)
        return model.Measurement(case(**keys), status, model.Reason(code, "x"))
    return row(*speedup, of=case(**keys), flags=tuple(flags))


@pytest.mark.parametrize(("rows", "code", "status", "errors"), TABLE["ended"])
def test_what_is_no_pass_is_an_error(rows, code, status, errors):
    rows = [given(**keys) for keys in rows]
    assert (code, status, [tuple(error) for error in errors]) == ended(outcome(*rows))


@pytest.mark.parametrize(("interval", "code", "errors"), TABLE["let_pass"])
def test_a_maybe_can_be_let_pass(interval, code, errors):
    """It is a warning, and the verdict stays what it is, also the command's own; nothing else."""
    rows = [row(*interval)] if interval else []
    found = outcome(*rows, inconclusive="pass")
    maybe = model.Problem(Diagnostic("inconclusive", "few blocks"), Exit.INCONCLUSIVE)
    own = gated(report(errors=(maybe,), exit_code=5), Gate(inconclusive="pass"))
    assert (found.exit_code, ended(found)[2]) == (code, [tuple(error) for error in errors])
    assert [p.diagnostic.severity for p in found.errors] == ["error" if code else "warning"]
    assert found.verdicts[0].verdict != "pass"
    assert ended(own) == (0, "ok", [("inconclusive", 0)])


@pytest.mark.parametrize(("problems", "rows"), [
    ([["absent", 3]], [row(2.0)]),  # a row was measured, or failed
    ([["absent", 3]], [model.Measurement(case(), "failed", model.Reason("absent", "x"))]),
    *((problems, []) for problems in TABLE["no_absence_alone"]),
])  # fmt: skip
def test_nothing_but_absence_is_skipped(problems, rows):
    errors = tuple(model.Problem(Diagnostic(code, "x"), exit_) for code, exit_ in problems)
    found = outcome(*rows, errors=errors, if_absent="skip")
    assert found.exit_code != 0
    assert found.status != "skipped"
    assert "skipped" not in {verdict.verdict for verdict in found.verdicts}


PASS = row(2.0, 1.9, 2.1)
# a limit on what is counted is certain at once, but the row has no interval yet
FEW = replace(PASS, metrics={**PASS.metrics, "time": model.Estimate.without_interval(1.0, "s")})
SMALL, LARGE = (row(1.0, of=case(size=size)) for size in (64, 128))


@pytest.mark.parametrize(("limit", "rows", "found", "expected"), [
    (LIMIT, [PASS], ["pass"], True), (LIMIT, [row(1.5, 1.4, 1.6)], ["fail"], True),
    (LIMIT, [row(1.8, 1.7, 1.9)], ["inconclusive"], False), (LIMIT, [FEW], ["pass"], False),
    ("dot.many[size=64].speedup>=1.8", [SMALL, LARGE], ["fail"], True),
    # a row that no limit selects decides nothing
    ("dot.many[size=64].speedup>=1.8", [LARGE], [], None),
])  # fmt: skip
def test_an_early_look_judges_the_rows_that_a_limit_selects(limit, rows, found, expected):
    """A pass or a fail decides, by its interval."""
    assert early([limit_of(limit)], rows) == found
    assert decided(Gate((limit_of(limit),)), (), rows) is expected
    assert decided(Gate(), (), rows) is None


@pytest.mark.parametrize(("factor", "noise", "expected"), [
    (1.0, 0.0, True), (1.2, 0.0, True), (1.05, 0.1, False),
])  # fmt: skip
def test_a_base_is_decided_by_every_metric(factor, noise, expected):
    """At the level of an early look."""
    times = [1.0 + noise * (n * 7 % 11 - 5) for n in range(40)]
    base = report(timed("one", times))
    rows = [timed("one", [factor * t for t in times])]
    assert decided(Gate(against=Baseline("base", base)), (), rows) is expected
