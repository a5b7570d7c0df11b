"""Every planned case ends as one row, whatever happens; blocks alternate; nothing is dropped."""

from functools import partial
from random import Random

import pytest
from worlds import RATE, SETTINGS, copies_on, dot_on, gpu, hooked, hooking, rows_on, world

from gpumap.backends.fake import FakeSession
from gpumap.bench.dot import Dot, Params
from gpumap.engine.runner import Runner
from gpumap.engine.stats import location
from gpumap.engine.stopping import EARLY
from gpumap.errors import Unsupported
from gpumap.model import Around, Estimate, Reason, replace

PARAMS = Params((64,))
ONE = Params((64,), cases=("one",))
NEVER = -1.0  # a precision that no interval reaches
STAGED = replace(SETTINGS, budget=30.0, blocks=1000, precision=NEVER, staged=True)
LARGE = Params((128,))
SLOW = gpu(0, rate=2.0**26), gpu(1, rate=2.0**26)


class _Noted(Dot):
    def __init__(self, *args):
        super().__init__(*args)
        self.heard = []

    def iteration(self, case):
        work = super().iteration(case)
        for name in ("poison", "queue", "finish", "check"):
            hooked(work, name, lambda name=name: self.heard.append((name, case.id)))
        return work

    @property
    def queued(self):
        return [id_ for name, id_ in self.heard if name == "queue"]


def dot(*scripts, params=PARAMS, settings=SETTINGS, kind=Dot, device=FakeSession, **others):
    here = world(*scripts, kind=device)
    benchmark = dot_on(here, params, kind)
    return benchmark, Runner(benchmark, here.clock, settings, **others)


def rows_of(*scripts, **others):
    benchmark, runner = dot(*scripts, **others)
    rows = list(runner.run())
    assert [case.id for case in benchmark.plan.cases] == [row.case.id for row in rows]
    return rows


def by_name(rows):
    return {row.case.name: row for row in reversed(rows)}  # the first of each


def test_blocks_alternate():
    benchmark, runner = dot(gpu(0, rate=2.0**20), gpu(1, rate=2.0**20), kind=_Noted)
    rows = list(runner.run())
    assert {1} == {row.samples.iterations_per_sample for row in rows}
    n = len(rows)
    taken = benchmark.queued[-6 * n :]
    blocks = [taken[i * n : (i + 1) * n] for i in range(6)]
    assert {tuple(sorted(c.id for c in benchmark.plan.cases))} == {tuple(sorted(b)) for b in blocks}
    assert blocks[1::2] == [block[::-1] for block in blocks[::2]]
    assert len({tuple(block) for block in blocks}) > 2  # each pair of blocks is shuffled anew


@pytest.mark.parametrize(("seed", "same"), [(1, True), (2, False)])
def test_the_seed_sets_the_order(seed, same):
    orders = []
    for settings in (SETTINGS, replace(SETTINGS, seed=seed)):
        benchmark, runner = dot(gpu(0), gpu(1), kind=_Noted, settings=settings)
        list(runner.run())
        orders.append(benchmark.queued)
    assert same == (orders[0] == orders[1])


def test_what_matters_most_is_measured_alone_at_first():
    """For half of the time at least, and 40 blocks if the others can wait; then side by side."""
    rows = by_name(rows_of(*SLOW, params=LARGE, settings=STAGED))
    one, many, solo = (rows[name].samples.blocks for name in ("one", "many", "solo"))
    assert (one, solo) == (many, tuple(range(solo[0], one[-1] + 1)))
    assert len(solo) >= 6
    spent = sum(sum(rows[name].samples.seconds[: solo[0]]) for name in ("one", "many"))
    assert 0.4 * 30.0 < spent < 0.55 * 30.0
    assert len(one) - len(solo) >= 35
    assert rows["many"].metrics["ideal"].has_interval


# the second: what was taken before of what matters most is none of theirs; the grace of the time is
THROTTLED = {"rate": 2.0**26, "throttle": 1.15, "throttle_after": 2.0}
FIRST_THREE = replace(LARGE, cases=("solo", "one", "many"))


@pytest.mark.parametrize(("script", "params", "settings", "one", "solo"), [
    ({}, PARAMS, replace(STAGED, blocks=20), 20, 6),
    (THROTTLED, FIRST_THREE, replace(STAGED, budget=3.6), 7, 6),
], ids=["blocks", "throttled"])  # fmt: skip
def test_what_matters_most_leaves_six_blocks_to_the_others(script, params, settings, one, solo):
    """For an interval, where the number of blocks ends a run, and where devices slow down."""
    rows = by_name(rows_of(gpu(0, **script), gpu(1, **script), params=params, settings=settings))
    assert [len(rows[name].samples.blocks) for name in ("one", "solo")] == [one, solo]


def test_a_group_in_which_all_matters_most_is_not_measured_in_two_stages():
    """It ends at the first look, as it does where no stages are asked for."""
    taken = []
    for staged in (False, True):
        here = world(gpu(0))
        benchmark = dot_on(here, ONE)
        groups = (replace(group, first=len(group.order)) for group in benchmark.plan.groups)
        benchmark.plan = replace(benchmark.plan, groups=tuple(groups))
        settings = replace(STAGED, precision=0.02, staged=staged)
        taken.append([row.samples.blocks for row in rows_on(here, benchmark, settings)])
    assert taken[0] == taken[1]


def _swing(noted, _case):
    """Let the time swing by a half from call to call."""
    noted._devices.clock.sleep((len(noted.queued) % 5) * 64**3 * 2 / RATE)


_Noisy = hooking(_Noted, "queue", _swing)


@pytest.mark.parametrize(("kind", "precision", "n", "why"), [
    (Dot, 0.02, 20, "precision"), (_Noisy, 0.02, 50, "precision"), (_Noisy, 0.001, 200, "blocks"),
    (Dot, NEVER, 200, "blocks"),
])  # fmt: skip
def test_it_looks_after_a_tenth_a_quarter_and_a_half(kind, precision, n, why):
    settings = replace(SETTINGS, precision=precision, blocks=200)
    (row,) = rows_of(gpu(0, rate=2.0**24), params=ONE, kind=kind, settings=settings)
    assert (n, why) == (row.stop.n, row.stop.why)
    assert tuple(range(n)) == row.samples.blocks


@pytest.mark.parametrize(("answers", "n", "why"), [
    ([True], 50, "decided"), ([False, True], 100, "decided"),
    ([False, False], 200, "blocks"),  # precise enough, and not decided
    ([None], 50, "precision"),  # nothing is requested of these rows
])  # fmt: skip
def test_the_time_follows_the_decision(answers, n, why):
    asked = []

    def decided(rows):
        asked.append(rows)
        return answers[len(asked) - 1]

    settings = replace(SETTINGS, blocks=200, decided=decided)
    (row,) = rows_of(gpu(0, rate=2.0**24), params=ONE, settings=settings)
    assert (row.stop.n, row.stop.why, len(asked)) == (n, why, len(answers))
    assert [[each.case.id for each in rows] for rows in asked] == [[row.case.id]] * len(answers)


@pytest.mark.parametrize(("decided", "why"), [(None, "budget"), (lambda _: True, "decided")])
def test_what_is_settled_leaves_the_time_to_the_rest(decided, why):
    """An early look ends the first stage; once a gate is decided, the rest gets six blocks."""
    settings = replace(STAGED, precision=0.02, decided=decided)
    every = rows_of(*SLOW, params=LARGE, settings=settings)
    many, fetch = (by_name(every)[name] for name in ("many", "many+fetch"))
    assert {row.stop.why for row in every} == {why}
    assert many.samples.blocks[-len(fetch.samples.blocks) :] == fetch.samples.blocks
    spent = sum(sum(row.samples.seconds) for row in by_name(every).values())
    if why == "decided":
        assert (len(fetch.samples.blocks), spent < 0.75 * 30.0) == (6, True)
    else:
        assert len(fetch.samples.blocks) > 12


def test_a_first_stage_whose_cases_all_fail_leaves_the_time_to_the_rest():
    """No block without a case is counted, and none is waited for."""
    calls = []

    def lost(_, case):
        calls.append(case.name in ("one", "many"))
        if calls[-1] and calls.count(True) > 12:
            raise Unsupported("lost", "none")

    settings = replace(STAGED, blocks=40)
    rows = by_name(rows_of(gpu(0), gpu(1), kind=hooking(Dot, "queue", lost), settings=settings))
    assert rows["one"].status == rows["many"].status == "failed"
    assert len(rows["solo"].samples.seconds) > 30


def test_each_group_is_looked_around_for_itself():
    looks = (Around(foreign=float(n)) for n in range(9))
    _, runner = dot(gpu(0), gpu(1), params=Params((64, 128)), around=looks.__next__)
    rows = list(runner.run())
    assert [row.around.foreign for row in rows] == [1.0] * 7 + [3.0] * 7


def test_a_device_that_goes_wrong_while_it_is_measured():
    """What the last samples left is checked too: its raw times are kept, without any figure."""
    (row,) = rows_of(gpu(0, fault="wrong-product", fault_after=60), params=ONE)
    assert (row.status, row.reason.code, row.metrics) == ("failed", "wrong-data", {})
    assert len(row.samples.seconds) == 6


@pytest.mark.parametrize("after", [0, 1, 20, 50, 100])
def test_a_lost_device_takes_only_its_own_rows(after):
    lost = Reason("device-lost", "cuda1 no longer answers")
    for row in rows_of(gpu(0), gpu(1, fault="lost", fault_after=after)):
        if "b" in row.case.names:
            assert (row.status, row.reason, row.metrics) == ("failed", lost, {})
        else:
            assert (row.status, row.stop.n) == ("ok", 6)


@pytest.mark.parametrize("after", range(5, 60))
def test_what_is_not_supported_in_any_phase(after):
    """Once is enough: no error of a device is forgotten because the next command goes well."""
    raised = []

    class Sudden(FakeSession):
        def _take(self, *arguments):
            if self.commands >= after and not raised:
                raised.append(after)
                raise Unsupported("no more")
            return super()._take(*arguments)

    (row,) = rows_of(gpu(0, rate=2.0**20), params=ONE, device=Sudden)
    failed = ("failed", Reason("unsupported", "no more"))
    assert (row.status, row.reason) == (failed if raised else ("ok", None))


class StopError(BaseException):
    """As an interruption comes: from anywhere."""


@pytest.mark.parametrize("after", [0, 5, 20, 60, 200, 300])
def test_a_run_that_is_stopped_has_rows_all_the_same(after):
    """One for each case of the current group: what there is of it, else skipped with the reason."""
    benchmark, runner = dot(gpu(0), gpu(1), kind=_Noted)

    class Stopping(list):
        def append(self, item):
            super().append(item)
            if len(self) > after:
                raise StopError

    benchmark.heard = Stopping()
    with pytest.raises(StopError):
        list(runner.run())
    rows = runner.unfinished("interrupted")
    assert [case.id for case in benchmark.plan.cases] == [row.case.id for row in rows]
    for row in rows:
        if row.status == "ok":
            assert row.samples.seconds
            assert row.stop.why == "interrupted"
        else:
            reason = Reason("stopped", "interrupted")
            assert ("skipped", reason, {}) == (row.status, row.reason, row.metrics)


MANY = Params((64,), cases=("many",))


def test_each_case_is_verified_from_wrong_data_on_and_once_more_at_the_end():
    benchmark, runner = dot(gpu(0, rate=2.0**24), gpu(1, rate=2.0**24), kind=_Noted)
    list(runner.run())
    for case in benchmark.plan.cases:
        calls = [name for name, id_ in benchmark.heard if id_ == case.id]
        assert calls[:4] == ["poison", "queue", "finish", "check"]
        assert (calls.count("poison"), calls.count("check"), calls[-1]) == (1, 2, "check")


class _Spoilt(Dot):
    """Products whose reference is right before it is timed, and wrong behind it."""

    def iteration(self, case):
        work = super().iteration(case)
        if case.name == "one":
            check, answers = work.check, iter((True, False))
            work.check = lambda: replace(check(), passed=next(answers))
        return work


def test_nothing_is_compared_with_a_reference_that_went_wrong():
    rows = by_name(rows_of(gpu(0), gpu(1), params=MANY, kind=_Spoilt))
    assert (rows["one"].status, rows["one"].reason.code) == ("failed", "wrong-data")
    assert rows["many"].status == "ok"
    assert {"speedup", "ideal", "efficiency"}.isdisjoint(rows["many"].metrics)


@pytest.mark.parametrize("benchmark", [
    partial(dot_on, params=Params((64, 32))),
    lambda here: copies_on(here, 400, cases=("h2d", "d2h"), sweep=(64, 512, 4096)),
])  # fmt: skip
@pytest.mark.parametrize("budget", [0.77, 2.3, 7.3, 31.0])
def test_no_deadline_depends_on_what_the_clock_shows(benchmark, budget):
    settings = replace(SETTINGS, budget=budget, blocks=100, precision=-1.0)
    ended = []
    for start in (0.0, 4096.0):
        here = world(*SLOW)
        here.clock.sleep(start)
        rows = rows_on(here, benchmark(here), settings)
        ended.append([(r.case.id, r.status, r.stop and (r.stop.why, r.stop.n)) for r in rows])
    assert ended[0] == ended[1]


def test_rows_of_an_early_look_have_the_intervals_of_its_level():
    """Wider ones than at the end: it spends a tenth of the error."""
    seen, noise = [], Random(1)  # noqa: S311 - no secret
    uneven = hooking(
        Dot, "queue", lambda made, _: made._devices.clock.sleep(noise.random() * 2.0**-5)
    )
    look = {"decided": lambda rows: bool(seen.append(rows))}
    settings = replace(SETTINGS, blocks=200, confidence=0.9, **look)
    (last,) = rows_of(gpu(0, rate=2.0**24), params=ONE, kind=uneven, settings=settings)
    assert [len(rows) for rows in seen] == [1, 1]
    for row, confidence in ((seen[0][0], 1.0 - 2.0 * EARLY), (last, settings.confidence)):
        found = location(row.samples.seconds, confidence, positive=True, slow=False)
        time = row.metrics["time"]
        assert (time.low, time.value, time.high) == (found.low, found.value, found.high)


class _Impossible(Dot):
    def metrics(self, *arguments):
        found = super().metrics(*arguments)
        nine = {"speedup": Estimate(9.0, 9.0, 9.0, "1")}
        return {id_: {**each, **(nine if ".many[" in id_ else {})} for id_, each in found.items()}


def test_nothing_is_decided_by_a_ratio_that_is_refused():
    seen = []
    settings = replace(SETTINGS, blocks=40, decided=lambda rows: seen.append(rows) or True)
    rows_of(*SLOW, params=MANY, kind=_Impossible, settings=settings)
    (gain,) = (r.metrics["speedup"] for r in seen[0] if r.case.name == "many")
    assert gain.impossible
