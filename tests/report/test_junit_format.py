"""JUnit's XML, read back by junitparser: a test for each part, and none green that did not pass."""

import made_reports
import pytest
from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml
from made_reports import EVERY, case, figure, made, ok, problem, skipped

from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.judge.exit_status import STATUS
from gpumap.model import Explanation, Reason, Samples, replace
from gpumap.report import Style, render

KINDS = {Failure: "failed", Error: "error", Skipped: "skipped"}


def read(report):
    return JUnitXml.fromstring(render("junit", report, Style()).encode())


def suites(report):
    """Return each suite's tests by the last part of its name: pairs of a name and a state."""
    return {suite.name.rpartition(".")[2]: [(t.name, state(t)) for t in suite]
            for suite in read(report)}  # fmt: skip


def state(test):
    assert len(test.result) <= 1
    return KINDS[type(test.result[0])] if test.result else "passed"


def counted(states):
    return (len(states), *(states.count(word) for word in ("failed", "error", "skipped")))


@pytest.mark.parametrize("name", EVERY)
def test_there_is_a_test_for_each_part(name):
    """The run, each row, limit, verdict and other error; the counts are those of the tests."""
    report = EVERY[name]()
    found = suites(report)
    document = read(report)
    assert len(found["run"]) == 1
    assert [test for test, _ in found.get("measurements", [])] == [
        row.case.id for row in report.measurements
    ]
    judged = {v.text if v.rule == "limit" else id(v) for v in report.verdicts}
    of_limits = [p for p in report.errors if p.diagnostic.message.startswith("limit ")]
    assert len(found.get("verdicts", [])) == len(judged)
    assert len(found.get("errors", [])) == len(report.errors) - len(of_limits)
    for suite in document:
        assert counted([state(t) for t in suite]) == (
            suite.tests, suite.failures, suite.errors, suite.skipped,
        )  # fmt: skip
    every = [word for tests in found.values() for _, word in tests]
    assert counted(every)[:3] == (document.tests, document.failures, document.errors)


@pytest.mark.parametrize("code", [code for code in Exit if code != 0])
def test_a_report_of_another_exit_code_is_never_green(code):
    rows = (ok(case()),)
    for report in (made(STATUS.get(code, "ok"), code), made("no", code, measurements=rows)):
        document = read(report)
        assert document.failures + document.errors == 1


LIMIT = "dot.many.speedup>=1.8"
MISSED = problem("limit", f"limit {LIMIT}: dot.many[x] has 1.5 [1.4, 1.6]", 1, "ask for less")
OPEN = problem("inconclusive", f"limit {LIMIT}: dot.many[y] has 1.8 [1.7, 1.9]", 5, "longer")


@pytest.mark.parametrize(("words", "errors", "code", "run", "state"), [
    (("pass", "pass"), (), 0, "passed", "passed"),
    (("pass", "fail"), (MISSED,), 1, "passed", "failed"),
    (("fail", "inconclusive"), (MISSED, OPEN), 1, "passed", "failed"),
    (("inconclusive",), (OPEN,), 5, "passed", "failed"),
    (("inconclusive",), (replace(OPEN, exit=0),), 0, "passed", "skipped"),  # let pass
    (("skipped",), (), 0, "passed", "skipped"),
    # something else is wrong too, or the limit alone does not tell the exit code
    (("fail",), (MISSED, problem("absent", "b is not there", 3)), 3, "failed", "failed"),
    (("fail",), (MISSED, problem("limit", "limit x>1: y", 1)), 1, "failed", "failed"),
    (("pass",), (MISSED,), 1, "failed", "passed"),
])  # fmt: skip
def test_a_limit_is_one_test(words, errors, code, run, state):
    """On whatever rows, and with what is said of it; it fails alone where nothing else is wrong."""
    verdicts = tuple(made_reports.verdict(word, id_=f"dot.many[{n}]")
                     for n, word in enumerate(words))  # fmt: skip
    report = made(STATUS[code], code, measurements=(ok(case()),), verdicts=verdicts, errors=errors)
    found = suites(report)
    others = [e for e in errors if state == "passed" or LIMIT not in e.diagnostic.message]
    assert (found["run"], found["verdicts"]) == ([("gpumap bench", run)], [(LIMIT, state)])
    assert len(found.get("errors", ())) == len(others)
    assert read(report).failures == (run == "failed") + (state == "failed") + len(others)


def test_an_error_of_a_longer_limit_is_not_the_shorter_ones():
    longer = problem("limit", f"limit {LIMIT}5: y", 1)
    verdict = made_reports.verdict("fail", id_="dot.many[0]")
    assert len(suites(made("no", 1, verdicts=(verdict,), errors=(longer,)))["errors"]) == 1


def test_a_limit_that_is_missed_says_on_which_rows_and_what_helps():
    verdicts = tuple(made_reports.verdict(word, id_=f"dot.many[{n}]")
                     for n, word in enumerate(("fail", "pass", "missing")))  # fmt: skip
    report = made("no", 1, verdicts=verdicts, errors=(MISSED,))
    (test,) = next(suite for suite in read(report) if suite.name.endswith("verdicts"))
    (failure,) = test.result
    assert [p.value.partition(",")[0] for p in test.properties()] == [
        "dot.many[0]: fail", "dot.many[1]: pass", "dot.many[2]: missing",
    ]  # fmt: skip
    assert (failure.type, failure.message) == ("fail", MISSED.diagnostic.message)
    assert failure.text == f"{MISSED.diagnostic.message}\nfix: ask for less"


@pytest.mark.parametrize(("report", "suite", "tests"), [
    (made(kind="devices"), "run", [("gpumap devices", "passed")]),  # of nothing there is one
    (made_reports.checked(), "map", [
        ("Mapped name a to device cuda0: x (simulated)", "passed"),
        ("Mapped name b to device cuda1: x (simulated)", "passed"),
    ]),
    (made("absent", 3, kind="check"), "map", None),  # the map is not true
    (made_reports.proved(), "round-trips", [("fake cuda:0", "passed"), ("fake cuda:1", "error")]),
])  # fmt: skip
def test_what_a_command_found_has_tests(report, suite, tests):
    """A checked map one for each name in Theano's words, a device one for its round trip."""
    assert suites(report).get(suite) == tests


@pytest.mark.parametrize(("code", "expected"), [
    (None, "passed"), ("budget", "skipped"), ("wrong-data", "error"), ("device-lost", "failed"),
])  # fmt: skip
def test_break_evens_are_tests(code, expected):
    """Which answer one gave is neither good nor bad; without one it has not passed."""
    report = made_reports.copies()
    (whole,) = report.break_evens
    decision = replace(whole, reason=Reason(code, "x") if code else None)
    if code == "budget":
        decision = replace(whole, metrics={}, wins=(), why_stopped=code)
    found = suites(replace(report, break_evens=(decision,)))
    assert found["break-evens"] == [(whole.id, expected)]


def test_names_in_a_suite_are_unique():
    """Readers join runs by them: also where one looks like a second one."""
    messages = ("none", "none (2)", "none", "none (2)", "none (3)", "none")
    errors = tuple(problem("absent", message, 3) for message in messages)
    names = [name for name, _ in suites(made("absent", 3, errors=errors))["errors"]]
    same = [name for name, _ in suites(made("absent", 3, errors=errors[:1] * 3))["errors"]]
    assert len(set(names)) == len(names)
    assert same == ["absent: none", "absent: none (2)", "absent: none (3)"]
    *_, suite = read(made("absent", 3, errors=errors[:1]))
    assert [test.result[0].type for test in suite] == ["absent"]


def test_times_are_what_the_samples_took():
    """What is no number does not count; figures are properties."""
    figures = {"time": figure(0.5, spread=0.5), "speedup": figure(2.0, "1", 0.5)}
    why = Explanation("serialised", "they take turns")
    odd = Samples((0.5, float("nan"), 0.25), (0, 1, 2), 4)
    row = replace(ok(case()), metrics=figures, flags=("unstable",), explanation=why, samples=odd)
    _, rows = read(made(measurements=(row, skipped(case("many")))))
    assert [test.time for test in rows] == [3.0, 0.0]
    assert rows.time == 3.0
    assert [(p.name, p.value) for p in next(iter(rows)).properties()] == [
        ("time", "0.5 [0.25, 0.75] s"), ("speedup", "2.0 [1.0, 3.0]"),
        ("flags", "unstable"), ("explanation", "serialised: they take turns"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [
    "<script>", "&amp;", "]]>", '"', "'", "a\nb", "\x1b[31m", "\0", "\ud800", "\ufffe", "\u202e",
    "é名🦊", "<!--", "<![CDATA[",
])  # fmt: skip
def test_hostile_names_are_names(name):
    """They come back as what a terminal would show; the document is ASCII and well-formed."""
    report = made_reports.wrong_data((name, "b"), text=name)
    found = suites(report)
    assert render("junit", report, Style()).isascii()
    assert [test for test, _ in found["measurements"]] == [
        printable(row.case.id) for row in report.measurements
    ]
    assert found["errors"][0][0].endswith(printable(name).strip())
