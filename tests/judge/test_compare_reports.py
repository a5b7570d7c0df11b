"""What changed between two reports: through anchors, by interval, and never a pass by default."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import GOOD, MACHINE, anchor, bound, device, noisy, report, row

from gpumap.bench import stopping
from gpumap.judge.comparable import broken, machines, mixed, surroundings
from gpumap.judge.compare import Comparison, compare, confirmed, figure, unjudged
from gpumap.judge.joined import ENOUGH, MARKED
from gpumap.judge.verdict import Change, change, located, word
from gpumap.model import Binding, Plan, Reason, SampleMark, Verdict
from gpumap.stats import Location

NO_FLOOR = "the threshold is 5%: no noise floor is stored here; `gpumap selftest` finds one"
OPPOSITE = {"regression": "improvement", "improvement": "regression"}
DISTANCES = st.floats(0.0, 2.0)
MIDDLES = st.floats(-2.0, 2.0)


def judged(base, new, threshold=0.05, floors=None):
    """Return each verdict's word by what it judges."""
    found = compare(base, new, threshold, floors or {})
    return {(v.id.partition("[")[0] if v.id else v.id, v.metric): v.verdict for v in found.verdicts}


def only(base, new, threshold=0.05, floors=None):
    """Return the one verdict."""
    (found,) = compare(base, new, threshold, floors or {}).verdicts
    return found


def one(factor=1.0, *, machine=1.0, blocks=40, noise=0.0, seed=1, **others):
    """Return a report of one row, so many times as long as usual, on a machine that is so slow."""
    rng = random.Random(seed)  # noqa: S311 - noise, not a secret
    felt = [machine * math.exp(rng.gauss(0.0, noise)) for _ in range(blocks)]
    return report(
        row("one", noisy(0.01 * factor, machine=felt, noise=noise / 2, seed=seed), **others),
        anchor(noisy(0.002, machine=felt, noise=noise / 2, seed=seed + 1)),
    )


# --- the interval of a difference of medians


def at(middle, below, above):
    """Return a median with its interval."""
    return Location(middle, middle - below, middle + above, 40, 0.0, 40.0, 40.0)


def test_the_distances_of_both_runs_are_squared_and_added():
    """Zou & Donner: the lower end takes base's upper one, the upper end its lower one."""
    found = change(at(1.0, 0.3, 0.4), at(3.0, 0.3, 1.2))

    assert (found.value, found.low, found.high) == pytest.approx(
        (2.0, 2.0 - math.hypot(0.3, 0.4), 2.0 + math.hypot(1.2, 0.3))
    )


@given(MIDDLES, DISTANCES, DISTANCES, MIDDLES, DISTANCES, DISTANCES)
def test_who_swaps_base_and_new_turns_the_change_round(m, below, above, n, under, over):
    """The same interval, mirrored at zero."""
    there = change(at(m, below, above), at(n, under, over))
    back = change(at(n, under, over), at(m, below, above))

    mirrored = -back
    assert (there.value, there.low, there.high) == pytest.approx(
        (mirrored.value, mirrored.low, mirrored.high), abs=1e-12
    )


@given(MIDDLES, DISTANCES, DISTANCES, MIDDLES)
def test_a_base_that_is_known_exactly_adds_nothing(m, below, above, n):
    """Then the interval is that of new alone; and it never shrinks."""
    found = change(at(n, 0.0, 0.0), at(m, below, above))
    wider = change(at(n, 0.1, 0.1), at(m, below, above))

    assert (found.low, found.high) == pytest.approx((m - below - n, m + above - n), abs=1e-12)
    assert wider.low <= found.low
    assert found.high <= wider.high


@given(MIDDLES, DISTANCES, DISTANCES, MIDDLES, DISTANCES, DISTANCES)
def test_it_is_narrower_than_both_intervals_end_to_end(m, below, above, n, under, over):
    """Both runs are not at their worst together; and it holds the figure."""
    found = change(at(m, below, above), at(n, under, over))

    slack = 1e-12
    assert n - under - (m + above) - slack <= found.low <= found.value
    assert found.value <= found.high <= n + over - (m - below) + slack


def test_it_holds_the_truth_as_often_as_it_says():
    """Of 400 pairs of runs with 40 blocks of normal noise, at 95 %: at least 92 % (p < 1 %)."""
    rng = random.Random(1)  # noqa: S311 - noise, not a secret
    held = []
    for _ in range(400):
        base, new = (
            located([middle * math.exp(rng.gauss(0.0, 0.02)) for _ in range(40)])
            for middle in (1.0, 1.1)
        )
        if base and new:  # else the noise happens to look like a few long waves
            found = change(base, new)
            held.append(found.low <= math.log(1.1) <= found.high)

    assert len(held) > 390
    assert sum(held) / len(held) >= 0.92


# --- words


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.0, "same"), (1.04, "same"), (1.06, "regression"), (1 / 1.06, "improvement")],
)
def test_a_time_without_noise(factor, expected):
    """Against 5 %, both ways."""
    assert only(one(), one(factor)).verdict == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "same"), (1.1, "regression")])
def test_a_time_with_noise(factor, expected):
    """2 % of noise, other on each run."""
    assert only(one(noise=0.02), one(factor, noise=0.02, seed=5)).verdict == expected


def test_what_noise_hides_is_inconclusive():
    """5 % more work at a threshold of 5 %: the interval holds it."""
    found = only(one(noise=0.05), one(1.05, noise=0.05, seed=5))

    assert found.verdict == "inconclusive"
    assert found.low < 1.05 < found.high


def test_a_verdict_says_all_of_it():
    """New over base through the anchor with its interval, the time of base, and the threshold."""
    found = only(one(), one(1.1))

    id_ = "dot.one[backend=numpy,names=a0,size=64]"
    assert found == Verdict(
        "base", f"{id_}.time is within 5% of base", id_, "time", "regression",
        value=pytest.approx(1.1), low=pytest.approx(1.1), high=pytest.approx(1.1),
        base=0.01, threshold=0.05,
    )  # fmt: skip


@given(st.floats(0.5, 2.0), st.floats(0.5, 2.0), st.integers(1, 20))
def test_base_and_new_the_other_way_round(factor, machine, seed):
    """A regression becomes an improvement; what cannot be told cannot be told."""
    a, b = one(noise=0.01), one(factor, machine=machine, noise=0.01, seed=seed)
    there, back = only(a, b), only(b, a)
    near = {word(math.log(there.low), math.log(there.high), 0.05 * (1 + e)) for e in (-1e-9, 1e-9)}

    assert back.verdict == OPPOSITE.get(there.verdict, there.verdict) or len(near) > 1


def test_a_row_is_the_same_as_itself():
    """Whatever its noise."""
    assert only(one(noise=0.02), one(noise=0.02)).verdict == "same"


# --- anchors


@pytest.mark.parametrize("machine", [0.7, 1.0, 1.3])
def test_more_work_is_told_from_a_slow_machine(machine):
    """The row feels what its anchor feels: only what is beyond that is its own."""
    found = only(one(noise=0.01), one(1.1, machine=machine, noise=0.01, seed=5))

    assert found.value == pytest.approx(1.1, rel=0.02)
    assert found.verdict == ("inconclusive" if machine == 0.7 else "regression")


@pytest.mark.parametrize(
    ("machine", "factor", "raw"),
    [(1.3, 1.0, "1.30 of base, regression"), (0.7, 1.0, "0.70 of base, improvement"),
     (1.3, 0.9, "1.17 of base, regression"), (0.7, 1.1, "0.77 of base, improvement")],
)  # fmt: skip
def test_a_machine_that_changed_passes_nothing(machine, factor, raw):
    """The raw times changed, and the anchored ones did not, or did the other way."""
    found = only(one(), one(factor, machine=machine))

    assert found.verdict == "inconclusive"
    assert f"the machine changed: not through its anchor it is {raw}" in found.text


def test_what_cannot_be_told_of_raw_times_leaves_the_verdict():
    """Their noise is the machine's, which the anchor takes away."""
    felt = [1.0 + 0.3 * (n % 2) for n in range(40)]
    base, new = (
        report(row("one", noisy(t, machine=felt)), anchor(noisy(0.002, machine=felt)))
        for t in (0.01, 0.011)
    )

    assert only(base, new).verdict == "regression"


def test_every_group_has_its_own_anchor():
    """An anchor stands behind the rows that it was measured beside: they share its blocks."""
    slow, fast = (noisy(t) for t in (0.004, 0.002))
    two = [replace(row("one", noisy(0.01)), samples=row("one", noisy(0.01)).samples)]
    other = row("one", noisy(0.01), size=128)
    base = report(*two, anchor(fast), other, anchor(fast))
    new = report(*two, anchor(fast), other, anchor(slow))

    words = [v.verdict for v in compare(base, new, 0.05, {}).verdicts]
    assert words == ["same", "improvement"]


def test_the_anchor_of_the_first_device_counts():
    """A case on several devices is judged through the first one's."""
    times = noisy(0.01)
    base = report(
        row("many", times, names=("a0", "b1")),
        anchor(noisy(0.002), ("a0",)),
        anchor(noisy(0.002), ("b1",)),
    )
    new = report(
        row("many", times, names=("a0", "b1")),
        anchor(noisy(0.002), ("a0",)),
        anchor(noisy(0.004), ("b1",)),
    )

    assert only(base, new).verdict == "same"


def test_an_anchor_stands_for_every_name_of_its_device():
    """Two names on one device have one anchor, under the first of them."""
    felt = [1.5] * 40
    rows = [
        [row("solo", noisy(0.01, machine=m), names=("z0",)), anchor(noisy(0.002, machine=m))]
        for m in (None, felt)
    ]

    assert "the machine changed" in only(report(*rows[0]), report(*rows[1])).text


@pytest.mark.parametrize("side", ["base", "new", "both"])
def test_without_an_anchor_raw_times_are_compared(side):
    """And that is said: a machine that changed looks like another program."""
    base, new = one(), one(machine=1.3)
    bare = [report(*(r for r in each.measurements if r.case.bench != "anchor"))
            for each in (base, new)]  # fmt: skip
    base = base if side == "new" else bare[0]
    new = new if side == "base" else bare[1]

    found = compare(base, new, 0.05, {})
    assert [v.verdict for v in found.verdicts] == ["regression"]
    assert "1 row has no anchor in both reports: raw times are compared" in found.remarks


def test_an_anchor_that_failed_is_none():
    """Its samples are of a device that had gone wrong."""
    failed = replace(anchor(noisy(0.002)), status="failed", reason=Reason("wrong-data", "x"))
    base = report(row("one", noisy(0.01)), failed)

    assert "1 row has no anchor" in compare(base, one(), 0.05, {}).remarks[-1]


# --- speed-ups


def pair(gain, *, machine=1.0, against="one"):
    """Return a report of a reference and what is so many times as fast."""
    reference = row(against, noisy(0.02 * machine))
    many = row(
        "many",
        noisy(0.02 * machine / gain),
        names=("a0", "b1"),
        against=reference.case.id,
        speedup=gain,
    )
    return report(reference, many, anchor(noisy(0.002 * machine)))


def test_a_speed_up_is_judged_beside_its_time():
    """Of a speed-up less is worse."""
    assert judged(pair(1.9), pair(1.5)) == {
        ("dot.one", "time"): "same",
        ("dot.many", "time"): "regression",
        ("dot.many", "speedup"): "regression",
    }
    assert judged(pair(1.5), pair(1.9))["dot.many", "speedup"] == "improvement"


def test_a_speed_up_needs_no_anchor():
    """It is a ratio inside each block: a machine that changed does not touch it."""
    found = compare(pair(1.9), pair(1.9, machine=1.5), 0.05, {}).verdicts

    (gain,) = (v for v in found if v.metric == "speedup")
    assert (gain.verdict, gain.value, gain.base) == ("same", pytest.approx(1.0), 1.9)


def test_a_speed_up_over_another_reference_is_another_figure():
    """Then nothing is told of it."""
    reference = row("one", noisy(0.01))
    base, new = pair(1.9), pair(1.9)
    other = replace(new.measurements[1], case=replace(new.measurements[1].case,
                                                      against=reference.case.id + "x"))  # fmt: skip
    new = replace(new, measurements=(new.measurements[0], other, new.measurements[2]))

    (gain,) = (v for v in compare(base, new, 0.05, {}).verdicts if v.metric == "speedup")
    assert gain.verdict == "inconclusive"


def test_copies_both_ways_are_held_against_both_ways_alone():
    """As the report's own figure is: what each takes, one after the other."""

    def copies(back, both):
        alone = {"bench": "transfer", "pattern": "alone"}
        first = row("h2d", noisy(0.01), **alone)
        other = row("d2h", noisy(back), **alone)
        ways = row("bidir", noisy(both), bench="transfer", pattern="both", against=first.case.id,
                   speedup=(0.01 + back) / both)  # fmt: skip
        return report(first, other, ways, anchor(noisy(0.002)))

    found = compare(copies(0.01, 0.01), copies(0.02, 0.012), 0.05, {}).verdicts
    (gain,) = (v for v in found if v.metric == "speedup")
    assert gain.value == pytest.approx((0.03 / 0.012) / (0.02 / 0.01))


# --- what is never a pass


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("side", ["base", "new"])
def test_fewer_than_six_blocks_tell_nothing(blocks, side):
    """Neither that it is the same nor that it is not."""
    few, whole = one(1.5, blocks=blocks), one()

    found = only(*((few, whole) if side == "base" else (whole, few)))
    assert (found.verdict, found.value) == ("inconclusive", None)
    noun = "block" if blocks == 1 else "blocks"
    counts = f"{blocks} {noun} of base and 40" if side == "base" else f"base and {blocks} of new"
    assert counts in found.text


def test_blocks_that_row_and_anchor_do_not_share_tell_nothing():
    """A ratio is of one block."""
    base = one()
    first, second = base.measurements
    shifted = replace(first.samples, blocks=tuple(range(100, 140)))
    new = replace(base, measurements=(replace(first, samples=shifted), second))

    assert only(base, new).verdict == "inconclusive"


@pytest.mark.parametrize("odd", [0.0, math.nan, math.inf, -1.0])
def test_a_sample_that_is_no_time_tells_nothing(odd):
    """One is enough."""
    base = one()
    first, second = base.measurements
    times = (odd, *first.samples.seconds[1:])
    new = replace(
        base, measurements=(replace(first, samples=replace(first.samples, seconds=times)), second)
    )

    assert only(base, new).verdict == "inconclusive"
    assert only(new, base).verdict == "inconclusive"


def flagged(report_, *, odd=0):
    """Return a report whose row is unstable, so many of its samples marked."""
    first, *others = report_.measurements
    marks = tuple(SampleMark(n, "throttled", "heat") for n in range(odd))
    samples = replace(first.samples, marks=marks)
    first = replace(first, flags=("unstable",), samples=samples)
    return replace(report_, measurements=(first, *others))


def two_heaps(report_):
    """Return a report whose row takes a tenth longer in every other block."""
    first, *others = report_.measurements
    times = tuple(t * (1 + 0.1 * (n % 2)) for n, t in enumerate(first.samples.seconds))
    first = replace(first, samples=replace(first.samples, seconds=times))
    return replace(report_, measurements=(first, *others))


@pytest.mark.parametrize("side", ["base", "new"])
@pytest.mark.parametrize("cause", ["few", "marked", "two heaps"])
@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.0, "inconclusive"), (0.8, "inconclusive"), (1.4, "regression")],
)
def test_unstable_is_no_pass(side, cause, factor, expected):
    """It is no alarm either, and takes none back."""
    blocks = 19 if cause == "few" else 41
    reports = {"base": one(blocks=blocks), "new": one(factor, blocks=blocks)}
    if cause == "two heaps":
        reports[side] = two_heaps(reports[side])
    reports[side] = flagged(reports[side], odd=5 if cause == "marked" else 0)

    found = only(reports["base"], reports["new"], 0.12)
    assert found.verdict == expected
    assert (f"unstable in {side}" in found.text) == (expected == "inconclusive")


def test_what_the_anchor_takes_away_is_not_unstable():
    """The flag is of the raw times: a slow change of the machine raises it, and no ratio has it."""
    felt = [1.0 + n / 40 for n in range(40)]
    base = report(row("one", noisy(0.01, machine=felt)), anchor(noisy(0.002, machine=felt)))
    raw = report(base.measurements[0])

    assert only(flagged(base), flagged(base)).verdict == "same"
    assert only(flagged(raw), flagged(raw)).verdict == "inconclusive"


def test_the_causes_of_the_flag_are_those_of_the_runner():
    """Two modules that may not know each other have one rule."""
    assert (ENOUGH, MARKED) == (stopping.ENOUGH, stopping.MARKED)


def sampled(report_, which, rounds):
    """Return a report with so many rounds in each sample of a row."""
    rows = list(report_.measurements)
    samples = replace(rows[which].samples, rounds_per_sample=rounds)
    rows[which] = replace(rows[which], samples=samples)
    return replace(report_, measurements=tuple(rows))


@pytest.mark.parametrize(("which", "what"), [(0, "the row"), (1, "its anchor")])
@pytest.mark.parametrize(
    ("rounds", "factor", "expected"),
    [
        ((1, 1), 1.0, "same"),
        ((1, 2), 1.0, "inconclusive"),
        ((3, 1), 1.0, "inconclusive"),
        ((6, 1), 1.2, "inconclusive"),
        ((6, 1), 1.6, "regression"),  # that much no first round makes of it
        ((3, 20), 1.0, "same"),  # what comes before the first is not in either
    ],
)
def test_samples_of_other_lengths_are_of_another_thing(which, what, rounds, factor, expected):
    """A single round is slower: nothing that does not count comes before it."""
    base, new = (sampled(one(f), which, n) for f, n in zip((1.0, factor), rounds, strict=True))

    found = only(base, new)
    said = f"{what} was sampled otherwise: {rounds[0]} and {rounds[1]} rounds at a time"
    assert (found.verdict, said in found.text) == (expected, expected == "inconclusive")


def test_samples_of_one_length_hold_fewer_rounds_of_what_is_slower():
    """A row that takes a third longer is measured in fewer rounds: that is no other way."""
    slower = sampled(one(1.49), 0, 1)

    assert only(sampled(one(), 0, 2), slower).verdict == "regression"
    assert only(sampled(one(), 0, 3), slower).verdict == "inconclusive"


def test_the_samples_of_a_reference_matter_too():
    """A speed-up is made of both."""
    words = [v.verdict for v in compare(pair(1.9), sampled(pair(1.9), 0, 3), 0.05, {}).verdicts]

    assert words == ["inconclusive", "same", "inconclusive"]


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (None, "it is not verified in both reports"),
        (replace(GOOD, passed=False), "it is not verified in both reports"),
        (replace(GOOD, method="bytes"), "it was verified in another way"),
    ],
)
def test_what_is_not_verified_alike_is_no_pass(check, why):
    """Fast and wrong is not fast."""
    found = only(one(), one(check=check))

    assert (found.verdict, why in found.text) == ("inconclusive", True)


def test_a_row_that_only_base_has_is_missing_and_one_that_only_new_has_is_new():
    """Both are told apart from what was judged."""
    base = report(row("one", noisy(0.01)), row("solo", noisy(0.01)))
    new = report(row("one", noisy(0.01)), row("many", noisy(0.01)))

    assert judged(base, new) == {
        ("dot.one", "time"): "same",
        ("dot.solo", "time"): "missing",
        ("dot.many", "time"): "new",
    }


@pytest.mark.parametrize("status", ["skipped", "failed"])
def test_a_row_that_was_not_measured_is_not_there(status):
    """Its reason is told; what neither report measured is nobody's loss."""
    bad = replace(
        row("one", noisy(0.01)), status=status, reason=Reason("device-lost", "gone\x1b[m")
    )

    lost, come = only(report(row("one", noisy(0.01))), report(bad)), only(report(bad), one())
    assert (lost.verdict, come.verdict) == ("missing", "new")
    assert f"its row is {status}: gone\\x1b[m" in lost.text
    assert compare(report(bad), report(bad), 0.05, {}) == Comparison((), ())


def test_a_figure_that_one_report_lacks_is_missing():
    """A speed-up that is no longer there is not the same as before."""
    base = pair(1.9)
    many = base.measurements[1]
    bare = replace(many, metrics={"time": many.metrics["time"]})
    new = replace(base, measurements=(base.measurements[0], bare, base.measurements[2]))

    assert judged(base, new)["dot.many", "speedup"] == "missing"
    assert judged(new, base)["dot.many", "speedup"] == "new"


def test_the_ladder_behind_a_model_is_judged_alone_only():
    """How much of it is measured depends on the time that is left."""
    asked, ladder = (row("h2d", noisy(0.01), bench="transfer", pattern=p)
                     for p in ("alone", "ladder"))  # fmt: skip
    both, alone = report(asked, ladder), report(ladder)

    found = compare(both, both, 0.05, {})
    assert [v.id for v in found.verdicts] == [asked.case.id]
    assert "1 row has been measured for the model alone, and not judged" in found.remarks
    assert [v.id for v in compare(alone, alone, 0.05, {}).verdicts] == [ladder.case.id]


def test_a_row_of_the_model_alone_is_there():
    """It was measured, and not for itself: that there is no such row would not be true."""
    asked, ladder = (row("h2d", noisy(0.01), bench="transfer", pattern=p)
                     for p in ("alone", "ladder"))  # fmt: skip

    found = compare(report(ladder), report(asked, ladder), 0.05, {}).verdicts

    assert [(v.verdict, v.text.partition(": ")[2]) for v in found] == [
        ("missing", "it was measured for the model alone"),
        ("new", "there is no such row"),
    ]


def test_spacing_is_judged_like_a_time():
    """What a queued copy costs."""
    base, new = (
        report(row("h2d", noisy(t), bench="transfer", metric="spacing"), anchor(noisy(0.002)))
        for t in (0.01, 0.02)
    )

    assert judged(base, new) == {("transfer.h2d", "spacing"): "regression"}


# --- thresholds and levels


def test_a_threshold_is_never_below_the_noise_floor_of_its_devices():
    """The largest of several; and where none is known, that is said."""
    base, new = (
        report(row("many", noisy(t), names=("a0", "b1")), anchor(noisy(0.002)))
        for t in (0.01, 0.0104)
    )

    high = compare(base, new, 0.01, {"cpu:0": 0.02, "cpu:1": 0.05})
    assert [(v.threshold, v.verdict) for v in high.verdicts] == [(0.05, "same")]
    assert high.remarks == ("the threshold is 5%, this machine's noise floor, not 1%",)
    assert only(base, new, 0.01, {"cpu:2": 0.05}).verdict == "regression"
    assert compare(base, new, 0.05, {}).remarks == (NO_FLOOR,)


def test_many_figures_need_wider_intervals():
    """Of 1,000 the level of each is 99.995 %."""
    times = [noisy(0.01, blocks=60, noise=0.01, seed=n) for n in range(2)]
    few = report(row("one", times[0]))
    many = report(*(row("one", times[0], size=n) for n in range(1000)))
    other = report(*(row("one", times[1], size=n) for n in range(1000)))

    alone = only(few, report(row("one", times[1])))
    among = compare(many, other, 0.05, {}).verdicts[64]
    assert among.low < alone.low < alone.high < among.high


def test_so_many_figures_that_the_blocks_cannot_tell():
    """Six blocks give an interval of 95 % at most: of two figures none can be judged."""
    rows = [row("one", noisy(0.01, blocks=6), size=n) for n in range(2)]

    words = {v.verdict for v in compare(report(*rows), report(*rows), 0.05, {}).verdicts}
    assert words == {"inconclusive"}
    assert only(report(rows[0]), report(rows[0])).verdict == "same"


def test_false_alarms_over_the_whole_family():
    """20 rows of nothing but noise, at 0 %: at most 10 of 100 pairs of runs raise any alarm."""
    alarms = 0
    for n in range(100):
        base, new = (
            report(*(row("one", noisy(0.01, 40, 0.02, 50 * (2 * n + side) + k), size=k)
                     for k in range(20)))
            for side in (0, 1)
        )  # fmt: skip
        words = [v.verdict for v in compare(base, new, 1e-9, {}).verdicts]
        alarms += bool({"regression", "improvement"} & set(words))

    assert alarms <= 10


# --- confirming


def found(word_, value=1.1, id_="dot.one[]", text="x is within 5% of base"):
    """Return a verdict."""
    return Verdict("base", text, id_, "time", word_, value, value, value, base=1.0, threshold=0.05)


@pytest.mark.parametrize("first", ["regression", "inconclusive"])
@pytest.mark.parametrize("again", ["regression", "improvement", "same", "inconclusive"])
def test_what_is_suspicious_is_judged_by_fresh_data_alone(first, again):
    """The first figure stays visible; confirmed is what comes out the same."""
    (got,) = confirmed([found(first)], [found(again, 1.0)])

    assert (got.verdict, got.value, got.confirmed) == (again, 1.0, first == again)
    assert f"at first it was 1.10 [1.10, 1.10], {first}" in got.text


@pytest.mark.parametrize("first", ["improvement", "same", "missing", "new"])
def test_what_is_not_suspicious_stays(first):
    """Measuring the rest again until something is found would find something."""
    before = found(first)

    assert confirmed([before], [found("regression")]) == (before,)


@pytest.mark.parametrize("fresh", [None, [], [found("missing")], [found("same", id_="other[]")]])
def test_what_could_not_be_measured_again_is_no_pass(fresh):
    """It stays what it was."""
    (got,) = confirmed([found("regression")], fresh)

    assert (got.verdict, got.value, got.confirmed) == ("regression", 1.1, False)
    assert got.text.endswith("it could not be measured once more")


def test_without_a_verdict():
    """Two machines: the ratios stay, and neither word nor threshold nor what they claim."""
    (got, lost) = unjudged([found("regression"), found("missing", text="is not in new")])

    assert (got.verdict, got.value, got.threshold) == ("skipped", 1.1, None)
    assert "within" not in got.text
    assert (lost.verdict, lost.text) == ("skipped", "is not in new")


def test_a_figure_in_words():
    """With its interval, or none."""
    assert figure(found("same", 1.125)) == "1.12 [1.12, 1.12]"
    assert figure(replace(found("same"), low=None)) == "not known"


def test_a_change_too_large_for_a_number_is_infinite_enough():
    """It is a regression all the same."""
    base, new = report(row("one", [1e-300] * 20)), report(row("one", [1e300] * 20))

    assert only(base, new).verdict == "regression"
    assert Change(0.0, 0.0, 0.0) == -Change(-0.0, -0.0, -0.0)


# --- can they be compared


def test_a_whole_report_can_be_compared():
    """Also one whose answer was no."""
    assert broken(one()) is None
    assert broken(replace(one(), status="no")) is None
    assert broken(replace(one(), status="inconclusive")) is None


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"status": "wrong-data"}, "its status is wrong-data"),
        ({"status": "internal"}, "its status is internal"),
        ({"status": "timeout"}, "its status is timeout"),
        ({"status": "interrupted"}, "its status is interrupted"),
        ({"status": "absent"}, "its status is absent"),
        ({"status": "error"}, "its status is error"),
        ({"status": "skipped"}, "its status is skipped"),
        ({"status": "\x1b[31m"}, "its status is \\x1b[31m"),
        ({"plans": (Plan(()),)}, "it is a dry run, which measures nothing"),
        ({"measurements": ()}, "nothing is measured in it: it is of `bench`"),
        ({"fingerprint": None}, "it does not say which machine it is of"),
    ],
)
def test_a_broken_report_cannot(others, why):
    """And it is said why."""
    assert why in broken(replace(one(), **others))


def test_a_script_is_not_held_against_hardware():
    """Either way."""
    fake = replace(one(), simulated=True)

    assert mixed(fake, fake) is mixed(one(), one()) is None
    assert mixed(fake, one()) == mixed(one(), fake) == "one is simulated and the other is real"


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"cpu": "B\x1b"}, "processor: A processor in base, B\\x1b in new"),
        ({"cores": 4}, "cores: 2 in base, 4 in new"),
        ({"libraries": {"openblas": "0.3"}}, "numpy: 2.0 in base, nothing in new"),
        ({"libraries": {"numpy": "2.1"}}, "numpy: 2.0 in base, 2.1 in new"),
        ({"devices": ("cpu:0", "cpu:1")}, "devices: cpu:0 in base, cpu:0 cpu:1 in new"),
        ({"drivers": {"cpu:0": "1"}}, "driver of cpu:0: nothing in base, 1 in new"),
        ({"links": ("nvlink",)}, "links: nothing in base, nvlink in new"),
    ],
)
def test_another_machine_is_told_by_what_differs(others, said):
    """The hash alone is not believed: a file may have been edited."""
    for hash_ in (MACHINE.hash, "sha256:" + "1" * 64):
        other = replace(MACHINE, hash=hash_, **others)
        assert said in machines(one(), replace(one(), fingerprint=other))


def test_another_hash_alone_is_another_machine_too():
    """Something was edited."""
    other = replace(one(), fingerprint=replace(MACHINE, hash="sha256:" + "1" * 64))

    assert machines(one(), other) == (
        "the hash of the fingerprint, and nothing that it stands for",
    )
    assert machines(one(), one()) == ()


def test_a_name_that_is_another_device_now_is_another_machine():
    """Its rows would be joined by the name, and be of two devices."""
    base = one()
    moved = [
        replace(r, case=replace(r.case, bindings=(Binding("a0", device(1)),)))
        for r in base.measurements
    ]

    assert machines(base, replace(base, measurements=tuple(moved))) == (
        "a0 (numpy): cpu:0 in base, cpu:1 in new",
    )
    assert bound("a0")[0].device == device(0)


def test_variables_that_differ_are_told():
    """They steer placement or speed; unset on both sides is the same."""
    base = replace(one(), environment={"OMP_NUM_THREADS": "1", "POCL_DEVICES": None})
    new = replace(one(), environment={"OMP_NUM_THREADS": None})

    assert surroundings(base, new) == ("OMP_NUM_THREADS: 1 in base, nothing in new",)
    assert surroundings(base, base) == ()
