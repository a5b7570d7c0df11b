"""`gpumap trace`: a script runs as Python would run it, and what it did on its devices is shown."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
from flat_report import loads
from report_schema import checked
from scripts import script as devices
from shell import LIMIT, until
from tables import table

TEXTS = table(__file__)
OPEN = TEXTS["open"]
ONE = """
with gpumap.open("a->cpu0") as context:
    context.shared(ones, target="a")
"""


@pytest.fixture
def run(gpumap):
    """Run a script by `gpumap trace`: its text, options before it, and what stands behind it."""

    def traced(text, *options, behind=(), name="script.py", **env):
        (gpumap.folder / name).write_text(OPEN + dedent(text), encoding="utf-8")
        return gpumap("trace", *options, name, *behind, **env)

    return traced


@pytest.fixture
def traces(run, gpumap):
    """Run a script, and return its answer and its traces; the report is what the schema says."""

    def read(text, *options, **more):
        answer = run(text, *options, "--output", "report.json", **more)
        found = checked((gpumap.folder / "report.json").read_text())
        assert (found["kind"], found["exit_code"]) == ("trace", answer.code)
        return answer, found["traces"]

    return read


def ran(trace):
    return Counter((event["name"], event["device"]) for event in trace["events"])


def codes(gpumap):
    found = loads((gpumap.folder / "report.json").read_text())
    return [(error["code"], error["exit"]) for error in found["errors"]]


def mapped_after(out, own=""):
    """Return whether the report follows what a script has said: a headline, then its names."""
    _, _, rest = out.removeprefix(own).partition("\n")
    return out.startswith(own) and rest.startswith("Mapped name a to device ")


def test_json_on_stdout_comes_after_the_scripts_own(run):
    """Whoever wants it alone takes --output."""
    answer = run(f'print("mine")\n{ONE}', "--format", "json")
    first, _, rest = answer.out.partition("\n")
    assert (answer.code, first) == (0, "mine")
    checked(rest)


def test_hostile_names_are_harmless(run):
    """What a script says last is Python's to print as it is, and gpumap's to escape."""
    answer = run('raise ValueError("\x1b[2J\u202e[bold]")')
    own, _, error = answer.err.rpartition("\nerror: ")
    assert own.endswith("ValueError: \x1b[2J\u202e[bold]")
    assert r"ValueError: \x1b[2J\u202e[bold]" in error


@pytest.mark.parametrize(("options", "text", "count"), [
    ((), "gpumap.open().close()\ngpumap.open().close()\nraise SystemExit(3)", 1),
    (("--map", "a->cuda0"), "gpumap.open().close()", 0), ((), TEXTS["on_two"], 0),
])  # fmt: skip
def test_a_default_map_is_named(run, gpumap, options, text, count):
    """As by commands that measure: once, on stderr, and in the report; no map of their own."""
    gpumap.fake(devices())
    answer = run(text, *options, "--output", "report.json")
    notes = loads((gpumap.folder / "report.json").read_text())["notes"]
    assert answer.err.count("note: no map is given: using dev0->cuda0;dev1->cuda1\n") == count
    assert [note["code"] for note in notes].count("default-map") == count


def test_tables_are_capped(traces):
    """150 shapes, and 25 contexts: 100 rows and 20 contexts are shown; JSON has all events."""
    answer, found = traces(
        """
        with gpumap.open("a->cpu0;b->cpu0", policy="visible") as context:
            row = context.shared(np.ones((1, 1), "float32"), target="a")
            for n in range(1, 151):
                gpumap.dot(np.ones((n, 1), "float32"), row)
        for _ in range(24):
            gpumap.open("a->cpu0").close()
        """
    )
    assert "  the first 100 of 150 rows; " in answer.out
    assert "\n\nthe first 20 of 25 contexts are shown; " in answer.out
    assert (len(found), len(found[0]["events"])) == (25, 301)


@pytest.mark.parametrize("end", TEXTS["a_script_ends_as_by_python_alone"])
def test_a_script_ends_as_by_python_alone(run, gpumap, end):
    """What it prints is the same and comes first; 0 stays 0, and whatever else there is is 1."""
    answer = run(f"import sys\n{ONE}\n{end}", "--output", "report.json")
    alone = gpumap.run([sys.executable, "script.py"])
    own, said, _ = answer.err.partition("error: the script ended with ")
    failed = bool(alone.code)
    assert (answer.code, own, bool(said)) == (failed, alone.err, failed)
    assert codes(gpumap) == [("script", 1)] * failed
    assert mapped_after(answer.out, alone.out)
    assert f"exit code {alone.code}\n" in answer.err or not failed or "exit(" not in end


USES = TEXTS["uses"]
ODD = TEXTS["odd"]


@pytest.mark.parametrize(("text", "code", "error"), [
    (USES.format("'a->cpu0'", "np.ones((5, 5), 'float32')"), 1, "shape"),
    (USES.format("'a->cpu0', policy='strict'", "ones"), 1, "implicit-transfer"),
    (USES.format("'a->cpu64000'", "x"), 3, "absent"), ("print('no devices')", 1, "no-context"),
    ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])", 1, "no-context"),
    *((ONE + ODD.format(body), 1, "script") for body in (
        "def __str__(self): return 1 / 0", "def __str__(self): return 5")),
])  # fmt: skip
def test_what_a_script_does_not_catch_is_its_own_mistake(run, gpumap, text, code, error):
    """With its traceback and exit 1, whatever its class does; an absent device is no mistake."""
    answer = run(text, "--output", "report.json")
    assert (answer.code, codes(gpumap)) == (code, [(error, code)])
    assert ("Traceback" in answer.err) == (error not in ("absent", "no-context"))
    assert error != "script" or "error: the script ended with Odd" in answer.err


@pytest.mark.parametrize("waits", [True, False])
def test_a_device_that_is_lost_ends_in_3(run, gpumap, waits):
    """It was there and failed, also if its work is never waited for: no mistake of the script."""
    gpumap.fake(devices({"fault": "lost", "fault_after": 2}))
    text = """
    context = gpumap.open("a->cuda0", backend="fake")
    a = context.shared(ones, target="a")
    b = gpumap.dot(a, a)
    c = gpumap.dot(b, b)
    """
    answer = run(dedent(text) + "c.numpy()" * waits, "--output", "report.json")
    assert answer.code == 3
    assert {exit_ for _, exit_ in codes(gpumap)} == {3}
    assert "device-lost" in dict(codes(gpumap))


@pytest.mark.parametrize(
    "made",
    [None, Path.mkdir, os.mkfifo, b"x = = 1\n", b"x = '\xff'\n", b"a\0b\n", b"# coding: nonsense\n",
     b"(" * 5000 + b")" * 5000, b"'\x1b[2J\n"],
    ids=["missing", "folder", "fifo", "syntax", "bytes", "nul", "coding", "nested", "hostile"],
)  # fmt: skip
def test_a_script_that_is_none_ends_in_2(gpumap, made):
    """Without a word of Python's own, and nothing blocks."""
    path = gpumap.folder / "s.py"
    if made is not None:
        made(path) if callable(made) else path.write_bytes(made)
    answer = gpumap("trace", "s.py")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert answer.err.replace("\n", "").isprintable()
    assert "Traceback" not in answer.err


SELF = TEXTS["self"]


@pytest.mark.parametrize(
    "behind", [(), ("--map", "x", "--help"), ("--", "-a"), ("trace", "", "a b")], ids=str
)
def test_a_script_is_main_as_python_makes_it(run, gpumap, behind):
    """Its name, its arguments, its folder: the same words as without gpumap."""
    (gpumap.folder / "beside.py").write_text("WORD = 'its neighbour'")
    answer = run(SELF + ONE, behind=behind)
    alone = gpumap.run([sys.executable, "script.py", *behind])
    assert (answer.code, alone.code) == (0, 0)
    assert answer.out.startswith(alone.out)
    assert alone.out


def test_a_script_elsewhere(gpumap):
    """Its own folder is first, not the one where gpumap runs; also by a link, as Python does it."""
    (gpumap.folder / "there").mkdir()
    (gpumap.folder / "there" / "beside.py").write_text("WORD = 1")
    (gpumap.folder / "there" / "s.py").write_text(f"import beside\n{OPEN}{ONE}")
    (gpumap.folder / "link.py").symlink_to("there/s.py")
    assert gpumap("trace", "there/s.py").code == 0
    assert gpumap("trace", "link.py").code == 0
    module = [sys.executable, "-P", "-m", "gpumap", "trace", "there/s.py"]
    assert gpumap.run(module).code == 0


def test_neighbours_called_as_libraries_of_ours(run, gpumap):
    """The script gets its own; gpumap shows its tables with the real ones."""
    for name in ("tabulate", "csv"):
        (gpumap.folder / f"{name}.py").write_text(f"WORD = '{name} of mine'")
    text = f"import csv, tabulate\nprint(csv.WORD, tabulate.WORD)\n{ONE}"
    answer = run(text, "--output", "r.csv")
    assert (answer.code, answer.err) == (0, "")
    assert mapped_after(answer.out, "csv of mine tabulate of mine\n")
    assert "ran," in (gpumap.folder / "r.csv").read_text()


@pytest.mark.parametrize("mess", TEXTS["what_a_script_does_to_the_process_costs_no"])
def test_what_a_script_does_to_the_process_costs_no_result(run, gpumap, mess):
    """Streams, folders, paths, signals: the report comes out, on stdout and in the file."""
    names = "import builtins, contextlib, io, os, signal, sys"
    answer = run(f"{names}\n{ONE}\n{mess}", "--output", "report.json")
    assert (answer.code, answer.err) == (0, "")
    assert mapped_after(answer.out)
    assert loads((gpumap.folder / "report.json").read_text())["status"] == "ok"


def test_a_script_that_ends_the_process_leaves_no_old_report(run, gpumap):
    """Nothing can be written then; nor does what an earlier run wrote pass for this one's."""
    asked = ("--output", "r.json", "--output", "p.csv")
    assert run(ONE, *asked).code == 0
    answer = run(f"{ONE}\nimport os\nos._exit(0)", *asked)
    assert (answer.code, answer.out) == (0, "")
    assert [(gpumap.folder / name).read_text() for name in ("r.json", "p.csv")] == ["", ""]
    assert gpumap("report", "r.json").code == 2


def test_the_map_of_the_command_is_what_open_finds(traces, gpumap):
    """By --map, of a file too, or the environment; a map in the script is the script's."""
    text = "with gpumap.open() as context: context.shared(ones, target=context.names[-1])"
    (gpumap.folder / "m").write_text("x->cpu0;y->cpu0")
    _, (one,) = traces(text, "--map", "a->cpu0;b->cpu0")
    _, (two,) = traces(text, "--map", "@m")
    _, (env,) = traces(text, GPUMAP_CONTEXTS="z->cpu0")
    _, (own,) = traces(ONE, "--map", "x->cpu0")
    names = [[name for _, name in ran(each)] for each in (one, two, env, own)]
    assert names == [["b"], ["y"], ["z"], ["a"]]


WAITS = TEXTS["waits"]
POOL = TEXTS["pool"]
MANY = TEXTS["many"]


@pytest.mark.parametrize(
    ("text", "uploads"), [(WAITS, {"a": 1}), (POOL, {"a": 5}), (MANY, {"a": 100, "b": 100})]
)
def test_threads_are_waited_for(traces, text, uploads):
    """What they do after the script's text, or at once, is in the trace; nothing is lost."""
    _, (trace,) = traces(f"import threading\n{text}")
    assert ran(trace) == {("upload", name): count for name, count in uploads.items()}
    assert trace["closed"] == ("with gpumap.open" in text)


FORK = TEXTS["fork"]
ENDED = TEXTS["ended"]
SPAWNS = TEXTS["spawns"]


@pytest.mark.parametrize(("text", "said"), [
    (FORK.format(end="pass"), "waited 0\n"), (FORK.format(end="sys.exit(7)"), "waited 7\n"),
    (FORK.format(end="os._exit(8)"), "waited 8\n"), (FORK.format(end="1 / 0"), "waited 1\n"),
    (FORK.format(end="context.shared(ones, target='a')"), "waited 1\n"),
    (ENDED + ONE, "-15\n"),  # SIGTERM ends it at once, as `multiprocessing` expects
    (SPAWNS, "[2, 3]\n"),  # which imports the script again
])  # fmt: skip
def test_a_child_ends_as_it_would_without_gpumap(traces, gpumap, text, said):
    """It has no report: there is one, of the script's own process."""
    answer, (trace,) = traces(text, PYTHONWARNINGS="")
    alone = gpumap.run([sys.executable, "script.py"], PYTHONWARNINGS="")
    assert (answer.code, ran(trace)) == (0, {("upload", "a"): 1})
    assert mapped_after(answer.out, alone.out)
    assert answer.out.count("Mapped name a") == 1
    last = alone.err.splitlines()[-1:]
    assert (alone.out.endswith(said), answer.err.splitlines()[-1:]) == (True, last)
    assert answer.err.count("Traceback") == alone.err.count("Traceback")


def started(gpumap, *options, end="os.mkdir('begun')\ntime.sleep(600)"):
    (gpumap.folder / "s.py").write_text(f"{OPEN}{ONE}\nimport os, time\n{end}\n")
    command = [gpumap.command, "trace", *options, "s.py"]
    process = gpumap.start(command, stdin=subprocess.PIPE, text=True)
    until((gpumap.folder / "begun").exists, process)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_script_leaves_its_trace(gpumap, number):
    with started(gpumap, "--output", "report.json") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT)
    report = checked((gpumap.folder / "report.json").read_text())
    assert (process.returncode, report["status"], err) == (130, "interrupted", "")
    assert ran(report["traces"][0]) == {("upload", "a"): 1}
    assert "trace: what ran where" in out
    assert out.endswith("\n\nstopped early (interrupted): partial results above\n")
    assert gpumap("report", "report.json").out == out


@pytest.mark.parametrize(("end", "code", "own"), [
    (TEXTS["catches"], 0, "caught\n"), (TEXTS["has_ended"], 130, ""),
], ids=["caught", "threads"])  # fmt: skip
def test_an_interrupt_is_the_scripts_until_its_threads_are_waited_for(gpumap, end, code, own):
    """Who catches it ends as he says; where the script's text has ended, it is ours."""
    with started(gpumap, end=end) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (code, "")
    assert out.startswith(own)
    assert ("trace: what ran where" if code else "Mapped name a to device ") in out
