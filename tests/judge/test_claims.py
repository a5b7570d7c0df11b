"""Which metrics a comparison judges: what the headline claims, a choice, or all of them."""

import pytest
from reports import control_row, noisy, report, row
from tables import table

from gpumap.bench.registry import find
from gpumap.errors import QuestionError
from gpumap.judge.claims import check_patterns
from gpumap.judge.compare import Terms, compare, early
from gpumap.judge.pairs import comparable
from gpumap.model import Reason, replace

SAME = [0.01] * 40


def dot(*slower, by=2.0, **settings):
    def timed(name, seconds, **others):
        return row(name, noisy(seconds * (by if name in slower else 1.0), noise=0.002),
                   **others)  # fmt: skip

    one = timed("one", 0.02)
    both = {"names": ("a0", "b1"), "against": one.case.id, "speedup": 2.0}
    rows = (one, timed("many", 0.01, **both), timed("solo", 0.01), timed("many+fetch", 0.012))
    return replace(report(*rows), settings=settings)


def left_out(name):
    gone = {"status": "skipped", "reason": Reason("budget", ""), "samples": None, "metrics": {}}
    rows = (replace(r, **gone) if r.case.name == name else r for r in dot().measurements)
    return replace(dot(), measurements=tuple(rows))


def few(row):
    return replace(row, samples=replace(row.samples, seconds=SAME[:3], blocks=(0, 1, 2)))


def words(base, new, *judge):
    found = compare(base, new, 0.05, judge=judge)
    return {(v.id.partition("[")[0].partition(".")[2], v.metric): v.verdict for v in found}


def claims(*rows):
    (bench,) = {one.case.bench for one in rows}
    return {(id_.partition("[")[0], metric) for id_, metric in find(bench).claims(rows)}


def test_copies_claim_the_bandwidth_of_the_largest_and_the_latency_of_the_smallest():
    """Of each way and device; queued copies tell the bandwidth; pinned memory and both ways not."""

    def copy(way, nbytes, mode, memory="pageable", pattern="alone"):
        keys = {"bytes": nbytes, "mode": mode, "memory": memory, "pattern": pattern}
        metric = "issue_interval" if mode == "queued" else "time"
        return row(way, SAME, bench="transfer", metric=metric, **keys)

    rows = [copy(way, nbytes, mode, memory)
            for way in ("h2d", "d2h", "bidir") for nbytes in (400, 4000, 400_000)
            for mode in ("sync", "queued") for memory in ("pageable", "pinned")]  # fmt: skip
    both = copy("h2d", 400_000, "sync", pattern="together")
    expected = {(copy(way, 400, "sync").case.id, "time") for way in ("h2d", "d2h")}
    queued = (copy(way, 400_000, "queued") for way in ("h2d", "d2h"))
    expected |= {(one.case.id, "issue_interval") for one in queued}
    assert {*find("transfer").claims([*rows, both])} == expected
    alone = [copy("h2d", 400, "sync"), copy("h2d", 4000, "sync")]  # nothing can be queued
    assert len([*find("transfer").claims(alone)]) == 2


def test_other_benchmarks_claim_what_their_headline_is_about():
    chain = [row(name, SAME, bench="chain") for name in ("separate", "fused", "host")]
    assert claims(*chain) == {("chain.fused", "speedup")}
    sums = [row(name, [seconds] * 40, bench="allreduce", bytes=nbytes)
            for name, seconds in (("native", 0.02), ("ring", 0.01))
            for nbytes in (400, 400_000)]  # fmt: skip
    ((best, metric),) = find("allreduce").claims(sums)
    assert (best, metric) == (sums[-1].case.id, "time")
    steps = [row(name, SAME, bench="train", names=names)
             for name in ("step", "compute") for names in (("a0",), ("a0", "b1"))]  # fmt: skip
    assert [*find("train").claims(steps)] == [(steps[1].case.id, "time")]


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("metric", ["time", "speedup"])
@pytest.mark.parametrize(("by", "word"), [(1.1, "shown"), (1.25, "regression")])
def test_what_is_only_shown_is_an_alarm_where_it_is_surely_slower_by_three_thresholds(
    controlled, metric, by, word
):
    """As it is, or relative to a control product that is as fast as before."""
    more = [control_row(noisy(0.002), ("a0", "b1"))] if controlled and metric == "time" else []
    sides = [replace(one, measurements=(*one.measurements, *more))
             for one in (dot(), dot("many", by=by))]  # fmt: skip
    assert words(*sides, "dot.one.time")["many", metric] == word
    assert words(*sides, "dot.many.*")["many", metric] == "regression"


def test_what_is_only_shown_has_no_other_verdict():
    assert words(dot("many+fetch"), dot())["many+fetch", "time"] == "shown"
    *others, fetch = dot().measurements
    short = replace(dot(), measurements=(*others, few(fetch)))
    assert words(dot(), short)["many+fetch", "time"] == "shown"


def test_a_row_without_time_is_inconclusive_whichever_of_its_metrics_is_judged():
    """It has one verdict for all of them."""
    short = left_out("many")
    assert words(dot(), short, "dot.many.speedup")["many", "time"] == "inconclusive"
    assert words(dot(), short, "dot.one.time")["many", "time"] == "shown"


def test_what_a_headline_claims_and_neither_run_had_time_for_is_inconclusive():
    """Or a gate passes by what no one asked for; what is only shown stays out."""
    for name, word in (("many", "inconclusive"), ("many+fetch", None)):
        found = words(left_out(name), left_out(name))
        assert (found["one", "time"], found.get((name, "time"))) == ("pass", word)


@pytest.mark.parametrize(("patterns", "chosen"), table(__file__)["chosen"])
def test_patterns_choose_what_is_judged(patterns, chosen):
    found = words(dot(), dot(), *patterns)
    assert {name for (name, _), word in found.items() if word == "pass"} == {*chosen}


def test_a_pattern_without_a_metric_is_refused_with_some_that_there_are():
    what = r'--judge "dot\.nine\.time" selects no metric'
    with pytest.raises(QuestionError, match=what) as error:
        check_patterns(comparable(dot()), ["dot.one.time", "dot.nine.time"])
    assert error.value.diagnostics[0].hint == (
        "did you mean dot.one.time? the baseline has dot.one.time, dot.many.time, "
        "dot.many.speedup, dot.solo.time, dot.many+fetch.time"
    )


def test_cases_that_were_chosen_are_judged():
    """Who wrote --cases many+fetch has that question."""
    chosen = dot(cases=["many+fetch"])
    assert words(chosen, dot())["many+fetch", "time"] == "pass"
    found = words(chosen, chosen)
    assert [name for name, word in found.items() if word == "pass"] == [("many+fetch", "time")]


def test_a_report_without_what_a_headline_claims_is_judged_whole():
    rows = [one for one in dot().measurements if one.case.name in ("solo", "many+fetch")]
    some = replace(dot(), measurements=tuple(rows))
    assert {*words(some, some).values()} == {"pass"}


def test_a_benchmark_that_claims_nothing_of_its_own_is_judged_whole():
    """Also beside one that does."""
    both = report(*dot().measurements, row("a", SAME, bench="selftest"))
    found = words(both, both)
    assert (found["a", "time"], found["solo", "time"]) == ("pass", "shown")


def test_an_early_look_judges_the_cases_that_the_run_was_asked_for():
    """As its end does: or the run stops before they are known. Rows that are shown keep none going.

    So it is with what the headline claims, where no cases were asked for.
    """
    base = dot()
    one, many, solo, fetch = base.measurements
    cases = ("one", "many+fetch")
    assert early(base, [one, fetch], Terms(), cases) == ["pass", "pass"]
    assert early(base, [one, few(fetch)], Terms(), cases) == ["pass", "inconclusive"]
    assert early(base, [one, many, few(fetch)], Terms()) == ["pass"] * 3
    assert early(base, [solo, few(fetch)], Terms()) == []
    assert early(base, [solo], Terms(judge=("all",))) == ["pass"]
