"""The order in which the runner uses a round; and its deadlines are spans, not moments."""

from collections import defaultdict
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from worlds import SETTINGS, Silent, copies_on, dot_on, gpu, hooked, rows_on, world

from gpumap.bench.dot import Dot, Params
from gpumap.judge.verdict import EARLY
from gpumap.model import Estimate
from gpumap.model.trees import changed
from gpumap.stats import location

ONE, MANY = (Params((64,), cases=(name,)) for name in ("one", "many"))


class _Noted(Dot):
    """A benchmark that writes down what is done with the round of each case."""

    def __init__(self, *args):
        super().__init__(*args)
        self.done = defaultdict(list)

    def round(self, case):
        work = super().round(case)
        for name in ("poison", "queue", "finish", "check"):
            hooked(work, name, partial(self.done[case.id].append, name))
        return work


def slow(names=1):
    return world(*(gpu(n, rate=2.0**24) for n in range(names)))


def copies(here):
    return copies_on(here, 400, cases=("h2d", "d2h"), ladder=(64, 512, 4096))


def test_each_case_is_verified_from_wrong_data_on_and_once_more_at_the_end():
    here = slow(2)
    benchmark = dot_on(here, kind=_Noted)
    rows_on(here, benchmark)
    assert len(benchmark.done) == len(benchmark.plan.cases)
    for calls in benchmark.done.values():
        assert calls[:4] == ["poison", "queue", "finish", "check"]
        assert (calls.count("poison"), calls.count("check"), calls[-1]) == (1, 2, "check")


class _Spoilt(Dot):
    """Products whose reference is right before it is timed, and wrong behind it."""

    def round(self, case):
        work = super().round(case)
        if case.name == "one":
            check, answers = work.check, iter((True, False))
            work.check = lambda: changed(check(), passed=next(answers))
        return work


def test_nothing_is_compared_with_a_reference_that_went_wrong():
    here = world(gpu(0), gpu(1))
    rows = {r.case.name: r for r in rows_on(here, dot_on(here, MANY, _Spoilt))}
    assert (rows["one"].status, rows["one"].reason.code) == ("failed", "wrong-data")
    assert rows["many"].status == "ok"
    assert {"speedup", "ideal", "efficiency"}.isdisjoint(rows["many"].metrics)


@pytest.mark.parametrize("benchmark", [partial(dot_on, params=Params((64, 32))), copies])
@pytest.mark.parametrize("budget", [0.77, 2.3, 7.3, 31.0])
def test_no_deadline_depends_on_what_the_clock_shows(benchmark, budget):
    settings = replace(SETTINGS, budget=budget, blocks=100, precision=-1.0)
    ended = []
    for start in (0.0, 4096.0):
        here = slow(2)
        here.clock.sleep(start)
        rows = rows_on(here, benchmark(here), settings)
        ended.append([(r.case.id, r.status, r.stop and (r.stop.why, r.stop.n)) for r in rows])
    assert ended[0] == ended[1]


def test_a_case_that_cannot_be_measured_says_why():
    here = world(gpu(0, features=()))
    skipped = [row for row in rows_on(here, copies(here)) if row.case.skip is not None]
    assert {row.case.params["memory"] for row in skipped} == {"pinned", "mapped"}
    for row in skipped:
        assert (row.status, row.reason) == ("skipped", row.case.skip)


class _Uneven(Dot):
    """Products whose times differ from block to block."""

    def round(self, case):
        noise = Random(1)  # noqa: S311 - no secret
        return hooked(
            super().round(case), "queue", lambda: self._clock.sleep(noise.random() * 2.0**-5)
        )


def test_rows_of_an_early_look_have_the_intervals_of_its_level():
    """Wider ones than at the end: it spends a tenth of the error."""
    seen, here = [], slow()
    look = {"decided": lambda rows: bool(seen.append(rows))}
    settings = replace(SETTINGS, blocks=200, confidence=0.9, **look)
    (last,) = rows_on(here, dot_on(here, ONE, _Uneven), settings)
    assert [len(rows) for rows in seen] == [1, 1]
    for row, confidence in ((seen[0][0], 1.0 - 2.0 * EARLY), (last, settings.confidence)):
        found = location(row.samples.seconds, confidence, positive=True, slow=False)
        time = row.metrics["time"]
        assert (time.low, time.value, time.high) == (found.low, found.value, found.high)


class _Impossible(Dot):
    """Products with a ratio that no two devices can have."""

    def metrics(self, *arguments):
        found = super().metrics(*arguments)
        nine = {"speedup": Estimate(9.0, 9.0, 9.0, "1")}
        return {id_: {**each, **(nine if ".many[" in id_ else {})} for id_, each in found.items()}


def test_nothing_is_decided_by_a_ratio_that_is_refused():
    seen, here = [], slow(2)
    settings = replace(SETTINGS, blocks=40, decided=lambda rows: seen.append(rows) or True)
    rows_on(here, dot_on(here, MANY, _Impossible), settings)
    (gain,) = (r.metrics["speedup"] for r in seen[0] if r.case.name == "many")
    assert gain.impossible


def test_who_watches_hears_how_many_blocks_there_are_and_when_the_next_look_is():
    here, observer = slow(), Silent()
    settings = replace(SETTINGS, blocks=40, whole=True)
    (row,) = rows_on(here, dot_on(here, ONE), settings, observer)
    blocks = observer.heard[1:-1]
    assert [seen.blocks for seen in blocks] == list(range(1, 41))
    assert [seen.look for seen in blocks] == [0.25] * 10 + [0.5] * 10 + [1.0] * 20
    assert [seen.taken[row.case.id].seconds for seen in blocks] == list(row.samples.seconds)
