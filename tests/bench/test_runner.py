"""Every planned case ends as one row, whatever happens; blocks alternate; nothing is dropped."""

from dataclasses import replace

import pytest
from worlds import RATE, SETTINGS, Silent, gpu, world

from gpumap.bench.dot import CASES, Dot, Params
from gpumap.bench.runner import Runner
from gpumap.bench.transfer import Params as TransferParams
from gpumap.bench.transfer import Size, Transfer
from gpumap.model import Reason

PARAMS = Params((64,))


class Ordered(Dot):
    """A benchmark that writes down which case is queued."""

    def __init__(self, *args):
        super().__init__(*args)
        self.queued = []

    def round(self, case):
        """Note a case whenever it is queued."""
        work = super().round(case)
        queue = work.queue

        def queue_and_note():
            self.queued.append(case.id)
            queue()

        work.queue = queue_and_note
        return work


def dot(*scripts, params=PARAMS, settings=SETTINGS, kind=Dot, start=0.0):
    """Return a world, a benchmark on it, its runner and who watches."""
    here = world(*scripts)
    here.clock.sleep(start)
    benchmark = kind(here.bindings, here.sessions, here.clock, params, here.bindings[0])
    observer = Silent()
    return here, benchmark, Runner(benchmark, here.clock, settings, observer), observer


def rows_of(*scripts, **others):
    """Run to the end."""
    _, benchmark, runner, _ = dot(*scripts, **others)
    rows = list(runner.run())
    assert [case.id for case in benchmark.plan.cases] == [row.case.id for row in rows]
    return rows


def test_every_case_has_a_row_with_what_was_measured():
    """In the order of the plan; samples, blocks and spans are equally long."""
    rows = rows_of(gpu(0), gpu(1), params=Params((64, 128)))

    assert {"ok"} == {row.status for row in rows}
    for row in rows:
        taken = row.samples
        assert (6, tuple(range(6))) == (len(taken.seconds), taken.blocks)
        assert set(taken.spans) == set(row.case.names)
        assert {6} == {len(spans) for spans in taken.spans.values()}
        assert (row.stop.why, row.stop.n) == ("blocks", 6)
        assert row.stop.warmup > 10  # two windows, and what calibrating took
        assert row.check.passed


def test_blocks_alternate():
    """A block holds every case once in seeded order, the next one in reverse."""
    _, benchmark, runner, _ = dot(gpu(0, rate=2.0**20), gpu(1, rate=2.0**20), kind=Ordered)

    rows = list(runner.run())

    assert {1} == {row.samples.rounds_per_sample for row in rows}
    n = len(rows)
    taken = benchmark.queued[-6 * n :]
    blocks = [taken[i * n : (i + 1) * n] for i in range(6)]
    assert {tuple(sorted(c.id for c in benchmark.plan.cases))} == {tuple(sorted(b)) for b in blocks}
    assert blocks[1::2] == [block[::-1] for block in blocks[::2]]
    assert len({tuple(block) for block in blocks}) > 2  # each pair of blocks is shuffled anew


@pytest.mark.parametrize(("seed", "same"), [(1, True), (2, False)])
def test_the_seed_sets_the_order(seed, same):
    """The same seed, the same order."""
    orders = []
    for settings in (SETTINGS, replace(SETTINGS, seed=seed)):
        _, benchmark, runner, _ = dot(gpu(0), gpu(1), kind=Ordered, settings=settings)
        list(runner.run())
        orders.append(benchmark.queued)

    assert same == (orders[0] == orders[1])


def test_spans_count_from_the_start_of_the_run():
    """Whatever the clock shows."""
    quick = replace(SETTINGS, blocks=2)
    early, late = (rows_of(gpu(0), gpu(1), start=start, settings=quick) for start in (0.0, 1024.0))

    for before, after in zip(early, late, strict=True):
        for name, spans in before.samples.spans.items():
            assert [pytest.approx(s) for s in spans] == list(after.samples.spans[name])


def test_the_budget_ends_the_blocks():
    """At least one block is whole, and the reason is said."""
    slow = gpu(0, rate=2.0**10)
    rows = rows_of(slow, gpu(1), settings=replace(SETTINGS, budget=1.0))

    assert {"ok"} == {row.status for row in rows}
    assert {("budget", 1)} == {(row.stop.why, row.stop.n) for row in rows}
    assert all("warm-up-capped" in row.flags for row in rows)


def test_groups_share_the_budget():
    """What the first does not need is the next one's; each has its turn."""
    params = Params((64, 128), cases=("one",))
    slow = gpu(0, rate=2.0**24)
    rows = rows_of(slow, params=params, settings=replace(SETTINGS, budget=20.0, blocks=1000))

    assert {"budget"} == {row.stop.why for row in rows}
    spent = [sum(row.samples.seconds) for row in rows]
    assert all(4.0 < seconds < 10.0 for seconds in spent)


def test_who_watches_hears_everything():
    """The plan, each block, and the end of each group."""
    _, _, runner, observer = dot(gpu(0), params=Params((64,), cases=("one",)))

    list(runner.run())

    blocks = [("block", 1, (n + 1) / 6) for n in range(6)]
    assert [("planned", 1), *blocks, ("ended", 1)] == observer.heard


# --- what goes wrong


def test_wrong_data_is_a_row_without_figures():
    """The product is not timed at all; other devices are."""
    rows = rows_of(gpu(0), gpu(1, fault="wrong-product"))

    status = {row.case.name + row.case.names[-1]: row.status for row in rows}
    assert status == {
        "soloa": "ok", "solob": "failed", "onea": "ok", "manyb": "failed",
        "one+fetcha": "ok", "many+fetchb": "failed", "many+fetch+threadsb": "failed",
    }  # fmt: skip
    for row in rows:
        if row.status == "failed":
            assert (row.metrics, row.samples, row.stop, row.flags) == ({}, None, None, ())
            assert row.reason.code == "wrong-data"
            assert f"error {row.check.max_error:.3g} is above the bound" in row.reason.text
            assert not row.check.passed


def test_a_device_that_goes_wrong_while_it_is_measured():
    """What the last samples left is checked too: its raw times are kept, without any figure."""
    params = Params((64,), cases=("one",))
    (row,) = rows_of(gpu(0, fault="wrong-product", fault_after=60), params=params)

    assert (row.status, row.reason.code, row.metrics) == ("failed", "wrong-data", {})
    assert len(row.samples.seconds) == 6


def test_a_wrong_byte_is_named():
    """The first of them, of how many."""
    here = world(gpu(0, fault="flip"))
    params = TransferParams((Size(400),), ("d2h",))
    benchmark = Transfer(here.bindings, here.sessions, params)

    rows = list(Runner(benchmark, here.clock, SETTINGS, Silent()).run())

    expected = Reason("wrong-data", "byte 207 of 400 is wrong")
    assert [("failed", expected, {})] * 2 == [(r.status, r.reason, r.metrics) for r in rows]


LOST = Reason("device-lost", "cuda1 no longer answers")


@pytest.mark.parametrize("after", [0, 1, 20, 50, 100])
def test_a_lost_device_takes_only_its_own_rows(after):
    """Whenever it is lost, what runs without it is measured to the end."""
    rows = rows_of(gpu(0), gpu(1, fault="lost", fault_after=after))

    for row in rows:
        if "b" in row.case.names:
            assert (row.status, row.reason, row.metrics) == ("failed", LOST, {})
        else:
            assert (row.status, row.stop.n) == ("ok", 6)


def test_what_was_measured_before_a_loss_is_kept():
    """The sizes before it are whole, and the samples of its own size are not thrown away."""
    here, _, runner, _ = dot(gpu(0), params=Params((64,), cases=("one",)))
    list(runner.run())
    enough = here.sessions["a"].commands + 10
    params = Params((64, 128), cases=("one",))
    _, _, runner, _ = dot(gpu(0, fault="lost", fault_after=enough), params=params)

    first, second = runner.run()

    assert (first.status, first.stop.n) == ("ok", 6)
    assert (second.status, second.reason.code, second.metrics) == ("failed", "device-lost", {})


def test_samples_before_a_loss_within_a_size_are_kept():
    """They are raw, and there are no figures of them."""
    for after in range(8, 100):
        (row,) = rows_of(
            gpu(0, rate=2.0**20, fault="lost", fault_after=after),
            params=Params((64,), cases=("one",)),
        )
        if row.samples is not None and row.samples.seconds:
            break

    taken = row.samples
    assert (row.status, row.reason.code, row.metrics) == ("failed", "device-lost", {})
    assert taken.seconds == (0.5,) * len(taken.blocks)
    assert [len(taken.blocks)] == [len(spans) for spans in taken.spans.values()]


def test_no_memory_is_a_failed_row():
    """With the device's own words."""
    rows = rows_of(gpu(0), gpu(1, memory=1000))

    failed = [row for row in rows if row.status == "failed"]
    assert len(failed) == 4
    assert {"out-of-memory"} == {row.reason.code for row in failed}


# --- stopped


class StopError(BaseException):
    """As an interruption comes: from anywhere."""


@pytest.mark.parametrize("after", [0, 5, 20, 60, 200, 300])
def test_a_run_that_is_stopped_has_rows_all_the_same(after):
    """One for each case of the current group: what there is of it, else skipped with the reason."""
    _, benchmark, runner, _ = dot(gpu(0), gpu(1), kind=Ordered)

    class Stopping(list):
        def append(self, item):
            super().append(item)
            if len(self) > after:
                raise StopError

    benchmark.queued = Stopping()
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


def test_nothing_is_unfinished_before_and_after():
    """Rows that were yielded are not told twice."""
    _, _, runner, _ = dot(gpu(0))

    before = runner.unfinished("interrupted")
    list(runner.run())

    assert (before, runner.unfinished("interrupted")) == ([], [])


# --- flags


@pytest.mark.parametrize(
    ("scripts", "flagged"),
    [
        ((gpu(0), gpu(1)), set()),
        ((gpu(0), gpu(0)), {"many", "many+fetch", "many+fetch+threads"}),
        ((gpu(0, silicon=("x",)), gpu(1, silicon=("x",))),
         {"many", "many+fetch", "many+fetch+threads"}),
    ],
)  # fmt: skip
def test_shared_silicon_is_flagged(scripts, flagged):
    """On every row that runs on both."""
    rows = rows_of(*scripts)

    assert flagged == {row.case.name for row in rows if row.flags == ("shared-silicon",)}
    assert set(CASES) - flagged == {row.case.name for row in rows if not row.flags}


class Noisy(Ordered):
    """A device whose time swings by a half from call to call."""

    def round(self, case):
        """Let some more time pass at each call."""
        work = super().round(case)
        queue, clock = work.queue, self._clock

        def queue_and_swing():
            clock.sleep((len(self.queued) % 5) * 64**3 * 2 / RATE)
            queue()

        work.queue = queue_and_swing
        return work


def test_a_wide_interval_is_flagged():
    """Its row is unconverged; it stays ok, with the interval that shows it."""
    params = Params((64,), cases=("one",))
    tight, wide = (
        rows_of(gpu(0, rate=2.0**24), params=params, settings=replace(SETTINGS, blocks=40)),
        rows_of(gpu(0), params=params, kind=Noisy),
    )

    assert [(row.status, row.flags) for row in tight] == [("ok", ())]
    assert [(row.status, row.flags) for row in wide] == [("ok", ("unconverged",))]


def test_an_outlier_is_marked_and_kept():
    """Nothing is dropped."""

    class Hiccup(Noisy):
        def round(self, case):
            work = super().round(case)
            queue, clock = work.queue, self._clock

            def queue_and_hang():
                queue()
                if len(self.queued) == 30:
                    clock.sleep(1.0)

            work.queue = queue_and_hang
            return work

    settings = replace(SETTINGS, blocks=40)
    (row,) = rows_of(gpu(0, rate=2.0**24), params=Params((64,), cases=("one",)), kind=Hiccup,
                     settings=settings)  # fmt: skip

    (mark,) = row.samples.marks
    assert (len(row.samples.seconds), mark.mark) == (40, "outlier")
    assert max(row.samples.seconds) == row.samples.seconds[mark.sample]
