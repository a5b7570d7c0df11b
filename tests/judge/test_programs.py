"""What limits a program on several names: of recorded times and usages alone, one cause each."""

import re

import pytest
from report.made_reports import device
from tables import table

from gpumap import model
from gpumap.engine.estimates import located, ratio
from gpumap.judge import scaling, traces
from gpumap.judge import uses as judge_uses

TABLE = table(__file__)
ONE = (2.0, 2.0)  # seconds of a run, and what its core worked
NOISE = (1.0, 1.005, 0.995, 1.01, 0.99, 1.002)
GOOD = model.Use("dev0", "cuda:0", "used", busy=0.93)


LOST = ("start", "serial", "uneven", "idle")  # seconds of a run


def step(count, elapsed, busy, *, foreign=0.0, shares=(), noise=NOISE, **seen):
    """Return runs on so many names of one core each; a share of 0: a name was not used."""
    lost = [seen.get(key, 0.0) for key in LOST]
    worked = tuple(elapsed * share for share in shares or (0.9,) * count)
    rest = (*lost, seen.get("worked", worked), seen.get("looks", 40), foreign)
    runs = tuple(model.TimedRun(turn, elapsed * by, busy, *rest) for turn, by in enumerate(noise))
    uses = tuple(
        model.Use(f"dev{n}", f"cpu:{n}", "used" if share else "not-used", None, share)
        for n, share in enumerate(shares or (0.9,) * count)
    )
    over = dict.fromkeys(range(len(noise)), ONE[0])
    under = {run.turn: run.elapsed for run in runs}
    time = located([run.elapsed for run in runs], "s", 0.95)
    gain = ratio(over, under, 0.95) if count > 1 else None
    return model.ScaleStep(
        tuple(f"dev{n}" for n in range(count)), count, runs, None, time, gain, uses
    )


def limited(*args, ranks=False, weak=False, **others):
    steps = step(1, *ONE), step(*args, **others)
    return scaling.judge_scaling(("x",), steps, ranks=ranks, weak=weak)


@pytest.mark.parametrize(("cause", "args", "others"), TABLE["causes"])
def test_one_cause_is_found_by_elimination(cause, args, others):
    found = limited(*args, **(others or {}))
    assert found.cause == cause
    assert re.fullmatch(r"[A-Z].*\.", scaling.sentence(found))
    assert "{" not in scaling.sentence(found)
    assert cause in judge_uses.texts("limits")


def test_where_the_work_grows_with_the_names_equal_times_are_the_same_work():
    """Twice the work on two cores in the time of one is no growth; in twice the time it is."""
    assert limited(2, 2.0, 4.0, weak=True).growth == pytest.approx(1.0)
    assert limited(2, 4.0, 8.0, weak=True).growth == pytest.approx(2.0)


@pytest.mark.parametrize(("args", "others", "said"), TABLE["said_of_ranks"])
def test_ranks_are_told_of_what_ranks_do(args, others, said):
    assert said in scaling.sentence(limited(*args, ranks=True, **(others or {})))


def test_a_count_whose_run_failed_has_no_cause():
    first, last = step(1, *ONE), step(2, 1.0, 2.0)
    failed = model.ScaleStep(last.names, 2, (), 3)
    found = scaling.judge_scaling(("x",), (first, failed))
    assert (found.cause, found.busy, found.growth) == (None, None, None)


@pytest.mark.parametrize(("foreign", "answers"), TABLE["missed"])
def test_a_limit_that_is_missed_where_others_had_the_cores_is_inconclusive(foreign, answers):
    found = limited(2, 2.0, 2.0, foreign=foreign)
    gain = found.steps[-1].speedup
    assert (scaling.reaches(found, 1.8, gain), scaling.reaches(found, 0.5, gain)) == tuple(answers)


def said(*uses, elapsed=42.0):
    level, text = judge_uses.sentences(model.Utilisation(("x",), 0, elapsed, 400, 1.0, uses))
    return level, " ".join(text)


@pytest.mark.parametrize(("uses", "level", "text"), TABLE["answers"])
def test_the_answer_names_what_was_not_used_first(uses, level, text):
    assert said(*(model.Use(**use) for use in uses)) == (level, text)


@pytest.mark.parametrize("why", sorted(judge_uses.texts("unseen")))
def test_what_cannot_be_told_says_why_and_never_not_used(why):
    unknown = model.Use("dev0", "cuda:0", "unknown", why, busy=0.4)
    level, text = said(GOOD, unknown)
    assert level == "untrusted"
    first = f"Cannot tell whether dev0 was used: {judge_uses.texts('unseen')[why]}."
    assert text == f"{first} Busy: dev0 93 % of 42.0 s."  # and what is known follows
    level, text = said(unknown, model.Use("dev1", "cuda:1", "not-used"))
    assert level == "below"
    assert text.startswith("dev1 was not used. Cannot tell whether dev0 was used: ")


def event(device="a", start=0, stop=1, name="dot", nbytes=4, shape=(1,), *, implicit=False):
    kind = "operation" if name == "dot" else "transfer"
    times = [None if t is None else float(t) for t in (start, stop)]
    return model.TraceEvent(name, device, kind, nbytes, shape, implicit, *times)


def trace(*events, names=None):
    named = (names or {"a": 0, "b": 1}).items()
    bound = tuple(model.Binding(name, device(n)) for name, n in named)
    return model.Trace(1, bound, "visible", True, events)  # noqa: FBT003 - closed


def busy(found):
    return {each.device: [each.seconds, each.share] for each in found.busy}


def test_every_event_is_counted_once():
    """Counts, bytes and times of a group add up; copies without a request, by their shape."""
    copies = [("b->a", 1, 2, "copy", 16), ("b->a", 2, 4, "copy", 32, (2, 3))]
    found = traces.summary(trace(
        event("a", 0, 2, nbytes=4), *(event(*each, implicit=True) for each in copies),
        event("a", 3, 6, nbytes=8), event("b->a", 4, 5, "copy", 64), event("a", implicit=True),
    ))  # fmt: skip
    assert [(r.device, r.implicit, r.events, r.nbytes, r.seconds) for r in found.ran] == [
        ("a", False, 2, 12, 5.0), ("b->a", True, 2, 48, 3.0), ("b->a", False, 1, 64, 1.0),
        ("a", True, 1, 4, 1.0),
    ]  # fmt: skip
    assert [(r.shape, r.nbytes) for r in found.implicit] == [((2, 3), 32), ((1,), 16)]
    assert found.moved == 48


@pytest.mark.parametrize(("events", "found"), TABLE["busy"])
def test_a_device_is_busy_while_any_name_of_it_is(events, found):
    """Every device of the map is listed."""
    names = {"a": 0, "b": 1, "c": 0, "cpu->": 0}
    whole = traces.summary(trace(*(event(*each) for each in events), names=names))
    assert busy(whole) == found
    assert whole.busy[0].names == ("a", "c", "cpu->")


def test_what_a_device_cannot_tell_is_unknown():
    """No sum with it is a number: not of its row, not of its device."""
    events = [
        event("a", 0, 1), event("b", None, None), event("b", 2, 3),
        event("b->a", None, None, "copy", 8, implicit=True),
    ]  # fmt: skip
    found = traces.summary(trace(*events))
    assert [(r.device, r.events, r.seconds) for r in found.ran] == [
        ("a", 1, 1.0), ("b", 2, None), ("b->a", 1, None),
    ]  # fmt: skip
    assert ([each.seconds for each in found.implicit], found.moved) == ([None], 8)
    assert busy(found) == {"cuda:0": [None, None], "cuda:1": [None, None]}
    assert (found.untimed, found.span) == (2, 3.0)
