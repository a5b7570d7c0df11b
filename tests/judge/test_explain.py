"""Every speed-up below 90 % of what could be has one cause, with the figures that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumap.judge.explain import CAUSES, explained
from gpumap.model import (
    Around,
    Binding,
    Case,
    Device,
    DeviceRef,
    Estimate,
    Kind,
    Measurement,
    Samples,
    Work,
)

N = 20
SIZE = 1000
OPERATIONS = 2 * SIZE**3
RATE = 2e11  # so that a product is 10 ms of arithmetic
SOLO = OPERATIONS / RATE


def exactly(value, unit="1"):
    """Return a figure without doubt."""
    return Estimate(value, value, value, unit)


def device(number, kind=Kind.CPU, *silicon):
    """Return a device of its own silicon, unless told which."""
    ref = DeviceRef(kind, number)
    cores = (number,) if kind is Kind.CPU else ()
    own = frozenset(silicon or {f"core:{number}"})
    return Device(f"{kind}:{number}", kind, ref, "x", "numpy", cores=cores, silicon=own)


def row(name, bindings, time, *, bench="dot", samples=None, fetch=0, **figures):
    """Return a measured row; figures beside its time are ratios."""
    work = Work(len(bindings), OPERATIONS * len(bindings), 0, fetch)
    metrics = {"time": exactly(time, "s"), "rate": exactly(work.operations / time, "FLOP/s")}
    metrics |= {key: exactly(value) for key, value in figures.items()}
    case = Case(bench, name, {"size": SIZE}, tuple(bindings), work)
    return Measurement(case, "ok", None, (), samples, metrics=metrics)


def samples(time, *spans, rounds=1, **others):
    """Return equal samples: one (start, stop) for each device, in seconds from their begin."""
    found = {name: tuple((n + a, n + b) for n in range(N))
             for name, (a, b) in zip("ab", spans, strict=False)}  # fmt: skip
    return Samples((time,) * N, tuple(range(N)), rounds, spans=found, **others)


def group(time, taken, *, devices=None, solo=(SOLO, SOLO), case="many", ideal=2.0, fetch=0,
          around=None, cost=None, overlap=1.0, anchor=RATE, rounds=(None, None)):  # fmt: skip
    """Return the rows of a group in which two devices take `time` for what one does in 2 SOLO."""
    devices = devices or (device(0), device(1))
    both = [Binding(name, found) for name, found in zip("ab", devices, strict=True)]
    gain = 2 * SOLO / time
    many = row(case, both, time, samples=taken, fetch=fetch, overlap=overlap,
               speedup=gain, ideal=ideal, efficiency=gain / ideal)  # fmt: skip
    figures = {"fetch": cost} if cost else {}
    if max(solo) > 1.1 * min(solo):
        figures["ideal_balanced"] = exactly(1.5)
    alone, large = (n and samples(SOLO, rounds=n) for n in rounds)
    rows = [row("solo", [b], t, samples=alone) for b, t in zip(both, solo, strict=True)]
    rows += [row("product", [b], OPERATIONS / anchor, bench="anchor", samples=large) for b in both]
    return [*rows, replace(many, around=around, metrics={**many.metrics, **figures})]


def cause(rows):
    """Return the cause of the last row; no other row has one."""
    found = explained(rows)
    assert all(each.explanation is None for each in found[:-1])
    assert [each.case for each in found] == [each.case for each in rows]
    return found[-1].explanation


def thin(row, n):
    """Return a row as it is after n blocks: under six its figures have no intervals."""
    figures = row.metrics.items()
    alone = {name: Estimate.without_interval(f.value, f.unit) for name, f in figures}
    return replace(row, metrics=alone) if n < 6 else row


BOTH = ((0.0, SOLO), (0.0, SOLO))


def test_what_is_as_fast_as_it_could_be_needs_no_cause():
    """From 90 % of the number of devices on."""
    assert cause(group(SOLO, samples(SOLO, *BOTH))) is None
    assert cause(group(SOLO / 0.91, samples(SOLO, *BOTH))) is None


def test_shared_silicon_by_identity():
    """Known before anything is measured; the speed-up may well be all that is possible."""
    shared = (device(0, Kind.OPENCL, "core:0", "core:1"), device(1, Kind.OPENCL, "core:0"))
    why = cause(group(2 * SOLO, samples(2 * SOLO, *BOTH), devices=shared, ideal=1.0))

    assert why.cause == "shared-silicon"
    assert why.text == "a and b share silicon (core:0): together they do what one does"
    assert why.figures == {"speedup": exactly(1.0), "ideal": exactly(1.0)}


def test_unequal_devices():
    """The placement reaches its ideal, and the slow one sets that."""
    why = cause(group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05))

    assert why.cause == "unequal-devices"
    assert why.figures["slowest"].value == pytest.approx(1.9 * SOLO)


def test_devices_that_may_be_equal_are_not_called_unequal():
    """Medians alone do not tell: no balance was found that would be better."""
    rows = group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05)
    del rows[-1].metrics["ideal_balanced"]

    assert cause(rows) is None


def test_a_busy_machine_makes_equal_devices_unequal():
    """The slow one is not slow by itself: somebody else has its core."""
    rows = group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05,
                 around=Around(0.9, 0.0))  # fmt: skip

    assert cause(rows).cause == "busy-machine"


def test_launch_bound():
    """Even alone, most of a product's time is not arithmetic, by the anchor's rate."""
    why = cause(group(2 * SOLO, samples(2 * SOLO, *BOTH), anchor=RATE * 4))

    assert why.cause == "launch-bound"
    assert why.figures == {"product": exactly(SOLO, "s"), "arithmetic": exactly(SOLO / 4, "s")}


@pytest.mark.parametrize(("m", "n"), [(1, 1), (50, 1), (50, 20), (1, 20)])
def test_a_launch_is_no_arithmetic_of_the_anchor(m, n):
    """A sample of n rounds has a launch that nothing hides: exact times come apart exactly."""
    launch, large, share = 1e-4, 4e-4, 1 / 8
    solo, anchor = launch + share * large / m, large + launch / n
    rows = group(2 * solo, samples(2 * solo, *BOTH), solo=(solo, solo), rounds=(m, n))
    work = replace(rows[2].case.work, operations=8 * OPERATIONS)
    for place in (2, 3):
        case = replace(rows[place].case, work=work)
        rows[place] = replace(rows[place], case=case, metrics={"time": exactly(anchor, "s")})
    metrics = {**rows[-1].metrics, "efficiency": exactly(0.5)}

    why = cause([*rows[:-1], replace(rows[-1], metrics=metrics)])

    assert why.cause == "launch-bound"
    assert why.figures["arithmetic"].value == pytest.approx(share * large)


@pytest.mark.parametrize(
    "around",
    [Around(0.6, 0.0), Around(0.0, 0.4), Around(None, None, 2.0, 2), Around(2.7, 0.0, 0.0, 4)],
)
@pytest.mark.parametrize("time", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("case", ["many", "many+fetch"])
def test_a_busy_machine(around, time, case):
    """Others want cores that the devices need, now or before: no other cause can be told."""
    fetch = exactly(SOLO, "s")
    rows = group(time * SOLO, samples(SOLO, *BOTH), case=case, cost=fetch, fetch=8, around=around,
                 anchor=RATE * 4, overlap=0.0)  # fmt: skip

    assert cause(rows).cause == "busy-machine"


@pytest.mark.parametrize("around", [Around(0.2, 0.0), Around(2.0, 0.0, 2.0, 4)])
def test_a_machine_with_room_is_not_busy(around):
    """Little load, or cores to spare: what the figures show is the cause."""
    rows = group(2 * SOLO, samples(2 * SOLO, *BOTH), around=around, anchor=RATE * 4)

    assert cause(rows).cause == "launch-bound"


def test_a_busy_host_is_no_cause_for_a_gpu():
    """Its work is done elsewhere."""
    gpus = (device(0, Kind.CUDA), device(1, Kind.CUDA))
    time = 2 * SOLO
    taken = samples(time, (0.0, SOLO), (SOLO, 2 * SOLO))
    rows = group(time, taken, devices=gpus, around=Around(2.0, 0.5), overlap=0.0)

    assert cause(rows).cause == "serialised"


def test_transfer_bound():
    """The fetch accounts for what is missing."""
    time, fetch = 2 * SOLO, Estimate(SOLO, 0.9 * SOLO, 1.1 * SOLO, "s")
    rows = group(time, samples(time, *BOTH), case="many+fetch", fetch=8_000_000, cost=fetch)
    why = cause(rows)

    assert why.cause == "transfer-bound"
    assert why.figures == {"fetch": fetch, "time": exactly(time, "s")}


def test_a_fetch_that_may_cost_nothing_is_no_cause():
    """Its interval holds zero: beside that nobody can say that it takes the time."""
    time, fetch = 2 * SOLO, Estimate(SOLO, -SOLO, 2 * SOLO, "s")
    rows = group(time, samples(time, *BOTH), case="many+fetch", fetch=8_000_000, cost=fetch)

    assert cause(rows).cause != "transfer-bound"


def test_serialised():
    """The spans do not overlap."""
    time = 2 * SOLO
    why = cause(group(time, samples(time, (0.0, SOLO), (SOLO, 2 * SOLO)), overlap=0.02))

    assert why.cause == "serialised"
    assert why.text == "the devices take turns: they worked together for 2% of their time"
    assert why.figures == {"overlap": exactly(0.02)}


def test_shared_silicon_by_cpu_time():
    """The spans overlap all the time, and there was one core's worth of CPU time."""
    time = 2 * SOLO
    loose = tuple(replace(device(number), cores=()) for number in (0, 1))
    taken = samples(time, (0, time), (0, time), cpu=(time,) * N)
    why = cause(group(time, taken, devices=loose))

    assert why.cause == "shared-silicon"
    assert "together the devices had 1.00 cores of CPU time" in why.text


def test_cores_of_their_own_are_not_shared():
    """Where the CPU time went then, something else ran: they do not sit on the same ones."""
    time = 2 * SOLO
    why = cause(group(time, samples(time, (0, time), (0, time), cpu=(time,) * N)))

    assert why.cause == "busy-machine"
    assert why.text == (
        "each device has cores of its own, and in 2.00 cores of work they had 1.00 cores of CPU "
        "time: something else ran there"
    )
    assert why.figures["cores"] == exactly(1.0)
    assert why.figures["worked"].value == pytest.approx(2.0)


def test_shared_silicon_by_solo_times():
    """Each has a core of its own, and is slower beside the other all the same."""
    time = 1.4 * SOLO
    why = cause(group(time, samples(time, (0, time), (0, SOLO), cpu=(2 * time,) * N)))

    assert why.cause == "shared-silicon"
    assert why.text == (
        "a takes 1.40 times as long beside the others as alone: they share memory bandwidth, "
        "cache or power"
    )


def test_synchronisation():
    """The devices are done long before the round is."""
    time = 1.5 * SOLO
    taken = samples(time, *BOTH, cpu=(2 * time,) * N, empty_sync=2e-6)
    why = cause(group(time, taken))

    assert why.cause == "synchronisation"
    assert why.text == (
        "5.00 ms of 15.0 ms pass while no device works; waiting for nothing takes 2.00 µs"
    )


def test_too_little_work():
    """No span is known, and many rounds make one sample: a round is over at once."""
    time = 1.2 * SOLO
    why = cause(group(time, samples(time, rounds=100)))

    assert why.cause == "too-little-work"
    assert why.text == "a round takes only 12.0 ms: give each device more to do"


def test_what_no_cause_accounts_for_is_said():
    """Better no reason than a wrong one."""
    time = 1.3 * SOLO
    why = cause(group(time, samples(time), ideal=2.0))

    assert why.cause == "unexplained"
    assert why.text == "3.00 ms of 13.0 ms are not accounted for"


def test_a_hostile_name_is_escaped():
    """A map may hold any printable character, and a report must not act on it."""
    shared = (device(0, Kind.CPU, "core:\x1b[2J"), device(1, Kind.CPU, "core:\x1b[2J"))
    why = cause(group(2 * SOLO, samples(2 * SOLO, *BOTH), devices=shared, ideal=1.0))

    assert "\x1b" not in why.text


def test_rows_that_were_not_measured_have_no_cause():
    """Skipped, failed, or without a reference."""
    rows = group(2 * SOLO, samples(2 * SOLO, *BOTH))
    skipped = replace(rows[-1], status="skipped", metrics={})

    assert explained([*rows[:-1], skipped])[-1].explanation is None


def test_the_causes_are_a_closed_list():
    """As the schema and `gpumap explain` have them."""
    assert CAUSES == (
        "busy-machine", "shared-silicon", "transfer-bound", "launch-bound", "unequal-devices",
        "serialised", "synchronisation", "too-little-work", "unexplained", "host-faster",
    )  # fmt: skip


def beside(host, *, op=None, high=0.9):
    """Return the rows of a chain: a device's, and the host's own that it is held against."""
    binding = Binding("\x1b", device(0))
    keys = {"rows": 100, "dtype": "float32"}
    alone = {"op": op, "place": "device"} if op else {}
    mine = Case("chain", "op" if op else "fused", keys | alone, (binding,), Work())
    theirs = Case("chain", "host", keys, (binding,), Work())
    gain = {"speedup" if op else "speedup_over_host": Estimate(0.5, 0.4, high, "1")}
    rows = [
        Measurement(mine, "ok", metrics={"time": Estimate(2e-3, 2e-3, 2e-3, "s"), **gain}),
        Measurement(theirs, "ok", metrics={"time": Estimate(host, host, host, "s")}),
    ]
    if op:
        rows[0] = replace(rows[0], case=replace(mine, against=theirs.id))
    return explained(rows)


@pytest.mark.parametrize(
    ("op", "first"), [(None, "the host takes"), ("exp", "exp: the host takes")]
)
def test_where_the_host_is_faster_the_row_says_so(op, first):
    """In words, with both times; a name never reaches the terminal as it is."""
    row, host = beside(1e-3, op=op)

    assert row.explanation.cause == "host-faster"
    assert row.explanation.text == f"{first} 1.00 ms, \\x1b 2.00 ms: the device does not pay"
    assert {n: f.value for n, f in row.explanation.figures.items()} == {"host": 1e-3, "time": 2e-3}
    assert host.explanation is None


@pytest.mark.parametrize("place", [0, 1, -1])
def test_under_six_samples_are_no_ground_for_a_cause(place):
    """Of the row, or of what it is held against: their range is no interval. Six are enough."""
    for n, told in ((5, None), (6, "unequal-devices")):
        rows = group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05)
        rows[place] = thin(rows[place], n)
        assert getattr(cause(rows), "cause", None) == told


@pytest.mark.parametrize("name", ["speedup", "ideal", "efficiency"])
def test_a_refused_ratio_is_no_ground_for_a_cause(name):
    """Whatever the others say."""
    rows = group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05)
    metrics = {**rows[-1].metrics, name: Estimate.refused("1")}
    assert cause(rows) is not None

    assert cause([*rows[:-1], replace(rows[-1], metrics=metrics)]) is None


@pytest.mark.parametrize("op", [None, "exp"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_few_samples_do_not_make_the_host_faster(op, place):
    """Neither the device's own nor the host's; six of them may."""
    for n, told in ((5, None), (6, "host-faster")):
        rows = [replace(row, explanation=None) for row in beside(1e-3, op=op)]
        rows[place] = thin(rows[place], n)
        assert getattr(explained(rows)[0].explanation, "cause", None) == told


@pytest.mark.parametrize("op", [None, "exp"])
def test_a_device_that_may_be_as_fast_is_not_called_slower(op):
    """The whole interval must be below 1."""
    assert [row.explanation for row in beside(1e-3, op=op, high=1.0)] == [None, None]


def test_no_device_works_outside_of_all_spans():
    """From the first start to the last stop: spans that begin later are no longer for that."""
    time = 2 * SOLO
    why = cause(group(time, samples(time, (0.0, SOLO), (0.4 * SOLO, 1.4 * SOLO))))

    assert why.cause == "synchronisation"
    assert why.figures["outside"].value == pytest.approx(0.6 * SOLO)


def test_half_of_what_is_missing_is_the_other_processes_doing():
    """Less of it than leaves no other cause: it comes before what they make of equal devices."""
    rows = group(1.9 * SOLO, samples(2 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05)
    causes = [
        cause([*rows[:-1], replace(rows[-1], around=Around(foreign, 0.0))]).cause
        for foreign in (0.48, 0.46)
    ]

    assert causes == ["busy-machine", "unequal-devices"]


TWICE = 2 * SOLO


def apart_by(start):
    """Return samples of two devices, of which the second begins so many products later."""
    return samples(TWICE, (0.0, SOLO), (start * SOLO, (start + 1) * SOLO))


def busy_for(share):
    """Return samples of devices that work all the time, with that share of CPU time."""
    return samples(TWICE, (0.0, TWICE), (0.0, TWICE), cpu=(2 * TWICE * share,) * N)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (group(TWICE, samples(TWICE, *BOTH), overlap=0.49), "serialised"),
        (group(TWICE, samples(TWICE, *BOTH), overlap=0.5), "synchronisation"),
        (group(TWICE, busy_for(0.74)), "busy-machine"),
        (group(TWICE, busy_for(0.76)), "shared-silicon"),
        (group(TWICE, apart_by(0.49)), "synchronisation"),
        (group(TWICE, apart_by(0.51)), "unexplained"),
        # what takes longer than its slowest device is not explained by that one
        (group(3 * SOLO, samples(3 * SOLO, *BOTH), solo=(SOLO, 1.9 * SOLO), ideal=1.05,
               overlap=0.0), "serialised"),
    ],
)  # fmt: skip
def test_a_cause_accounts_for_its_part_or_leaves_it_to_the_next(found, expected):
    """Half of the time, or three quarters of a core."""
    assert cause(found).cause == expected


def test_of_several_shared_pieces_the_first_is_named():
    """The same one in each run."""
    shared = tuple(device(n, Kind.OPENCL, "core:1", "core:0") for n in (0, 1))
    why = cause(group(TWICE, samples(TWICE, *BOTH), devices=shared, ideal=1.0))

    assert "share silicon (core:0)" in why.text
