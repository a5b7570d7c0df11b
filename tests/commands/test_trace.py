"""`gpumap trace`: a script runs as Python would run it, and what it did on its devices is shown."""

import signal
import sys
import tempfile
from collections import Counter

import pytest
from refusals import refusal
from report_schema import checked
from scripts import script as devices
from shell import ended, until
from tables import table

from gpumap.app import tracing
from gpumap.errors import SourceError

TEXTS = table(__file__)
OPEN, ONE = TEXTS["open"], TEXTS["one"]


@pytest.fixture
def run(gpumap):
    """Run a script by `gpumap trace`; return the answer, its traces, and what its errors are."""

    def traced(text, *options, behind=(), **env):
        (gpumap.folder / "script.py").write_text(OPEN + text)
        given = ("--output", "report.json", *options, "script.py", *behind)
        answer = gpumap("trace", *given, **env)
        found = checked((gpumap.folder / "report.json").read_text())
        assert (found["kind"], found["exit_code"]) == ("trace", answer.code)
        return answer, found["traces"], [(e["code"], e["exit"]) for e in found["errors"]]

    return traced


def ran(trace):
    return Counter((event["name"], event["device"]) for event in trace["events"])


def test_json_on_stdout_comes_after_the_scripts_own(run):
    answer, _, _ = run(f'print("mine")\n{ONE}', "--format", "json")
    first, _, rest = answer.out.partition("\n")
    assert (answer.code, first) == (0, "mine")
    checked(rest)


def test_tables_are_capped(run):
    """150 shapes: 100 rows are shown, and JSON has all events."""
    answer, found, _ = run(TEXTS["shapes"])
    assert "  the first 100 of 150 rows; " in answer.out
    assert [len(each["events"]) for each in found] == [301]


@pytest.mark.parametrize("waits", [True, False])
def test_a_device_that_is_lost_ends_in_3(run, gpumap, waits):
    """It was there and failed, also if its work is never waited for: no mistake of the script."""
    gpumap.fake(devices({"fault": "lost", "fault_after": 2}))
    answer, _, errors = run(TEXTS["lost"] + "c.numpy()" * waits)
    assert answer.code == 3
    assert {exit_ for _, exit_ in errors} == {3}
    assert "device-lost" in dict(errors)


def test_the_map_of_the_command_is_what_open_finds(run, gpumap):
    """By --map, of a file too, or the environment; a map in the script is the script's."""
    text = "with gpumap.open() as context: context.shared(ones, target=context.names[-1])"
    (gpumap.folder / "m").write_text("x->cpu0;y->cpu0")
    _, (one,), _ = run(text, "--map", "a->cpu0;b->cpu0")
    _, (two,), _ = run(text, "--map", "@m")
    _, (env,), _ = run(text, GPUMAP_CONTEXTS="z->cpu0")
    _, (own,), _ = run(ONE, "--map", "x->cpu0")
    names = [[name for _, name in ran(each)] for each in (one, two, env, own)]
    assert names == [["b"], ["y"], ["z"], ["a"]]


@pytest.mark.parametrize("end", TEXTS["ends"])
def test_a_script_runs_as_by_python_alone(run, gpumap, end):
    """Its words, its name, its arguments and its folder; 0 stays 0, and whatever else is 1."""
    (gpumap.folder / "beside.py").write_text("WORD = 'its neighbour'")
    behind = ("--map", "x", "--help")
    text = f"{TEXTS['self']}{ONE}\n{end}"
    answer, _, errors = run(text, behind=behind)
    alone = gpumap.run([sys.executable, "script.py", *behind])
    own, said, _ = answer.err.partition("error: the script ended with exit code ")
    failed = bool(alone.code)
    assert (answer.code, own, bool(said)) == (failed, alone.err, failed)
    assert errors == [("script", 1)] * failed
    assert answer.out.startswith(alone.out)  # then a headline, and its names
    rest = answer.out.removeprefix(alone.out).partition("\n")[2]
    assert rest.startswith("Mapped name a to device ")


@pytest.mark.parametrize(("text", "code", "error"), TEXTS["mistakes"])
def test_what_a_script_does_not_catch_is_its_own_mistake(run, text, code, error):
    """With its traceback and exit 1; an absent device is no mistake."""
    answer, _, errors = run(text)
    assert (answer.code, errors) == (code, [(error, code)])
    assert ("Traceback" in answer.err) == (error != "no-context")


def test_threads_are_waited_for(run):
    _, (trace,), _ = run(TEXTS["pool"])
    assert (ran(trace), trace["closed"]) == ({("upload", "a"): 5}, False)


@pytest.mark.parametrize("text", [TEXTS["fork"], TEXTS["other"]], ids=["fork", "another program"])
def test_the_traced_process_is_the_scripts_own(run, text):
    """One that ends without a trace is not given that of a process which it has started."""
    answer, _, errors = run(f"{text}\nos._exit(0)")
    assert (answer.code, errors) == (1, [("no-context", 1)])


def test_an_interrupted_script_leaves_its_trace(gpumap):
    end = "import os, time\nos.mkdir('begun')\ntime.sleep(600)"
    (gpumap.folder / "s.py").write_text(f"{OPEN}{ONE}\n{end}\n")
    process = gpumap.start([gpumap.command, "trace", "--output", "report.json", "s.py"])
    until((gpumap.folder / "begun").exists, process)
    process.send_signal(signal.SIGINT)
    answer = ended(process)
    report = checked((gpumap.folder / "report.json").read_text())
    assert (answer.code, report["status"]) == (130, "interrupted")
    assert ran(report["traces"][0]) == {("upload", "a"): 1}
    assert answer.out.endswith("\n\nstopped early (interrupted): partial results above\n")


def test_the_trace_is_written_before_the_libraries_of_its_contexts_end(run, gpumap):
    """What a driver registers for its end comes after: an open context is still waited for."""
    answer, _, _ = run(TEXTS["at_the_end"])
    assert (answer.code, answer.err) == (0, "")
    told = [(gpumap.folder / name).read_text() for name in ("before", "between")]
    assert told == ["True", "True"]


def test_without_a_folder_for_the_trace_the_fix_is_to_name_one(tmp_path, monkeypatch):
    """Python looks at TMPDIR, at three folders of the system, and where it stands."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    found = refusal(SourceError, tracing._folder)
    assert found.message == "there is no folder for the trace: No such file or directory"
    assert "TMPDIR" in found.hint
