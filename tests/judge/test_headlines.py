"""The headline of a report: the answer first, the worst level wins, and no text but its own."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from functools import cache
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from commands.scripts import script
from golden import held
from hypothesis import given
from hypothesis import strategies as st
from report.made_reports import EVERY, bindings, case, made, ok, skipped, verdict, wrong

from gpumap.judge.headline import LEVELS, headline
from gpumap.judge.phrases import LIMIT, SIMULATED
from gpumap.model import Around, Estimate, Explanation, Kind, Probe
from gpumap.report import Style, render
from gpumap.saved import read

TWO, ONE = script(), script({})
PAIR = "--map a->cuda0;b->cuda1"
FAST = {"rate": 2**34, "bandwidth": 2**34}
FEW = {"rate": 2**28}
HOST = "[host]\nrate = 1e8\n\n"
CPU = "[host]\nrate = 6.7e7\n\n"
GPU = '[[device]]\nref = "cuda0"\nlatency = 5e-6\nlaunch = 5e-6\n'
SLOW = {"rate": 2**26}
PREDICT = "predict --bytes 100MB --latency 8us --bandwidth 10GB/s"
SAVED = "bench dot --size 64 --cases solo --map a->cuda0"
COPY = "transfer-cost --no-model --cases h2d"
REDUCE = f"bench allreduce --comm local --no-model {PAIR}"
# name: level, command, devices; of `compare` the reports that it compares, by their devices
RUNS = {
    "check, good": ("good", "check a->cuda0;b->cuda1", TWO),
    "check, eight": (
        "good",
        f"check {';'.join(f'n{n}->cuda{n}' for n in range(8))}",
        script(*[{}] * 8),
    ),
    "check, long names": ("good", f"check {'x' * 40}->cuda0;{'ä' * 17}->cuda1", TWO),
    "check, one device for two": ("below", "check a->cuda0;b->cuda0", TWO),
    "check, grammar": ("untrusted", "check --syntax-only a->cuda0", TWO),
    "check, not opened": ("untrusted", "check --no-open a->cuda0", TWO),
    "check, absent": ("failed", "check a->cuda0;b->cuda7", TWO),
    "check, no map": ("failed", "check", TWO),
    "check, errors": ("failed", "check a=>cuda0;;b->gpu0", TWO),
    "check, wrong data": ("failed", "check a->cuda0;b->cuda1", script({"fault": "flip"}, {})),
    "devices, good": ("good", "devices", TWO),
    "devices, none": ("failed", "devices", "\n"),
    "dot, good": ("good", f"bench dot --size 64 {PAIR}", TWO),
    "dot, sizes": ("good", f"bench dot --size 32,64 --budget 60s {PAIR}", TWO),
    "dot, one device": ("good", "bench dot --size 64 --map a->cuda0", ONE),
    "dot, one piece": ("below", "bench dot --size 64 --map a->cuda0;b->cuda0", ONE),
    "dot, unequal": ("below", f"bench dot --size 64 {PAIR}", script({}, {"rate": 2**30})),
    "dot, few": (
        "untrusted",
        f"bench dot --size 64 --cases many --budget 6s {PAIR}",
        script(**FEW),
    ),
    "dot, plan": ("untrusted", f"bench dot --size 64 --dry-run {PAIR}", TWO),
    "dot, let pass": ("untrusted", "bench dot --map a->cuda9 --if-absent skip", TWO),
    "dot, wrong": ("failed", f"bench dot --size 64 {PAIR}", script({}, {"fault": "wrong-product"})),
    "dot, lost": (
        "failed",
        f"bench dot --size 64 {PAIR}",
        script({}, {"fault": "lost", "fault_after": 40}),
    ),
    "dot, absent": ("failed", "bench dot --map a->cuda9", TWO),
    "dot, limit met": ("good", f"bench dot --size 64 {PAIR} --limit dot.many.speedup>=1.5", TWO),
    "dot, limit missed": ("below", f"bench dot --size 64 {PAIR} --limit dot.many.speedup>=3", TWO),
    "dot, limit open": (
        "untrusted",
        f"bench dot --size 64 --cases many --budget 6s {PAIR} --limit dot.one.time<=1s",
        script(**FEW),
    ),
    "chain, good": (
        "good",
        "bench chain --rows 1000 --map a->cuda0",
        "[host]\nrate = 1e6\n\n" + ONE,
    ),
    "chain, host": ("below", "bench chain --rows 1000 --map a->cuda0", HOST + ONE),
    "chain, few": (
        "untrusted",
        "bench chain --rows 1000 --budget 1s --map a->cuda0",
        HOST + script({}, rate=2**20),
    ),
    "chain, no kernels": ("failed", "bench chain --map a->cuda0", HOST + script({}, features=[])),
    "allreduce, good": ("good", f"{REDUCE} --sizes 4KiB", script(**FAST)),
    "allreduce, few": ("untrusted", f"{REDUCE} --sizes 4MiB --budget 1s", script(bandwidth=2**24)),
    "allreduce, one name": ("failed", "bench allreduce --comm local --map a->cuda0", ONE),
    "train, good": (
        "good",
        f"bench train --sweep width=16 --batch-per-device 32 --comm local --rule gosgd {PAIR}",
        script(**FAST),
    ),
    "train, below": (
        "below",
        f"bench train --sweep width=16 --batch-per-device 32 --comm local --rule bsp {PAIR}",
        script(**FAST),
    ),
    "transfer, model": ("good", f"transfer-cost --sizes 4KiB --cases h2d {PAIR}", script(**FAST)),
    "transfer, break-even": (
        "good",
        "transfer-cost --cases affine --map a->cuda0",
        HOST + script({}, **FAST),
    ),
    "transfer, no model": ("good", f"{COPY} --sizes 4KiB,64KiB {PAIR}", TWO),
    "transfer, one way": ("below", "transfer-cost --sizes 4KiB --no-model --map a->cuda0", ONE),
    "transfer, few": (
        "untrusted",
        f"{COPY} --sizes 4MiB --budget 1s --map a->cuda0",
        script({}, bandwidth=2**22),
    ),
    "transfer, wrong": ("failed", f"{COPY} --sizes 4KiB {PAIR}", script({}, {"fault": "flip"})),
    "doctor, used": ("good", "doctor a->cuda0", GPU + "rate = 1e12\n"),
    "doctor, slow": (
        "below",
        "doctor a->cuda0",
        HOST + GPU.replace("launch = 5e-6", "launch = 5e-3"),
    ),
    "doctor, absent": ("failed", "doctor a->cuda7", GPU),
    "selftest, good": ("good", f"selftest {PAIR}", script(**SLOW)),
    "selftest, noise": ("below", "selftest --map a->cuda0", script({"noise": 0.4}, **SLOW)),
    "selftest, lost": ("failed", f"selftest {PAIR}", script({"fault": "lost"}, {}, **SLOW)),
    "predict, good": ("good", f"{PREDICT} --compute 0.3s --devices 2", TWO),
    "predict, table": ("good", "predict --from theano-mpi", TWO),
    "predict, exchange": ("good", f"{PREDICT} --devices 8", TWO),
    "predict, below": ("below", f"{PREDICT} --compute 0.03s --devices 8", TWO),
    "predict, nothing": ("failed", "predict --bytes 1MB", TWO),
}
COMPARED = {
    "compare, equal": ("good", ONE, ONE, ""),
    "compare, faster": ("good", script({}, launch=1.25 * 2.0**-12), ONE, ""),
    "compare, slower": ("below", ONE, script({}, launch=1.25 * 2.0**-12), ""),
    "compare, noise": ("untrusted", ONE, script({}, noise=0.4), ""),
    "compare, others": ("failed", ONE, ONE, "--dtype float64"),
}
INTERVAL = re.compile(r"\bCI \d|\[-?\d[\d.]*, ")


def reported(gpumap, devices, command, name="r.json"):
    """Return the report that a command on scripted devices writes."""
    gpumap.fake(devices)(*command.split(" "), "--quiet", "--output", f"json={name}")
    return read(gpumap.folder / name)


@pytest.fixture(scope="module")
def every(another):
    """Return the report of a run by its name; each is made once, when it is first wanted."""

    @cache
    def of(name):
        shell = another()
        if name in RUNS:
            _, command, devices = RUNS[name]
            return reported(shell, devices, command)
        _, base, new, more = COMPARED[name]
        reported(shell, base, SAVED, "base.json")
        reported(shell, new, f"{SAVED} {more}".strip(), "new.json")
        return reported(shell, ONE, "compare base.json new.json")

    return of


LEVEL = {name: run[0] for name, run in (*RUNS.items(), *COMPARED.items())}


@pytest.mark.parametrize("name", LEVEL)
def test_a_run_has_the_level_that_its_table_has(every, name):
    """Good, below, untrusted or failed, as the table above says; and no contradiction."""
    report = every(name)

    assert report.headline.level == LEVEL[name]
    consistent(report, report.headline)


@pytest.mark.timeout(1200)  # alone, it makes every run
def test_the_headlines_of_scripted_runs(every, renew):
    """One line for each: its level, and what is said."""
    found = {name: every(name).headline for name in LEVEL}
    lines = [f"{name} [{one.level}]: {one.text}" for name, one in found.items()]
    held("headlines", "\n".join([*lines, ""]), renew=renew)


def consistent(report, found):
    """Hold what is true of every headline of every report."""
    assert found.level in LEVELS
    assert 0 < len(found.text) <= LIMIT
    assert found.text.isprintable()
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
    assert found.cause is None or found.cause in causes or report.diagnoses


# --- every format


@pytest.mark.parametrize("name", EVERY)
def test_every_format_has_the_same_text(name):
    """First in all that people read; none makes its own."""
    report = EVERY[name](("a", "b"), "x|<&y")
    text = report.headline.text
    wide = Style(width=300)
    assert json.loads(render("json", report, wide))["headline"]["text"] == text
    for format_ in ("plain", "rich", "github"):
        assert render(format_, report, wide).splitlines()[0] == text
    assert render("markdown", report, wide).splitlines()[0].strip("# `") == text
    assert next(csv.DictReader(io.StringIO(render("csv", report, wide))))["reason"] == text
    run = ET.fromstring(render("junit", report, wide)).find("testsuite/properties")  # noqa: S314 - our own
    assert (run[0].get("name"), run[0].get("value")) == ("headline", text)
    page = render("html", report, wide)
    shown = re.search(r"<h1>(.*?)</h1>", page)[1]
    assert unescape(re.sub(r"<wbr ?/?>", "", shown)) == text


def test_a_saved_headline_is_shown_as_it_was_written(gpumap):
    """Not computed anew, whatever this gpumap would say."""
    reported(gpumap, ONE, SAVED)
    tree = json.loads((gpumap.folder / "r.json").read_text())
    tree["headline"] |= {"text": "An older text.", "level": "below"}
    gpumap.folder.joinpath("r.json").write_text(json.dumps(tree))

    shown = gpumap("report", "r.json", "--accept-edited")

    assert shown.out.splitlines()[0] == "An older text."


@pytest.mark.parametrize(
    "headline",
    [None, {"text": 1}, {"level": "superb"}, {"text": "x" * 201}, {"text": ""}, {"value": "1"}],
)
def test_a_headline_that_is_none_is_refused(gpumap, headline):
    """Every key is checked, as the schema has it."""
    reported(gpumap, ONE, SAVED)
    tree = json.loads((gpumap.folder / "r.json").read_text())
    tree["headline"] = None if headline is None else tree["headline"] | headline
    gpumap.folder.joinpath("r.json").write_text(json.dumps(tree))

    assert gpumap("report", "r.json", "--accept-edited").code == 2


def test_a_wrong_question_is_answered_on_stderr_alone(gpumap):
    """Its report has a headline, and stdout stays empty."""
    answer = gpumap.fake(TWO)("check", "a=>cuda0", "--output", "json=r.json")

    found = json.loads((gpumap.folder / "r.json").read_text())["headline"]
    assert (answer.code, answer.out, found["level"]) == (2, "", "failed")


# --- reports of chance


def product(name, state, gain=None, spread=0.0, size=64, against=None, bound=None):
    """Return a row in a state: ok, few, busy, ceiling, impossible, failed, left out."""
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
        figures = {key: Estimate.without_interval(f.value, f.unit) for key, f in figures.items()}
    if state == "impossible":
        figures["speedup"] = Estimate.refused("1")
    row = replace(ok(of), metrics=figures)
    if state == "busy":
        row = replace(row, explanation=Explanation("cpu-contention", "other processes kept 1 busy"))
    flags = {"ceiling": ("over-ceiling",), "impossible": ("impossible",)}.get(state, ())
    return replace(row, flags=flags)


STATES = ("ok", "few", "busy", "ceiling", "impossible", "failed", "left out")


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
    """Whatever became of its rows, and whatever the names are."""
    rows, bound = [], bindings(names)
    for size in sizes:
        first = product("one", one, size=size, bound=bound[:1])
        second = product("many", many, gain, spread, size, first.case.id, bound)
        rows += [first, second]
    code = 4 if "failed" in (one, many) else 0
    report = made(
        "wrong-data" if code else "ok", code, names=names, measurements=tuple(rows), notes=()
    )
    report = replace(report, simulated=simulated)

    found = headline(report)

    consistent(report, found)
    if many != "ok" and code == 0:
        assert found.level == "untrusted"
    if code == 0 and many == "ok" and found.level == "good":
        assert (gain >= 0.9 * 2.0, found.row) == (
            True,
            rows[2 * sizes.index(max(sizes)) + 1].case.id,
        )


@pytest.mark.parametrize(
    "state", ["wide", *(state for state in STATES if state not in ("ok", "failed"))]
)
def test_what_is_not_trusted_has_no_interval_and_a_way_out(state):
    """It says which option helps."""
    spread, as_ = (0.5, "ok") if state == "wide" else (0.01, state)
    rows = (product("one", "ok"), product("many", as_, 1.9, spread))
    report = made(measurements=rows, notes=())

    found = headline(report)

    consistent(report, found)
    assert found.level == "untrusted"
    assert "--budget" in found.text or "--require-idle" in found.text
    assert ("The samples differ" in found.text) == (state == "wide")


@pytest.mark.parametrize(
    ("gain", "level"), [(1.85, "good"), (1.80, "good"), (1.79, "below"), (1.0, "below")]
)
def test_ninety_percent_of_the_ideal_are_good(gain, level):
    """The figure stands with its interval and its ideal."""
    report = made(measurements=(product("one", "ok"), product("many", "ok", gain, 0.01)), notes=())

    found = headline(report)

    assert found.level == level
    assert f"{gain:.2f} times" in found.text
    assert "2.00 is ideal" in found.text
    assert ("cause not identified" in found.text) == (level == "below")


def test_a_cause_is_named_only_where_its_interval_leaves_out_zero():
    """A fetch that may cost nothing is none."""
    row = product("many", "ok", 1.0, 0.01)
    named = []
    for low in (-0.1, 0.1):
        fetch = {"fetch": Estimate(0.5, low, 0.9, "s"), "time": Estimate(1.0, 0.9, 1.1, "s")}
        slow = replace(row, explanation=Explanation("transfer-bound", "x", fetch))
        found = headline(made(measurements=(product("one", "ok"), slow), notes=()))
        named.append((found.cause, "fetching takes 50 %" in found.text))
    assert named == [(None, False), ("transfer-bound", True)]


def test_of_several_sizes_the_headline_is_on_the_largest():
    """And says that there are others."""
    rows = [
        product(name, "ok", gain, size=size)
        for size, gain in ((128, 1.9), (32, 1.2))
        for name in ("one", "many")
    ]

    found = headline(made(measurements=tuple(rows), notes=()))

    assert ("size=128" in found.row, found.value) == (True, 1.9)
    assert found.text.endswith(" (1 size below)")


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


@pytest.mark.parametrize(
    ("end", "colour"), [("passed", "1;32"), ("limit missed", "1;33"), ("dry run", "33"),
                        ("wrong data", "1;31")],
)  # fmt: skip
def test_a_terminal_shows_the_level_as_a_colour(end, colour):
    """Green, yellow, and red for what failed."""
    text = render("rich", EVERY[end](), Style(width=300, color=True))
    assert text.startswith(f"\x1b[{colour}m{SIMULATED}")


def test_cpu_contention_is_no_conclusion():
    """Cores that others keep busy: nothing is told of a row that needs them."""
    host = bindings()
    devices = [
        replace(b, device=replace(b.device, kind=Kind.CPU, cores=(n,))) for n, b in enumerate(host)
    ]
    row = product("many", "ok", 1.9, 0.01, bound=tuple(devices))
    busy = replace(row, around=Around(1.0, 0.0, 0.0, 2))

    found = headline(made(measurements=(product("one", "ok"), busy), notes=()))

    assert (found.level, "Other processes kept 1.00 cores busy" in found.text) == (
        "untrusted",
        True,
    )


def test_a_driver_that_does_not_answer_is_no_answer():
    """Nothing is concluded of what could not be asked."""
    silent = Probe("cupy", usable=False, reason="it did not answer within 27 s", code="no-answer")
    found = headline(replace(EVERY["devices"](), backends=(silent,)))

    assert found.level == "untrusted"
    assert "Cannot tell whether cupy has devices" in found.text


def test_a_machine_without_a_gpu_is_below():
    """Its cores are usable; how to add a GPU's library is said."""
    report = EVERY["devices"]()
    cores = tuple(replace(d, kind=Kind.CPU, backend="numpy") for d in report.devices)
    lacking = Probe("pyopencl", usable=False, reason="not installed", fix="pip install pyopencl")
    found = headline(replace(report, devices=cores, backends=(lacking,), simulated=False))

    assert (found.level, found.text) == (
        "below",
        "No GPU or OpenCL device is usable; 2 cores are. Add one: pip install pyopencl",
    )
