"""Traces for Perfetto and chrome://tracing: what their documented format allows, and no more.

That is Google's "Trace Event Format" (JSON Object Format, complete and metadata events); Perfetto's
importer of it wants whole `pid` and `tid` and numbers for `ts` and `dur`.
"""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_reports import bindings

from gpumap.model import Trace, TraceEvent
from gpumap.results.perfetto import perfetto

ABOUT = {  # metadata: what it is of, and its one argument
    "process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index",
}  # fmt: skip
COMPLETE = {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
HOSTILE = ["\x1b[2J", "\u202e", "\ud800", "a\nb", '"', "</script>", "\0"]


def event(device="a", start=0.0, stop=1.0, name="dot", *, implicit=False):
    kind = "operation" if name == "dot" else "transfer"
    return TraceEvent(name, device, kind, 4096, (32, 32), implicit, start, stop)


def trace(*events, number=1, names=("a", "b"), opened=0.0, model="GPU"):
    bound = bindings(names, model)
    return Trace(number, bound, "visible", opened, True, events)  # noqa: FBT003 - closed


def document(*traces):
    text = perfetto(traces)
    assert text.isascii()
    assert text.endswith("}\n")
    found = json.loads(text, parse_constant=pytest.fail)
    assert set(found) == {"displayTimeUnit", "otherData", "traceEvents"}
    assert found["displayTimeUnit"] in ("ms", "ns")
    for one in found["traceEvents"]:
        assert {type(one[key]) for key in ("pid", "tid")} == {int}
        if one["ph"] == "X":
            assert set(one) == COMPLETE
            assert one["name"]
            assert one["ts"] >= 0 <= one["dur"]
            assert set(one["args"]) == {"bytes", "shape", "implicit", "device"}
        else:
            assert (one["ph"], set(one)) == ("M", {"name", "ph", "pid", "tid", "args"})
            assert set(one["args"]) == {ABOUT[one["name"]]}
    return found


def complete(found):
    return [event for event in found["traceEvents"] if event["ph"] == "X"]


def threads(found):
    every = [e for e in found["traceEvents"] if e["name"] == "thread_name"]
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in every}


def test_every_thread_has_a_name():
    """What has no times has no place: it is counted, and never drawn at 0."""
    found = document(
        trace(event("a"), event("cpu"), event("a->b", name="copy")), trace(number=2, names=("x",))
    )
    processes = [e["args"]["name"] for e in found["traceEvents"] if e["name"] == "process_name"]
    assert processes == ["context 1 (visible)", "context 2 (visible)"]
    assert threads(found) == {
        (1, 1): "a (cuda0, GPU)", (1, 2): "b (cuda1, GPU)", (1, 3): "host", (1, 4): "copies a->b",
        (2, 1): "x (cuda0, GPU)",
    }  # fmt: skip
    assert {(e["pid"], e["tid"]) for e in complete(found)} <= set(threads(found))
    found = document(trace(event(start=None, stop=None), event("b", 1.0, 2.0)))
    assert [e["tid"] for e in complete(found)] == [2]
    assert found["otherData"]["events_without_times"] == 1
    assert complete(document()) == complete(document(trace())) == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_harmless(hostile):
    """In a document that is ASCII; a viewer gets it as it is."""
    made = trace(event(hostile, name=hostile), names=(hostile, "b"), model=hostile)
    assert [e["name"] for e in complete(document(made))] == [hostile]


@given(st.lists(st.floats(0.0, 1e3, allow_subnormal=False), min_size=2, max_size=20))
def test_events_of_a_queue_stay_one_behind_the_other(moments):
    """Rounding to nanoseconds lets no event reach into the next: a viewer would nest it."""
    edges = sorted(moments)
    made = trace(*(event(start=a, stop=b) for a, b in pairwise(edges)), opened=1 / 3)
    found = complete(document(made))
    for (_, first), (_, then) in pairwise((e["tid"], e) for e in found):
        ends, begins = (round(1000 * us) for us in (first["ts"] + first["dur"], then["ts"]))
        assert ends == begins
