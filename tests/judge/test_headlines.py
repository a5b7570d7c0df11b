"""The headline of a report: the answer first, the worst level wins, and no text but its own."""

import re

import pytest
from cases import thin
from commands.scripts import script, scripted
from golden import held
from hypothesis import given
from hypothesis import strategies as st
from report.made_reports import EVERY, bindings, case, made, ok, skipped, verdict, wrong
from saved_reports import COMMANDS, written
from tables import table

from gpumap.judge.answers import check_line
from gpumap.judge.headline import LEVELS
from gpumap.judge.phrases import LIMIT, SIMULATED
from gpumap.model import (
    Around,
    DeviceLibrary,
    DeviceRef,
    Estimate,
    Explanation,
    Kind,
    MapText,
    replace,
)
from gpumap.model.io import read
from gpumap.parse import parse_map
from gpumap.report import Style
from gpumap.results import headline
from gpumap.results.shown import render

ONE = script({})
SAVED = "bench dot --size 64 --cases solo --map a->cuda0"
RUNS = table(__file__, "headlines")
INTERVAL = re.compile(r"\bCI \d|\[-?\d[\d.]*, ")


def reported(gpumap, devices, command, name="r.json"):
    gpumap.fake(devices)(*command.split(" "), "--quiet", "--output", f"json={name}")
    return read(gpumap.folder / name)


@pytest.mark.timeout(1200)
def test_the_headlines_of_scripted_runs(another, renew):
    reports = {n: reported(another(), scripted(row), row["command"]) for n, row in RUNS.items()}
    shell = another()
    reported(shell, ONE, SAVED, "base.json")
    reported(shell, script({}, noise=0.35), SAVED, "new.json")
    reports["compare, noise"] = reported(shell, ONE, "compare base.json new.json")
    for report in reports.values():
        consistent(report, report.headline)
    found = {name: report.headline for name, report in reports.items()}
    lines = [f"{name} [{one.level}]: {one.text}" for name, one in found.items()]
    held("headlines", "\n".join([*lines, ""]), renew=renew)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_saved_headline_contradicts_its_report(name):
    report = read(written(name).path)
    consistent(report, report.headline)


def consistent(report, found):
    assert found.level in LEVELS
    assert 0 < len(found.text) <= LIMIT
    assert found.text.startswith(SIMULATED) == report.simulated
    if any(row.status == "failed" for row in report.measurements):
        assert found.level == "failed"
    if found.level == "good":
        assert report.exit_code == 0
    if found.level == "untrusted":
        assert (found.low, found.high, found.cause) == (None, None, None)
        assert INTERVAL.search(found.text) is None
    if found.low is not None:
        assert found.low <= found.value <= found.high
    figures = {row.case.id: row.metrics for row in report.measurements}
    figures |= {fit.id: fit.metrics for fit in report.fits}
    if found.metric in figures.get(found.row, {}) and found.value is not None:
        figure = figures[found.row][found.metric]
        assert found.value == figure.value
        assert found.low in (None, figure.low)
    causes = [row.explanation.cause for row in report.measurements if row.explanation]
    assert found.cause is None or found.cause in causes or report.kind == "doctor"


def product(name, state, gain=None, spread=0.0, size=64, against=None, bound=None):
    bound = bound or bindings()[: 2 if name.startswith("many") else 1]
    of = replace(case(name, bound), params={"size": size, "dtype": "float32"}, against=against)
    if state == "failed":
        return wrong(of)
    if state == "left out":
        return skipped(of, "budget", "no time was left")
    figures = {"time": Estimate(1.0, 0.9, 1.1, "s"), "rate": Estimate(2.0, 1.9, 2.1, "FLOP/s")}
    if gain is not None:
        figures["speedup"] = Estimate(gain, gain - spread, gain + spread, "1")
        figures["ideal"] = Estimate(2.0, 1.9, 2.1, "1")
    if state == "few":
        figures = thin(figures)
    if state == "impossible":
        figures["speedup"] = Estimate.refused("1")
    if state == "above":
        figures["efficiency"] = Estimate.refused("1")
    row = replace(ok(of, flags=FLAGS.get(state, ())), metrics=figures)
    if state == "busy":
        row = replace(row, explanation=Explanation("cpu-contention", "other processes kept 1 busy"))
    return row


FLAGS = {"ceiling": ("over-ceiling",), "impossible": ("impossible",), "above": ("impossible",)}
STATES = ("ok", "few", "busy", "ceiling", "impossible", "above", "failed", "left out")


@given(
    one=st.sampled_from(("ok", "few", "failed", "left out")),
    many=st.sampled_from(STATES),
    gain=st.floats(0.01, 4.0),
    spread=st.floats(0.0, 2.0),
    sizes=st.lists(st.sampled_from((32, 64, 128)), min_size=1, max_size=3, unique=True),
    names=st.tuples(*[st.text(st.characters(), min_size=1, max_size=60)] * 2),
    simulated=st.booleans(),
)
def test_no_report_of_chance_is_contradicted(one, many, gain, spread, sizes, names, simulated):
    rows, bound = [], bindings(names)
    for size in sizes:
        first = product("one", one, size=size, bound=bound[:1])
        second = product("many", many, gain, spread, size, first.case.id, bound)
        rows += [first, second]
    status, code = ("wrong-data", 4) if "failed" in (one, many) else ("ok", 0)
    report = made(status, code, names=names, measurements=tuple(rows), notes=())
    report = replace(report, simulated=simulated)
    found = headline(report)
    consistent(report, found)
    if many != "ok" and code == 0:
        assert found.level == "untrusted"
    if code == 0 and many == "ok" and found.level == "good":
        assert gain >= 0.9 * 2.0
        assert found.row == rows[2 * sizes.index(max(sizes)) + 1].case.id


@pytest.mark.parametrize(
    "state", ["wide", *(state for state in STATES if state not in ("ok", "failed"))]
)
def test_what_is_not_trusted_has_no_interval_and_a_way_out(state):
    spread, as_ = (0.5, "ok") if state == "wide" else (0.01, state)
    rows = (product("one", "ok"), product("many", as_, 1.9, spread))
    report = made(measurements=rows, notes=())
    found = headline(report)
    consistent(report, found)
    assert found.level == "untrusted"
    assert "--budget" in found.text or "on an idle machine" in found.text
    assert ("The samples differ" in found.text) == (state == "wide")
    alone = headline(made(measurements=(product("one", "few"),), notes=()))  # of one device too
    assert (alone.level, alone.low) == ("untrusted", None)


def test_a_cause_is_named_only_where_its_interval_leaves_out_zero():
    row = product("many", "ok", 1.0, 0.01)
    named = []
    for low in (-0.1, 0.1):
        fetch = {"fetch": Estimate(0.5, low, 0.9, "s"), "time": Estimate(1.0, 0.9, 1.1, "s")}
        slow = replace(row, explanation=Explanation("transfer-bound", "x", fetch))
        found = headline(made(measurements=(product("one", "ok"), slow), notes=()))
        named.append((found.cause, "fetching takes 50 %" in found.text))
    assert named == [(None, False), ("transfer-bound", True)]


def test_of_several_sizes_the_headline_is_on_the_largest():
    rows = [
        product(name, "ok", gain, size=size)
        for size, gain in ((128, 1.9), (32, 1.2))
        for name in ("one", "many")
    ]
    found = headline(made(measurements=tuple(rows), notes=()))
    assert ("size=128" in found.row, found.value) == (True, 1.9)


def test_the_worst_level_wins():
    """Untrusted before what is below; failed before all; a gate's no before what is unclear."""
    unclear, missed = verdict("inconclusive", limit=1.8), verdict("fail", limit=3.0)
    ends = (("ok", 0, ()), ("ok", 5, (unclear,)), ("few", 1, (missed,)), ("failed", 4, (missed,)))
    found = []
    for state, code, verdicts in ends:
        rows = (product("one", "ok"), product("many", state, 1.0))
        found.append(headline(made("no", code, measurements=rows, notes=(), verdicts=verdicts)))
    assert [one.level for one in found] == ["below", "untrusted", "below", "failed"]
    assert "Limit missed:" in found[2].text


@pytest.mark.parametrize(("end", "colour"), [
    ("passed", "1;32"), ("limit missed", "1;33"), ("dry run", "33"), ("wrong data", "1;31"),
])  # fmt: skip
def test_a_terminal_shows_the_level_as_a_colour(end, colour):
    text = render("rich", EVERY[end](), Style(width=300, color=True))
    assert text.startswith(f"\x1b[{colour}m{SIMULATED}")


def test_cpu_contention_is_no_conclusion():
    """Cores that others keep busy: no verdict on a row that needs them, but what a gate decides."""
    host = bindings()
    devices = [
        replace(b, device=replace(b.device, kind=Kind.CPU, cores=(n,))) for n, b in enumerate(host)
    ]
    row = product("many", "ok", 1.9, 0.01, bound=tuple(devices))
    busy = replace(row, around=Around(1.0, 0.0, 0.0, 2))
    rows = (product("one", "ok"), busy)
    found = headline(made(measurements=rows, notes=()))
    assert (found.level, "Other processes used 1.00 cores" in found.text) == ("untrusted", True)
    met = verdict("pass", id_=row.case.id, value=1.9, low=1.85, high=1.95)
    found = headline(made(measurements=rows, notes=(), verdicts=(met,)))
    assert "Limit met: dot.many.speedup>=1.8; it is 1.90 (CI 1.85 to 1.95)." in found.text
    by_clock = {**busy.metrics, "speedup_observed": Estimate(1.2, 0.9, 1.8, "1")}
    rows = (product("one", "ok"), replace(busy, flags=("cpu",), metrics=by_clock))
    found = headline(made(measurements=rows, notes=(), verdicts=(met,)))
    by = "by CPU times, 1.20 by the clock: others had the cores."
    assert f"(CI 1.85 to 1.95) {by}" in found.text
    unclear = verdict("inconclusive", "compare", threshold=0.1, value=None, low=None, high=None)
    found = headline(made("inconclusive", 5, measurements=rows, notes=(), verdicts=(unclear,)))
    assert "Inconclusive: 1 of 1 metric needs more samples to exclude a 10 %" in found.text


def test_a_machine_without_a_gpu_is_below():
    """Its cores are usable. Nothing is concluded of a driver that does not answer."""
    report = EVERY["devices"]()
    cores = tuple(replace(d, kind=Kind.CPU, backend="numpy") for d in report.devices)
    lacking = DeviceLibrary(
        "pyopencl", usable=False, reason="not installed", fix="pip install pyopencl"
    )
    silent = DeviceLibrary(
        "cupy", usable=False, reason="it did not answer within 27 s", code="no-answer"
    )
    below = headline(replace(report, devices=cores, backends=(lacking,), simulated=False))
    unknown = headline(replace(report, backends=(silent,)))
    text = "No GPU or OpenCL device is usable; 2 cores are. Add one: pip install pyopencl"
    assert (below.level, below.text) == ("below", text)
    assert unknown.level == "untrusted"
    assert unknown.text.endswith(
        " usable. Cannot tell whether cupy has devices: it did not answer within 27 s."
    )
    installed = DeviceLibrary("pyopencl", usable=False, version="2026.1", fix="install a driver")
    absent = replace(lacking, name="cupy", fix="install CuPy")
    both = replace(report, devices=cores, backends=(absent, installed), simulated=False)
    # what is installed comes first
    assert headline(both).text.endswith("Add one: install a driver")


def test_the_line_to_paste_is_for_the_backend_that_was_asked():
    """Cores are of NumPy by default: those of PyTorch need its name. Who has all has two."""
    report = EVERY["devices"]()
    both = frozenset({"core:0", "core:1"})
    ref = DeviceRef(Kind.CPU, 0)
    core = replace(report.devices[0], kind=Kind.CPU, ref=ref, backend="torch", hardware=both)
    text = MapText("dev0->cpu0", "default")
    asked = DeviceLibrary("torch", usable=True, version="2.13.0")
    of_torch = replace(
        report, devices=(core,), backends=(asked,), source=text, map=parse_map(text.text)
    )
    line = 'gpumap check "dev0->cpu0"'
    assert check_line(of_torch) == f"{line} --backend torch"
    assert headline(of_torch).text.endswith(f"; 2 cores are. Map them with: {line} --backend torch")
    for found in ((replace(asked, name="numpy"),), (replace(asked, name="numpy"), asked)):
        assert check_line(replace(of_torch, backends=found)) == line


def test_what_is_usable_is_counted_by_what_people_call_it():
    """GPUs of all makers are GPUs; a TPU is none, nor is what OpenCL makes of cores."""
    report = EVERY["devices"]()
    kinds = (Kind.ROCM, Kind.XPU, Kind.TPU, Kind.OPENCL, Kind.CPU, Kind.CPU)
    devices = tuple(
        replace(report.devices[0], id=f"{kind}:{n}", kind=kind, hardware=frozenset({f"{kind}:{n}"}),
                facts={"type": "other"} if kind is Kind.OPENCL else {})
        for n, kind in enumerate(kinds)
    )  # fmt: skip
    text = headline(replace(report, devices=devices, backends=(), simulated=False)).text
    assert text.startswith("2 GPUs and 1 TPU and 1 OpenCL device and 2 cores are usable.")
