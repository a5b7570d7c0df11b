"""`gpumap compare --ab`: two commands in turn, what differs between them, how a side may fail."""

import os
import stat
import sys

import pytest
from scripts import RATE, report, script

from gpumap.app import interleaved
from gpumap.app.program import Program
from gpumap.cli import group
from gpumap.errors import DeviceError, QuestionError, TimedOut
from gpumap.judge import headline
from gpumap.model import replace
from gpumap.model.io import read

DOT = "gpumap bench dot --size 64 --cases one --map a->cuda0"
LIAR = f"""#!{sys.executable}
import os, signal, sys, time
read, write = map(int, os.environ["GPUMAP_TURNS"].split(","))
def turn():
    os.write(write, b"turn\\n")
    return os.read(read, 3)
"""


@pytest.fixture
def scripted(gpumap):
    """A shell whose device is another one with GPUMAP_FAKE=slow.toml, lost.toml and so on."""
    for name, devices in {
        "slow.toml": script({"rate": RATE / 1.25}), "lost.toml": script({}, fault="lost"),
        "wrong.toml": script({}, fault="wrong-product"), "faster.toml": script({"rate": 2 * RATE}),
    }.items():  # fmt: skip
        (gpumap.folder / name).write_text(devices)
    return gpumap.fake(script({}))


def ab(gpumap, a, b, *arguments):
    return gpumap("compare", "--ab", a, b, *arguments)


@pytest.mark.parametrize(("variable", "code", "start"), [
    ("GPUMAP_SEED=1", 0, "B is not slower than A by 5 % (worst: dot.one.time, CI 0 % to 0 %)."),
    ("GPUMAP_FAKE=slow.toml", 1, "B is 25 % slower than A (CI 25 % to 25 %): dot.one.time."),
    ("GPUMAP_FAKE=faster.toml", 0, "B is 50 % faster than A (CI 50 % to 50 %): dot.one.time."),
])  # fmt: skip
def test_b_is_judged_against_a(scripted, variable, code, start):
    """The control has no part: it would be as much slower, and tell of a slower device."""
    answer = ab(scripted, DOT, f"{variable} {DOT}", "--format", "json")
    found = report(answer)
    assert (answer.code, found["headline"]["text"].startswith(f"Simulated: {start}")) == (
        code,
        True,
    )
    (verdict,) = found["verdicts"]
    assert verdict["relative"] is None
    assert found["settings"]["interleaved"] == [DOT, f"{variable} {DOT}"]
    name, _, value = variable.partition("=")
    before = scripted.env.get(name, "nothing")
    assert f"differs: {name}: {before} in A, {value} in B" in answer.err


def test_one_environment_is_said(scripted):
    answer = ab(scripted, DOT, DOT)
    assert answer.code == 0
    assert "A and B have one environment" in answer.err


def test_a_pattern_that_selects_nothing_is_refused(scripted):
    answer = ab(scripted, DOT, DOT, "--judge", "dot.many.tiem")
    assert answer.code == 2
    assert '--judge "dot.many.tiem" selects no metric' in answer.err


def test_a_metric_without_an_interval_leaves_the_others_compared(scripted):
    """It is inconclusive, and the headline has the number of such metrics."""
    ab(scripted, DOT, f"GPUMAP_FAKE=slow.toml {DOT}", "--output", "json=r.json")
    compared = read(scripted.folder / "r.json")
    (slower,) = compared.verdicts
    few = replace(slower, verdict="inconclusive", value=None, low=None, high=None)
    start = "Inconclusive: 1 of 1 metric cannot exclude that B is 5 % slower than A (dot.one.time, "
    for verdicts, text in {
        (few, slower): "B is 25 % slower than A",
        (few,): f"{start}too few blocks for an interval).",
        (few, replace(slower, verdict="pass")): start.replace("of 1 metric", "of 2 metrics"),
    }.items():
        found = replace(compared, verdicts=verdicts, exit_code=5)
        assert headline.compare(found).text.removeprefix("Simulated: ").startswith(text)


@pytest.mark.parametrize(("b", "code", "why"), [
    ("GPUMAP_FAKE=lost.toml DOT", 3, "B ended with exit code 3"),
    ("GPUMAP_FAKE=wrong.toml DOT", 4, "B ended with exit code 4"),
    ("DOT --nonsense", 2, "B ended with exit code 2"), ("DOT --dry-run", 2, "never took turns"),
    ("./no-such-python -m DOT", 2, "B: cannot start ./no-such-python: No such file or directory"),
])  # fmt: skip
def test_a_side_that_fails_is_an_error_with_its_exit_code(scripted, b, code, why):
    answer = ab(scripted, DOT, b.replace("DOT", DOT), "--format", "json")
    assert answer.code == code
    found = report(answer)
    assert found["verdicts"] == []
    assert why in found["errors"][0]["message"]


@pytest.mark.parametrize("text", ["x", "1", "9999,9998", "-1,-1", "1e3,2", "9" * 30 + ",1"])
def test_a_variable_that_no_comparison_has_set_is_refused(scripted, text):
    answer = scripted(*DOT.split(" ")[1:], GPUMAP_TURNS=text)
    assert answer.code == 2
    assert "only `gpumap compare --ab` sets it" in answer.err


def run(folder, *bodies, limit=20.0):
    """Run processes that are no gpumap, as both sides."""
    both = []
    for name, body in zip("AB", bodies, strict=True):
        path = folder / f"python{name}"
        path.write_text(LIAR + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        with group.make_context("gpumap", ["compare"], resilient_parsing=True):
            both.append(interleaved._side(name, f"{path} -m {DOT}"))
    both = [replace(side, limit=limit) for side in both]
    program = Program((), {"PATH": os.environ["PATH"]}, str(folder), sys.stdout, sys.stderr)
    return interleaved.measured(both, program)


@pytest.mark.parametrize(("body", "error", "why"), [
    ("turn(); os.write(write, b'rubbish')", QuestionError, "wrote 'rubbish' in place of its turn"),
    ("turn(); os.write(write, b'turn\\nturn\\n'); time.sleep(9)", QuestionError, "in place of"),
    ("turn(); time.sleep(60)", TimedOut, "B was silent for 0.8 s"),
    ("turn(); os.close(write); os.close(read); time.sleep(60)", TimedOut, "did not end"),
    ("turn(); os.kill(os.getpid(), signal.SIGKILL)", DeviceError, "was ended by signal 9"),
    ("turn(); sys.exit('no\\x1b[31m luck')", QuestionError, "no\\x1b[31m luck"),
    ("turn()", QuestionError, "B ended with exit code 0"), ("", QuestionError, "never took turns"),
])  # fmt: skip
def test_what_dies_hangs_or_prints_rubbish_is_an_error(tmp_path, monkeypatch, body, error, why):
    """The other side, which is parked meanwhile, ends too."""
    monkeypatch.setattr(interleaved, "_END", 0.5)
    alive = "open('A.pid', 'w').write(str(os.getpid()))\nwhile turn(): pass\ntime.sleep(60)"
    with pytest.raises(error) as raised:
        run(tmp_path, alive, body, limit=0.8)
    assert why in str(raised.value)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "A.pid").read_text()), 0)


def test_samples_are_taken_in_turn(tmp_path):
    """A first, then B first; and never both at once."""
    body = """
for n in range(4):
    turn()
    for what in ("begin", "end"):
        with open("log", "a") as log: log.write(f"{sys.argv[0][-1]}{n} {what}\\n")
        time.sleep(0.02)
open(sys.argv[sys.argv.index("--output") + 1].removeprefix("json="), "w").write("{}")
"""
    with pytest.raises(QuestionError):  # no report
        run(tmp_path, body, body)
    order = ["A0", "B0", "B1", "A1", "A2", "B2", "B3", "A3"]
    expected = [f"{one} {what}" for one in order for what in ("begin", "end")]
    assert (tmp_path / "log").read_text().split("\n")[:-1] == expected
