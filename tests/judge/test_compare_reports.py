"""What became slower between two reports: raw, relative to the control, and never a veto."""

import math
import random
from statistics import median

import pytest
from reports import GOOD, MACHINE, control_row, noisy, report, row
from tables import table

from gpumap.engine.stopping import LAST
from gpumap.engine.undisturbed import undisturbed
from gpumap.judge.comparability import broken, machines, surroundings
from gpumap.judge.compare import Terms, agreed, compare, early
from gpumap.judge.pairs import joined
from gpumap.model import Around, Estimate, Plan, Reason, Samples, replace

TABLE = table(__file__)


def only(base, new):
    (found,) = compare(base, new, 0.05)
    return found


def said(base, new):
    found = only(base, new)
    return found.verdict, found.reason


CHECKS = {"good": GOOD, "none": None, "failed": replace(GOOD, passed=False),
          "other": replace(GOOD, method="bytes")}  # fmt: skip


def one(factor=1.0, *, machine=1.0, blocks=40, check="good"):
    first = row("one", [0.01 * factor * machine] * blocks, check=CHECKS[check])
    return report(first, control_row([0.002 * machine] * blocks))


def wandering(slower, machine=1.0):
    """Return a run whose machine is now fast, now slow, for some blocks each."""
    felt = [machine * (1.0 + 0.3 * (n // 5 % 2)) for n in range(40)]
    times, control = (noisy(seconds, machine=felt) for seconds in (0.01 * slower, 0.002))
    return report(row("one", times), control_row(control))


def odd(sample):
    first, control = one().measurements
    times = (sample, *first.samples.seconds[1:])
    return report(replace(first, samples=replace(first.samples, seconds=times)), control)


def of_two(seconds):
    many, first = row("many", noisy(0.01), names=("a0", "b1")), control_row(noisy(0.002), ("a0",))
    return report(many, first, control_row(noisy(seconds), ("b1",)))


def of_both(slower, both=None):
    """Return a run of two devices, their controls alone, and `both`, that on the two at once."""
    alone = [control_row(noisy(0.002), (name,)) for name in ("a0", "b1")]
    last = [] if both is None else [control_row(noisy(both, seed=3), ("a0", "b1"))]
    return report(row("many", noisy(0.01 * slower), names=("a0", "b1")), *alone, *last)


def left_out():
    first, control = one().measurements
    gone = {"status": "skipped", "samples": None, "check": None, "metrics": {}}
    return report(replace(first, reason=Reason("budget", ""), **gone), control)


def renamed(slower):
    return report(
        row("solo", noisy(0.01 * slower), names=("z0",)), control_row(noisy(0.002 * slower))
    )


def alone(seconds):
    return report(row("one", [seconds] * 20))


MADE = {"one": one, "wandering": wandering, "odd": odd, "of two": of_two, "of both": of_both,
        "left out": left_out, "renamed": renamed, "alone": alone}  # fmt: skip


def made(name, keys=None):
    """Return a report of the name of its function above, and what that is given."""
    return MADE[name](**(keys or {}))


@pytest.mark.parametrize(("base", "new", "verdict", "why"), TABLE["judged"])
def test_the_work_and_the_device_are_judged(base, new, verdict, why):
    """Slower relative to its control: the work. Slower with its control: the device."""
    sides = made(*base), made(*new)
    assert said(*sides) == (verdict, why)
    assert (verdict, why) != ("inconclusive", "few-samples") or only(*sides).value is None


def test_too_few_blocks_for_so_many_metrics_are_called_that():
    """Six are no alarm among many metrics, however much slower all of them are."""
    names = ("a", "b", "c", "d")  # cases that no headline claims: all are judged
    base, new = (report(*(row(name, noisy(seconds, blocks=6, noise=0.002)) for name in names))
                 for seconds in (0.01, 0.03))  # fmt: skip
    found = compare(base, new, 0.05)
    assert {(v.verdict, v.reason) for v in found} == {("inconclusive", "few-samples")}
    assert all(v.low > 2.9 for v in found)


def test_a_time_is_relative_to_the_control_just_before_it():
    """The machine was slower while the row was measured, and its control of the block was not."""
    base, new = (row("one", noisy(0.01 * machine, noise=0.002)) for machine in (1.0, 1.3))
    pairs = ((base, 0.002), (new, 0.0026))
    near = [
        replace(each, samples=replace(each.samples, control=(seconds,) * 40))
        for each, seconds in pairs
    ]
    for rows, why in (((base, new), "work-slower"), (near, "device-slower")):
        reports = (report(each, control_row(noisy(0.002, noise=0.002))) for each in rows)
        assert said(*reports) == ("regression", why)


def beside(slower, lost, many=None):
    """Return a run whose threads were preempted in most blocks, for a time of its own in each.

    With `many`, a second row on the same device has that speed-up, preempted in other blocks.
    """
    rows = []
    for n, (name, seconds) in enumerate((("one", 0.01 * slower), ("many", 0.01 / (many or 1.0)))):
        ran = tuple(noisy(seconds, blocks=40, noise=0.01, seed=2 + n))
        took = tuple(s + 0.004 * (i % 5 != (lost + n) % 5) for i, s in enumerate(ran))
        spans = tuple((float(i), i + s) for i, s in enumerate(took))
        samples = Samples(
            took, tuple(range(40)), queue=(0.0,) * 40, cpu=ran, worked={"a0": ran},
            intervals={"a0": spans}, control=(0.002,) * 40,
        )  # fmt: skip
        against = rows[0].case.id if rows else None
        first = row(name, undisturbed(samples).seconds, against=against, speedup=many)
        metrics = first.metrics | {"undisturbed": Estimate.exact(0.2)}
        rows.append(replace(first, samples=samples, metrics=metrics))
    return report(*rows[: 2 if many else 1], control_row((0.002,) * 40))


def test_disturbed_samples_count_relative_to_the_control():
    """By CPU times: of a machine that others keep busy few samples are left, too few for a pass."""
    wide = beside(1.0, 0), beside(1.0, 1)
    (pair,) = joined(*wide)[0]
    assert len(pair.base.series("time")) == 8
    assert pair.change(0.05, relative=True).value == 0.0  # the same CPU times, all 40 of them
    assert only(*wide).verdict == "pass"
    assert said(beside(1.0, 0), beside(1.1, 1)) == ("regression", "work-slower")
    # CPU times count only where both runs have them
    (pair,) = joined(beside(1.0, 0), one())[0]
    old, new = ([math.log(seconds / 0.002) for seconds in side.series("time").values()]
                for side in (pair.base, pair.new))  # fmt: skip
    assert (len(old), len(new)) == (8, 40)
    changed_by = pair.change(0.05, relative=True)
    assert changed_by.value == pytest.approx(median(new) - median(old), abs=1e-9)


@pytest.mark.parametrize(("now", "expected"), [
    (2.0, "pass"), (1.97, "pass"), (1.7, "regression"), (2.4, "improvement"),
])  # fmt: skip
def test_a_speedup_whose_rows_were_never_undisturbed_together_is_judged_by_cpu_times(now, expected):
    """Of all blocks, in both runs: that is neither few samples nor a way around an alarm."""
    found = {v.metric: v for v in compare(beside(1.0, 0, 2.0), beside(1.0, 1, now), 0.05)}
    assert found["speedup"].verdict == expected
    assert found["speedup"].value == pytest.approx(now / 2.0, rel=0.01)


@pytest.mark.parametrize(("machine", "shared", "verdict", "why"), TABLE["shared"])
def test_a_device_that_was_shared_may_look_slower(machine, shared, verdict, why):
    """Its speed is not known then; where it is surely slower, that stays an alarm."""
    base, new = wandering(1.0), wandering(1.0, machine=machine)
    first, control = new.measurements
    metrics = first.metrics | {"undisturbed": Estimate.exact(shared)}
    disturbed = replace(first, metrics=metrics, around=Around(foreign=1.8, cores=2))
    assert said(base, replace(new, measurements=(disturbed, control))) == (verdict, why)


def crowded(factor, cpu, foreign):
    """Return a run of iterations too short to tell when threads ran, beside busy processes."""
    first, *others = beside(1.0, 0, 2.0 / factor).measurements
    rows = []
    for each, spent in ((first, 0.01), (others[0], 0.005 * cpu)):
        metrics = {name: figure for name, figure in each.metrics.items() if name != "undisturbed"}
        samples = replace(each.samples, cpu=tuple(noisy(spent, noise=0.01)), worked={})
        around = Around(foreign=foreign, cores=2)
        rows.append(replace(each, metrics=metrics, samples=samples, around=around))
    return report(*rows, *others[1:])


@pytest.mark.parametrize(("cpu", "foreign", "time", "speedup"), TABLE["crowded"])
def test_short_work_is_slower_beside_others_only_where_its_cpu_time_grew(
    cpu, foreign, time, speedup
):
    """A thread that works longer at a stretch waits longer for a core: that is no change of it."""
    verdicts = compare(crowded(1.0, 1.0, foreign), crowded(4.0, cpu, foreign), 0.05)
    found = {v.metric: (v.verdict, v.reason) for v in verdicts if v.id.startswith("dot.many")}
    words = {"cpu-contention": "inconclusive"}
    expected = {"time": time, "speedup": speedup}
    assert found == {name: (words.get(why, "regression"), why) for name, why in expected.items()}


def test_the_control_of_a_block_is_the_middle_of_all_on_its_device():
    """One that was disturbed, or ran faster by chance, moves no ratio of CPU times."""
    base, new = (beside(1.0, lost, 2.0) for lost in (0, 1))
    first, many, control = new.measurements
    thrice = [replace(row, samples=replace(row.samples, control=(seconds,) * 40))
              for row, seconds in ((first, 0.002), (many, 0.002), (many, 0.004))]  # fmt: skip
    thrice[2] = replace(thrice[2], case=replace(many.case, name="third"))
    (pair, *_) = joined(base, replace(new, measurements=(*thrice, control)))[0]
    assert pair.change(0.05, relative=True).value == pytest.approx(0.0, abs=1e-9)


def apart(slower, seed):
    """Return a run of two rows, each with controls, on a machine whose speed is new each time."""
    rows, rng = [], random.Random(seed)  # noqa: S311 - noise, not a secret
    for n, (name, seconds) in enumerate((("one", 0.01), ("many", 0.005 * slower))):
        felt = [math.exp(rng.gauss(0.0, 0.2)) for _ in range(40)]
        first = row(name, noisy(seconds, machine=felt, seed=n), speedup=2.0 / slower if n else None,
                    against=rows[0].case.id if n else None)  # fmt: skip
        control = tuple(noisy(0.002, machine=felt, seed=5 + n))
        rows.append(replace(first, samples=replace(first.samples, control=control)))
    return report(*rows, control_row(noisy(0.002)))


@pytest.mark.parametrize(("slower", "seed", "verdict", "why"), TABLE["apart"])
def test_a_speedup_passes_by_the_changes_of_its_times_over_their_controls(
    slower, seed, verdict, why
):
    """Where each time saw a machine of its own, the ratio of a block tells nothing."""
    base, new = apart(1.0, 1), apart(slower, seed)
    found = {v.metric: v for v in compare(base, new, 0.05)}
    assert (found["speedup"].verdict, found["speedup"].reason) == (verdict, why)
    pair = next(pair for pair in joined(base, new)[0] if pair.metric == "speedup")
    raw, relative = (pair.change(LAST, relative=relative) for relative in (False, True))
    assert relative.high - relative.low < 0.05 < raw.high - raw.low
    assert relative.value == pytest.approx(math.log(slower), abs=0.01)


def test_every_group_has_its_own_control():
    """A control follows the rows that it was measured with: they share its blocks."""
    slow, fast = (control_row(noisy(t)) for t in (0.004, 0.002))
    rows = [row("one", noisy(0.01)), row("one", noisy(0.01), size=128)]
    base, new = (report(rows[0], slow, rows[1], last) for last in (slow, fast))
    assert [v.reason for v in compare(base, new, 0.05)] == [None, "work-slower"]


@pytest.mark.parametrize("side", ["base", "new", "both"])
def test_without_a_control_raw_times_are_judged(side):
    """A slower device looks like slower work; an issue interval is judged like a time."""
    base, new = one(), one(machine=1.3)
    base = base if side == "new" else report(base.measurements[0])
    new = new if side == "base" else report(new.measurements[0])
    queued = [
        report(row("h2d", noisy(t), bench="transfer", metric="issue_interval")) for t in (1, 2)
    ]
    assert said(base, new) == ("regression", None)
    assert only(base, new).relative is None
    assert (only(*queued).metric, only(*queued).verdict) == ("issue_interval", "regression")


def pair(gain):
    reference = row("one", noisy(0.02))
    both = {"names": ("a0", "b1"), "against": reference.case.id, "speedup": gain}
    many = row("many", noisy(0.02 / gain), **both)
    return report(reference, many, control_row(noisy(0.002)))


def gained(base, new):
    (found,) = (v for v in compare(base, new, 0.05) if v.metric == "speedup")
    return found


def test_copies_both_ways_are_compared_with_both_ways_alone():
    """As the report's own speed-up is: what each takes, one after the other."""
    runs = []
    for back, both in ((0.01, 0.01), (0.02, 0.012)):
        first, other = (row(way, noisy(t), bench="transfer", pattern="alone")
                        for way, t in (("h2d", 0.01), ("d2h", back)))  # fmt: skip
        ways = row("bidir", noisy(both), bench="transfer", pattern="both", against=first.case.id,
                   then=other.case.id, speedup=(0.01 + back) / both)  # fmt: skip
        runs.append(report(first, other, ways, control_row(noisy(0.002))))
    assert gained(*runs).value == pytest.approx((0.03 / 0.012) / (0.02 / 0.01))


@pytest.mark.parametrize("status", ["skipped", "failed"])
def test_a_row_that_was_not_measured_is_not_there(status):
    """In the new report it is missing, and beside one of the base's it is new."""
    reason = Reason("device-lost", "gone")
    bad = report(replace(row("one", noisy(0.01)), status=status, reason=reason))
    lost, come = only(report(row("one", noisy(0.01))), bad), only(bad, one())
    assert (lost.verdict, come.verdict) == ("missing", "new")
    assert f"its row is {status}: gone" in lost.text
    assert compare(bad, bad, 0.05) == ()


def test_the_ladder_behind_a_model_is_judged_alone_only():
    """How much of it is measured depends on the time that is left."""
    asked, ladder = (row("h2d", noisy(0.01), bench="transfer", pattern=p)
                     for p in ("alone", "ladder"))  # fmt: skip
    both, alone = report(asked, ladder), report(ladder)
    found, mixed_ = compare(both, both, 0.05), compare(alone, both, 0.05)
    assert [v.id for v in found] == [asked.case.id]
    assert [v.id for v in compare(alone, alone, 0.05)] == [ladder.case.id]
    assert [v.verdict for v in mixed_] == ["missing", "new"]
    assert "no such row was requested" in mixed_[0].text


def test_a_reference_that_changed_makes_a_speed_up_unlike_and_no_time():
    rows = [row("one", noisy(0.02)), row("solo", noisy(0.02))]
    sides = [report(*rows, row("many", noisy(0.01), against=reference.case.id, speedup=2.0))
             for reference in rows]  # fmt: skip
    found = {v.metric: (v.verdict, v.reason) for v in compare(*sides, 0.05)[-2:]}
    assert found == {"time": ("pass", None), "speedup": ("inconclusive", "other-reference")}


@pytest.mark.parametrize(("others", "why"), [
    *(({"status": s}, None) for s in ("ok", "no", "inconclusive")),
    *(({"status": s}, f"status is {s}") for s in TABLE["broken"]),
    ({"plans": (Plan(()),)}, "it is a dry run"),
    ({"measurements": ()}, "nothing is measured in it"), ({"fingerprint": None}, "which machine"),
])  # fmt: skip
def test_a_broken_report_cannot_be_compared(others, why):
    found = broken(replace(one(), **others))
    assert found is None if why is None else why in found


@pytest.mark.parametrize(("others", "apart", "around"), [*TABLE["machines"], ({}, 0, 0)])
def test_a_machine_is_its_processor_cores_and_devices(others, apart, around):
    """Versions may be what changed on purpose; the hash is over both, and no evidence."""
    others = {k: tuple(v) if isinstance(v, list) else v for k, v in others.items()}
    for hash_ in (MACHINE.hash, "sha256:" + "1" * 64):
        new = replace(one(), fingerprint=replace(MACHINE, hash=hash_, **others))
        assert (len(machines(one(), new)), len(surroundings(one(), new))) == (apart, around)


def test_variables_that_differ_are_told():
    """They steer placement or speed; unset on both sides is the same."""
    base = replace(one(), environment={"OMP_NUM_THREADS": "1", "POCL_DEVICES": None})
    new = replace(one(), environment={"OMP_NUM_THREADS": None})
    assert surroundings(base, new) == ("OMP_NUM_THREADS: 1 in base, nothing in new",)
    assert surroundings(base, base) == ()


def test_an_early_alarm_is_corrected_for_every_metric_of_the_base():
    """Other groups are looked at elsewhere, and all looks together spend the level once."""
    rows = [row(name, noisy(0.01, blocks=8)) for name in ("one", "solo", "many", "one+fetch")]
    slower = row("one", noisy(0.03, blocks=8))
    assert early(report(rows[0]), [slower], Terms()) == ["regression"]
    assert early(report(*rows), [slower], Terms()) == ["inconclusive"]


@pytest.mark.parametrize("side", ["base", "new"])
def test_a_ratio_that_was_refused_is_no_pass(side):
    """In either report: its samples would give the same impossible ratio."""
    first, many, control = pair(1.9).measurements
    metrics = {**many.metrics, "speedup": Estimate.refused("1")}
    refused = report(first, replace(many, metrics=metrics), control)
    found = gained(*((refused, pair(1.9)) if side == "base" else (pair(1.9), refused)))
    assert (found.verdict, found.reason, found.value) == ("inconclusive", "impossible", None)


@pytest.mark.parametrize("lost", [False, True])
def test_a_control_in_no_time_makes_no_relative_verdict(lost):
    """A clock that did not see it pass divides nothing; nor does one that failed."""
    first, control = one().measurements
    times = (0.0, *control.samples.seconds[1:])
    bad = replace(control, samples=replace(control.samples, seconds=times))
    failed = replace(control, status="failed", reason=Reason("wrong-data", "x"))
    new = report(first, failed if lost else bad)
    assert only(one(), new).relative is only(new, one()).relative is None
    assert only(new, one()).verdict == "pass"


def word_of(*pairs):
    """Return the verdict on a row of several comparisons, new over base and the reason."""
    (found,) = agreed([compare(base, new, 0.05) for base, new in pairs])
    return found.verdict, found.value and round(found.value, 2), found.reason


@pytest.mark.parametrize(("factors", "expected"), TABLE["several"])
def test_several_comparisons_say_what_all_of_them_say(factors, expected):
    """Of a change the least that was seen; else the most."""
    pairs = [(one(), one(factor)) for factor in factors]
    assert word_of(*pairs) == word_of(*reversed(pairs)) == tuple(expected)


def test_what_not_every_comparison_has_or_judges_is_no_verdict():
    (found,) = agreed([compare(one(), one(), 0.05), ()])
    assert (found.verdict, found.reason) == ("inconclusive", "runs-differ")
    slower, same = (compare(one(), one(factor), 0.05) for factor in (1.2, 1.0))
    (found,) = agreed([slower, [replace(same[0], verdict="shown")]])
    assert (found.verdict, found.reason) == ("shown", None)
