"""What a trace comes to: sums that add up, unions of spans, and nothing unknown counted as 0."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.judge.traces import Busy, Ran, both, length, summary, union
from gpumap.model import Binding, Device, DeviceRef, Kind, Trace, TraceEvent

END = 12
TIMES = st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda pair: tuple(sorted(pair)))
SPANS = st.lists(TIMES, max_size=8)
PLACES = ("a", "b", "a->b", "b->a", "cpu")


def bindings(**names):
    """Return names on devices: ``a=0, b=1``."""
    return tuple(
        Binding(name, Device(f"cuda:{n}", Kind.CUDA, DeviceRef(Kind.CUDA, n), "GPU", "fake"))
        for name, n in names.items()
    )


def event(device="a", start=0, stop=1, name="dot", nbytes=4, shape=(1,), *, implicit=False):
    """Return an operation, or the transfer that its name tells."""
    kind = "operation" if name == "dot" else "transfer"
    times = [None if t is None else float(t) for t in (start, stop)]
    return TraceEvent(name, device, kind, nbytes, shape, implicit, *times)


def trace(*events, names=None):
    """Return the trace of a context with two devices, or with others."""
    bound = bindings(**(names or {"a": 0, "b": 1}))
    return Trace(1, bound, "visible", 0.0, True, events)  # noqa: FBT003 - closed


def busy(found):
    """Return seconds and share of each device."""
    return {each.device: (each.seconds, each.share) for each in found.busy}


EVENTS = st.lists(
    st.builds(
        lambda device, times, name, nbytes, shape, implicit: event(
            device, *times, name, nbytes, shape, implicit=implicit
        ),
        st.sampled_from(PLACES),
        TIMES,
        st.sampled_from(["dot", "copy", "upload"]),
        st.integers(0, 99),
        st.sampled_from([(), (1,), (2, 3)]),
        st.booleans(),
    ),
    max_size=12,
)


# --- spans


def moments(spans):
    """Return the halves of a unit of time that lie in spans with whole ends."""
    return {t for a, b in spans for t in range(int(a), int(b))}


@given(SPANS)
def test_a_union_holds_each_moment_once(spans):
    """Disjoint, in time order, and neither longer nor shorter than what it is of."""
    found = union(event(start=a, stop=b) for a, b in spans)

    assert moments(found) == moments(spans)
    assert length(found) == len(moments(spans))
    assert all(a[1] < b[0] for a, b in pairwise(found))


@given(SPANS, SPANS)
def test_what_both_ran_is_in_both(a, b):
    """The moments that lie in both, whichever comes first."""
    first, second = (union(event(start=x, stop=y) for x, y in spans) for spans in (a, b))

    assert moments(both(first, second)) == moments(a) & moments(b)
    assert both(first, second) == both(second, first)


# --- sums


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


@given(EVENTS)
def test_shares_are_shares(events):
    """No device is busy for longer than the trace, and no overlap is above 1."""
    found = summary(trace(*events))

    shares = [each.share for each in found.busy] + [found.overlap]
    assert all(0.0 <= share <= 1.0 for share in shares if share is not None)
    assert all(each.seconds <= (found.span or 0.0) for each in found.busy)


@given(EVENTS, st.integers(1, 5))
def test_when_a_program_begins_does_not_matter(events, later):
    """Everything later by the same time comes to the same."""
    moved = [event(e.device, e.start + later, e.stop + later, e.name, e.nbytes, e.shape,
                   implicit=e.implicit) for e in events]  # fmt: skip

    assert summary(trace(*moved)) == summary(trace(*events))


def test_implicit_transfers_stand_by_their_cost():
    """The most expensive first, by shape; what was asked for is not among them."""
    events = [
        event("a", 0, 1, "upload", 4, (1,), implicit=True),
        event("b->a", 1, 2, "copy", 8, (2,), implicit=True),
        event("b->a", 2, 4, "copy", 8, (2,), implicit=True),
        event("b->a", 4, 6, "copy", 16, (4,), implicit=True),
        event("b->a", 6, 16, "copy", 32, (8,)),
    ]

    found = summary(trace(*events))

    assert [(r.name, r.shape, r.count, r.nbytes, r.seconds) for r in found.implicit] == [
        ("copy", (2,), 2, 16, 3.0),
        ("copy", (4,), 1, 16, 2.0),
        ("upload", (1,), 1, 4, 1.0),
    ]
    assert found.moved == Ran("", "", "transfer", True, 4, 36, 6.0)  # noqa: FBT003


def test_operations_on_copies_that_nobody_asked_for_are_no_transfers():
    """`implicit` of an operation means nothing."""
    assert summary(trace(event(implicit=True))).implicit == ()


# --- devices


def test_a_copy_between_devices_keeps_both_busy():
    """And an operation its own, of the time from the first event to the last."""
    found = summary(trace(event("a", 1, 2), event("a->b", 2, 4, "copy"), event("b", 4, 5)))

    assert (found.span, busy(found)) == (4.0, {"cuda:0": (3.0, 0.75), "cuda:1": (3.0, 0.75)})


def test_two_names_of_one_device_are_one():
    """What they do at the same time counts once; a copy between them is of that one device."""
    events = (event("a", 0, 2), event("c", 1, 3), event("a->c", 3, 4, "copy"))

    found = summary(trace(*events, names={"a": 0, "b": 1, "c": 0}))

    assert found.busy == (
        Busy("cuda:0", ("a", "c"), 3, 4.0, 1.0),
        Busy("cuda:1", ("b",), 0, 0.0, 0.0),
    )
    assert found.overlap is None


def test_the_host_is_listed_where_it_did_something():
    """It is no device of the map, and has no part in the overlap."""
    assert "host" not in busy(summary(trace(event("a"))))
    found = summary(trace(event("a", 0, 1), event("cpu", 0, 2)))

    assert busy(found) == {"cuda:0": (1.0, 0.5), "cuda:1": (0.0, 0.0), "host": (2.0, 1.0)}
    assert found.overlap is None


@pytest.mark.parametrize(
    ("events", "overlap"),
    [
        ([("a", 0, 4), ("b", 0, 4)], 1.0),
        ([("a", 0, 4), ("b", 1, 3)], 1.0),  # of the one that computed least
        ([("a", 0, 4), ("b", 3, 7)], 0.25),
        ([("a", 0, 4), ("b", 4, 8)], 0.0),
        ([("a", 0, 2), ("a", 2, 4), ("b", 1, 3)], 1.0),
        ([("a", 0, 4), ("b", 0, 4), ("c", 0, 2)], 1.0),
        ([("a", 0, 4), ("b", 4, 8), ("c", 0, 8)], 0.0),  # never all three
        ([("a", 0, 4)], None),
        ([("a", 0, 4), ("b", 2, 2)], None),  # in no time
        ([], None),
    ],
)
def test_overlap_is_that_of_what_was_computed(events, overlap):
    """All that computed at once, over the one that computed least; copies are no such work."""
    every = [event(*each) for each in events] + [event("a->b", 0, 9, "copy")]

    assert summary(trace(*every, names={"a": 0, "b": 1, "c": 2})).overlap == overlap


# --- what is not known


def test_what_a_device_cannot_tell_is_unknown():
    """No sum with it is a number: not of its row, not of its device, not of the overlap."""
    events = [
        event("a", 0, 1),
        event("b", None, None),
        event("b", 2, 3),
        event("b->a", None, None, "copy", 8, implicit=True),
    ]

    found = summary(trace(*events))

    assert [(r.device, r.count, r.seconds) for r in found.ran] == [
        ("a", 1, 1.0), ("b", 2, None), ("b->a", 1, None),
    ]  # fmt: skip
    assert (found.moved.seconds, found.moved.nbytes) == (None, 8)
    assert busy(found) == {"cuda:0": (None, None), "cuda:1": (None, None)}
    assert (found.overlap, found.untimed, found.span) == (None, 2, 3.0)


def test_unknown_costs_come_last_by_their_bytes():
    """They may be the most expensive: nobody knows."""
    found = summary(
        trace(
            event("a", None, None, "upload", 4, (1,), implicit=True),
            event("a", None, None, "upload", 8, (2,), implicit=True),
            event("a", 0, 1, "upload", 2, (3,), implicit=True),
        )
    )

    assert [ran.shape for ran in found.implicit] == [(3,), (2,), (1,)]


def test_a_trace_of_nothing_has_no_figures():
    """Every device of the map is listed all the same."""
    found = summary(trace())

    assert (found.ran, found.implicit, found.span, found.overlap) == ((), (), None, None)
    assert busy(found) == {"cuda:0": (0.0, None), "cuda:1": (0.0, None)}
    assert found.moved == Ran("", "", "transfer", True, 0, 0, 0)  # noqa: FBT003


def test_a_name_may_look_like_the_devices_of_another():
    """A name of the map is a name first."""
    odd = Trace(1, bindings(**{"cpu->": 0}), "visible", 0.0, True, (event("cpu->"),))  # noqa: FBT003

    assert busy(summary(odd)) == {"cuda:0": (1.0, 1.0)}
