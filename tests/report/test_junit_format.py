"""JUnit's XML, read back by junitparser: a test for each part, and none green that did not pass."""

import made_reports
import pytest
from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import JUnitXml
from made_reports import case, figure, made, ok, problem, skipped

from gpumap.judge.exit_status import STATUS
from gpumap.model import Diagnosis, Explanation, Finding, replace
from gpumap.report import Style
from gpumap.results.shown import render

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


LIMIT = "dot.many.speedup>=1.8"


@pytest.mark.parametrize(("words", "code", "run", "states"), [
    (("pass", "pass"), 0, "passed", "passed passed"),
    (("fail", "pass"), 1, "failed", "failed passed"),
    (("pass", "inconclusive"), 5, "failed", "passed failed"),
    (("pass", "inconclusive"), 0, "passed", "passed skipped"),  # let pass
    (("skipped",), 0, "passed", "skipped"),
])  # fmt: skip
def test_a_limit_is_a_test_for_each_row(words, code, run, states):
    verdicts = tuple(made_reports.verdict(word, id_=f"dot.many[{n}]")
                     for n, word in enumerate(words))  # fmt: skip
    report = made(STATUS[code], code, measurements=(ok(case()),), verdicts=verdicts)
    found = suites(report)
    tests = [(f"{LIMIT} dot.many[{n}]", state) for n, state in enumerate(states.split())]
    assert (found["run"], found["verdicts"]) == ([("gpumap bench", run)], tests)


def test_a_metric_that_is_only_shown_is_no_test():
    """There is one for each judged metric: what is not judged can be neither green nor red."""
    words = ("pass", "shown", "improvement", "shown")
    verdicts = tuple(made_reports.verdict(word, "base", f"{n}.time", id_=f"dot.many[{n}]")
                     for n, word in enumerate(words))  # fmt: skip
    found = suites(made(measurements=(ok(case()),), verdicts=verdicts))["verdicts"]
    assert found == [("0.time dot.many[0]", "passed"), ("2.time dot.many[2]", "passed")]


@pytest.mark.parametrize(("code", "names"), [(0, 2), (1, 2), (4, 0)])
def test_a_name_is_green_only_where_the_map_is_true(code, names):
    report = made(STATUS[code], code, kind="check")
    assert len(suites(report).get("names", ())) == names


def told(report, suite):
    """Return what the only test of a suite that did not pass says."""
    (test,) = next(each for each in read(report) if each.name.endswith(suite))
    return f"{test.result[0].message} {test.result[0].text}"


def test_a_name_that_is_not_used_says_the_first_fix():
    causes = tuple(
        Finding(code, "key", "text", fix) for code, fix in (("GM205", "drive"), ("GM1", "x"))
    )
    found = Diagnosis("a", "cuda0", "not used", "no device", causes)
    assert "drive" in told(made("no", 1, kind="doctor", diagnoses=(found,)), "diagnoses")


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


def test_figures_are_properties():
    figures = {"time": figure(0.5, spread=0.5), "speedup": figure(2.0, "1", 0.5)}
    why = Explanation("serialised", "they take turns")
    row = replace(ok(case()), metrics=figures, flags=("unstable",), explanation=why)
    _, rows = read(made(measurements=(row, skipped(case("many")))))
    assert [(p.name, p.value) for p in next(iter(rows)).properties()] == [
        ("time", "0.5 [0.25, 0.75] s"), ("speedup", "2.0 [1.0, 3.0]"),
        ("flags", "unstable"), ("explanation", "serialised: they take turns"),
    ]  # fmt: skip
