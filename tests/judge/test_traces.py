"""What a trace comes to: sums that add up, unions of spans, and nothing unknown counted as 0."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.programs import both, length, summary, union
from gpumap.model import Binding, Device, DeviceRef, Kind, Moved, Trace, TraceEvent
from gpumap.model import replace as changed

END = 12
TIMES = st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda pair: tuple(sorted(pair)))
SPANS = st.lists(TIMES, max_size=8)
PLACES = ("a", "b", "a->b", "b->a", "cpu")


def bindings(**names):
    return tuple(
        Binding(name, Device(f"cuda:{n}", Kind.CUDA, DeviceRef(Kind.CUDA, n), "GPU", "fake"))
        for name, n in names.items()
    )


def event(device="a", start=0, stop=1, name="dot", nbytes=4, shape=(1,), *, implicit=False):
    kind = "operation" if name == "dot" else "transfer"
    times = [None if t is None else float(t) for t in (start, stop)]
    return TraceEvent(name, device, kind, nbytes, shape, implicit, *times)


def trace(*events, names=None):
    bound = bindings(**(names or {"a": 0, "b": 1}))
    return Trace(1, bound, "visible", 0.0, True, events)  # noqa: FBT003 - closed


def busy(found):
    return {each.device: (each.seconds, each.share) for each in found.busy}


EVENTS = st.lists(
    st.builds(
        lambda device, times, name, nbytes, shape, implicit: event(
            device, *times, name, nbytes, shape, implicit=implicit
        ),
        st.sampled_from(PLACES), TIMES, st.sampled_from(["dot", "copy", "upload"]),
        st.integers(0, 99), st.sampled_from([(), (1,), (2, 3)]), st.booleans(),
    ),
    max_size=12,
)  # fmt: skip


def moments(spans):
    return {t for a, b in spans for t in range(int(a), int(b))}


@given(SPANS, SPANS)
def test_a_union_holds_each_moment_once(spans, others):
    """Disjoint, in time order, neither longer nor shorter; what both ran is in both."""
    found, other = (union(event(start=a, stop=b) for a, b in each) for each in (spans, others))
    assert moments(found) == moments(spans)
    assert length(found) == len(moments(spans))
    assert all(a[1] < b[0] for a, b in pairwise(found))
    assert moments(both(found, other)) == moments(spans) & moments(others)
    assert both(found, other) == both(other, found)


@given(EVENTS)
def test_every_event_is_counted_once(events):
    """Whatever groups they fall into, counts, bytes and times add up to those of all."""
    found = summary(trace(*events))
    unasked = [e for e in events if e.implicit and e.kind == "transfer"]
    for groups, every in ((found.ran, events), (found.implicit, unasked), ([found.moved], unasked)):
        assert sum(g.count for g in groups) == len(every)
        assert sum(g.nbytes for g in groups) == sum(e.nbytes for e in every)
        assert sum(g.seconds for g in groups) == sum(e.stop - e.start for e in every)
    assert len({(g.name, g.device, g.kind, g.implicit) for g in found.ran}) == len(found.ran)


@given(EVENTS, st.integers(1, 5))
def test_shares_are_shares(events, later):
    """Of the time from first to last event: when a program begins does not matter."""
    found = summary(trace(*events))
    moved = [changed(e, start=e.start + later, stop=e.stop + later) for e in events]
    shares = [each.share for each in found.busy] + [found.overlap]
    assert all(0.0 <= share <= 1.0 for share in shares if share is not None)
    assert all(each.seconds <= (found.span or 0.0) for each in found.busy)
    assert summary(trace(*moved)) == found


def test_implicit_transfers_stand_by_their_cost():
    """The most expensive first, unknown ones last by bytes; no operation is among them."""
    found = summary(trace(
        event("a", 0, 1, "upload", 4, (1,), implicit=True),
        event("b->a", 1, 2, "copy", 8, (2,), implicit=True),
        event("b->a", 2, 4, "copy", 8, (2,), implicit=True),
        event("b->a", 4, 6, "copy", 16, (4,), implicit=True),
        event("b->a", 6, 16, "copy", 32, (8,)),
        event(implicit=True),
    ))  # fmt: skip
    unknown = [event("a", None, None, "upload", n, (n,), implicit=True) for n in (4, 8)]
    mixed = summary(trace(*unknown, event("a", 0, 1, "upload", 2, (3,), implicit=True)))
    assert [(r.name, r.shape, r.count, r.nbytes, r.seconds) for r in found.implicit] == [
        ("copy", (2,), 2, 16, 3.0), ("copy", (4,), 1, 16, 2.0), ("upload", (1,), 1, 4, 1.0),
    ]  # fmt: skip
    assert found.moved == Moved(4, 36, 6.0)
    assert [ran.shape for ran in mixed.implicit] == [(3,), (8,), (4,)]


NONE = {"cuda:0": (0.0, None), "cuda:1": (0.0, None)}


@pytest.mark.parametrize(("events", "found", "overlap"), [
    ([], NONE, None),
    # a copy between devices keeps both busy
    ([("a", 1, 2), ("a->b", 2, 4, "copy"), ("b", 4, 5)], {"cuda:0": (3.0, 0.75),
     "cuda:1": (3.0, 0.75)}, 0.0),
    # two names of one device at once count once, and a copy between them is of that one
    ([("a", 0, 2), ("c", 1, 3), ("a->c", 3, 4, "copy")], {"cuda:0": (4.0, 1.0),
     "cuda:1": (0.0, 0.0)}, None),
    # the host is listed where it did something, and has no part in the overlap
    ([("a", 0, 1), ("cpu", 0, 2)], {"cuda:0": (1.0, 0.5), "cuda:1": (0.0, 0.0),
     "host": (2.0, 1.0)}, None),
    # a name of the map is a name first, whatever it looks like
    ([("cpu->", 0, 2)], {"cuda:0": (2.0, 1.0), "cuda:1": (0.0, 0.0)}, None),
])  # fmt: skip
def test_a_device_is_busy_while_any_name_of_it_is(events, found, overlap):
    """Every device of the map is listed; without two that computed there is no overlap."""
    names = {"a": 0, "b": 1, "c": 0, "cpu->": 0}
    whole = summary(trace(*(event(*each) for each in events), names=names))
    assert (busy(whole), whole.overlap) == (found, overlap)
    assert whole.busy[0].names == ("a", "c", "cpu->")


@pytest.mark.parametrize(("events", "overlap"), [
    ([("a", 0, 4), ("b", 0, 4)], 1.0),
    ([("a", 0, 4), ("b", 1, 3)], 1.0),  # of the one that computed least
    ([("a", 0, 4), ("b", 3, 7)], 0.25), ([("a", 0, 4), ("b", 4, 8)], 0.0),
    ([("a", 0, 2), ("a", 2, 4), ("b", 1, 3)], 1.0),
    ([("a", 0, 4), ("b", 0, 4), ("c", 0, 2)], 1.0),
    ([("a", 0, 4), ("b", 4, 8), ("c", 0, 8)], 0.0),  # never all three
    ([("a", 0, 4)], None),
    ([("a", 0, 4), ("b", 2, 2)], None),  # in no time
    ([], None),
])  # fmt: skip
def test_overlap_is_that_of_what_was_computed(events, overlap):
    """All that computed at once, over the one that computed least; copies are no such work."""
    every = [event(*each) for each in events] + [event("a->b", 0, 9, "copy")]
    assert summary(trace(*every, names={"a": 0, "b": 1, "c": 2})).overlap == overlap


def test_what_a_device_cannot_tell_is_unknown():
    """No sum with it is a number: not of its row, not of its device, not of the overlap."""
    events = [
        event("a", 0, 1), event("b", None, None), event("b", 2, 3),
        event("b->a", None, None, "copy", 8, implicit=True),
    ]  # fmt: skip
    found = summary(trace(*events))
    assert [(r.device, r.count, r.seconds) for r in found.ran] == [
        ("a", 1, 1.0), ("b", 2, None), ("b->a", 1, None),
    ]  # fmt: skip
    assert (found.moved.seconds, found.moved.nbytes) == (None, 8)
    assert busy(found) == {"cuda:0": (None, None), "cuda:1": (None, None)}
    assert (found.overlap, found.untimed, found.span) == (None, 2, 3.0)
