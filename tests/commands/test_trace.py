"""`gpumap trace`: a script runs as Python would run it, and what it did on its devices is shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from textwrap import dedent

import pytest
from report_schema import validate
from scripts import ON_TWO
from scripts import script as devices
from shell import LIMIT, SIMULATED, on_a_terminal

MAP = ("--map", "a->cpu0;b->cpu0")
OPEN = """
import gpumap
import numpy as np

ones = np.ones((4, 4), "float32")
"""
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
        found = json.loads((gpumap.folder / "report.json").read_text(), parse_constant=pytest.fail)
        validate(found)
        assert (found["kind"], found["exit_code"]) == ("trace", answer.code)
        return answer, found["traces"]

    return read


def ran(trace):
    """Return what ran where, and how often."""
    return {(row["name"], row["device"]): row["count"] for row in trace["summary"]["ran"]}


def codes(gpumap):
    """Return the codes and exits of the errors of the report."""
    found = json.loads((gpumap.folder / "report.json").read_text())
    return [(error["code"], error["exit"]) for error in found["errors"]]


# --- the result


def test_the_json_has_every_event(traces, gpumap):
    """Each with its place, its bytes, and when it ran; a saved report shows what the run did."""
    gpumap.fake(devices())

    answer, (trace,) = traces(ON_TWO)

    assert trace["events"][2] == {
        "name": "copy", "device": "b->a", "kind": "transfer", "bytes": 16384, "shape": [64, 64],
        "implicit": True, "start_s": 0.00390625, "stop_s": 0.005859375, "line": "script.py:9",
    }  # fmt: skip
    assert [e["implicit"] for e in trace["events"]] == [n == 2 for n in range(8)]
    assert trace["entries"] == [
        {"name": "a", "device": "cuda:0", "backend": "fake"},
        {"name": "b", "device": "cuda:1", "backend": "fake"},
    ]
    again = gpumap("report", "report.json")
    assert (again.code, again.out, again.err) == (0, answer.out.removeprefix("64.0\n"), SIMULATED)


def test_json_on_stdout_comes_after_the_scripts_own(run):
    """Whoever wants it alone takes --output."""
    answer = run(f'print("mine")\n{ONE}', "--format", "json")

    first, _, rest = answer.out.partition("\n")
    assert (answer.code, first) == (0, "mine")
    validate(json.loads(rest))


def test_the_viewers_file(run, gpumap):
    """Every event of the report is on its time line."""
    gpumap.fake(devices())

    assert run(ON_TWO, "--perfetto", "trace.json").code == 0

    found = json.loads((gpumap.folder / "trace.json").read_text())
    drawn = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert len(drawn) == 8
    assert [e["ts"] for e in drawn][:3] == [0.0, 1953.125, 3906.25]


def test_on_a_terminal(gpumap):
    """Rich tables, and the script's own terminal."""
    (gpumap.folder / "s.py").write_text(f"{OPEN}import sys\nprint(sys.stdout.isatty())\n{ONE}")

    code, text = on_a_terminal(gpumap, "trace", "s.py", columns=100)

    assert code == 0
    assert text.startswith("True\n")
    assert "trace: how busy each device was" in text


def test_hostile_names_are_harmless(run, gpumap):
    """Of the map, and of what a script says last."""
    name = "[bold]x|%::error::"
    answer = run(
        f"""
        context = gpumap.open("{name}->cpu0")
        context.shared(ones, target="{name}")
        raise ValueError("\x1b[2J\u202e[bold]")
        """,
        "--perfetto",
        "trace.json",
    )

    own, _, error = answer.err.rpartition("\nerror: ")
    assert own.endswith("ValueError: \x1b[2J\u202e[bold]")  # as Python prints it
    assert error.startswith("the script ended with ValueError: \\x1b[2J\\u202e[bold]\n")
    assert answer.code == 1
    for text in (answer.out, (gpumap.folder / "trace.json").read_text()):
        assert text.replace("\n", "").isprintable()
        assert "[bold]" in text


def test_an_interrupt_before_any_context_is_said(gpumap):
    """On the terminal, in every form; there is nothing else to show."""
    (gpumap.folder / "s.py").write_text("raise KeyboardInterrupt")

    for form in ("plain", "rich", "markdown"):
        answer = gpumap("trace", "--format", form, "s.py")
        assert "stopped early (interrupted)" in answer.out
        assert (answer.code, answer.err) == (130, "")


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)"])
def test_a_map_that_nobody_gave_is_named(run, gpumap, end):
    """As by commands that measure: once, on stderr, and in the report; no map of their own."""
    opened = "with gpumap.open() as context:\n    pass\n"
    note = "note: no map is given: dev0->cuda0;dev1->cuda1\n  hint: --map takes one\n"
    gpumap.fake(devices())
    given = ("--backend", "fake", "--output", "report.json")

    answer = run(2 * opened + end, *given)
    assert answer.err.count(note) == 1
    (_, found) = json.loads((gpumap.folder / "report.json").read_text())["notes"]
    assert (found["code"], found["severity"]) == ("default-map", "note")
    assert run(opened, "--map", "a->cuda0", *given).err == SIMULATED
    assert "no map" not in run(opened, *given, GPUMAP_CONTEXTS="a->cuda0").err
    assert "no map" not in run(ON_TWO, *given).err


def test_a_fix_is_said_once(run):
    """Below the traceback of the script, which shows it by itself where gpumap is not there."""
    answer = run(
        """
        with gpumap.open("a->cpu0") as context:
            context.shared(ones, target="nope")
        """
    )

    shown, _, own = answer.err.partition("\nerror: ")
    assert shown.endswith('\ngpumap.errors.TargetError: there is no target "nope"')
    assert own == 'there is no target "nope"\n  fix: there are a, cpu\n'
    assert answer.code == 1


def test_a_table_is_capped(traces):
    """150 shapes are moved unasked: 100 rows, and a line that says so; JSON has all events."""
    answer, (trace,) = traces(
        """
        with gpumap.open("a->cpu0;b->cpu0", policy="visible") as context:
            small = [np.ones((n, 1), "float32") for n in range(1, 151)]
            row = context.shared(np.ones((1, 1), "float32"), target="a")
            for column in small:
                gpumap.dot(column, row)
        """
    )

    assert "  the first 100 of 150 rows; --format json has all of them\n" in answer.out
    assert "  in all 150 transfers, " in answer.out
    assert len(trace["events"]) == 301


def test_many_contexts_are_capped(traces):
    """A context for each step of a loop: 20 are shown, and a line says so."""
    answer, found = traces(
        """
        for _ in range(25):
            with gpumap.open("a->cpu0") as context:
                context.shared(ones, target="a")
        """
    )

    assert len(found) == 25
    assert answer.out.endswith(
        "\n\nthe first 20 of 25 contexts are shown; --format json has all of them\n"
    )
    assert answer.out.count("what ran where") == 20


def test_each_line_has_its_own_implicit_transfers(run, gpumap):
    """Two lines that move the same are two rows: which of them is to be mended shows."""
    gpumap.fake(devices())
    answer = run(
        """
        with gpumap.open("a->cuda0;b->cuda1") as context:
            x, y = (context.shared(np.ones((64, 64), "float32"), target=name) for name in "ab")
            for _ in range(3):
                x + y
            gpumap.dot(x, y)
        """
    )

    shown = [line.split()[-1] for line in answer.out.split("\n") if line.startswith("  copy  ")]
    assert shown[-2:] == ["script.py:10", "script.py:11"]


@pytest.mark.parametrize("how", ["option", "variable", "file"])
def test_the_backend_is_what_a_script_opens_with(traces, gpumap, how):
    """By --backend, GPUMAP_BACKEND or gpumap.toml; where the script names none."""
    if how == "file":
        (gpumap.folder / "gpumap.toml").write_text('backend = "fake"')
    given = ("--backend", "fake") if how == "option" else ()
    env = {"GPUMAP_BACKEND": "fake"} if how == "variable" else {}

    answer, (trace,) = traces(ONE, *given, **env)

    assert answer.code == 0
    assert {entry["backend"] for entry in trace["entries"]} == {"fake"}


@pytest.mark.parametrize("name", ["all", "nonsense", "\x1b[2J"])
def test_a_backend_that_is_none_is_refused_before_the_script_runs(run, name):
    """With those that there are."""
    answer = run("print('ran')", "--backend", name)

    shown = name.replace("\x1b", "\\x1b")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f'error: no backend is called "{shown}"\n  fix: choose one of ')


def test_what_numpy_fetches_is_implicit(run, gpumap):
    """Nobody wrote a transfer; the line is the program's, not NumPy's."""
    gpumap.fake(devices())

    answer = run(
        """
        with gpumap.open("a->cuda0", backend="fake") as context:
            x = context.shared(ones, target="a")
            np.exp(x)
            np.linalg.norm(x)
            x.numpy()
        """
    )

    shown = [line.split() for line in answer.out.split("\n") if line.startswith("  download  a")]
    assert [(row[2], row[3]) for row in shown[:2]] == [("yes", "2"), ("-", "1")]
    assert [row[-1] for row in shown[2:]] == ["script.py:9", "script.py:10"]


# --- how a script ends


@pytest.mark.parametrize("end", ["", "raise SystemExit", "import sys; sys.exit(0)"])
def test_a_script_that_ends_well(run, end):
    """However it says so."""
    answer = run(f"{ONE}\n{end}")

    assert (answer.code, answer.err) == (0, "")


def test_an_exception_is_printed_once_as_python_prints_it(run, gpumap):
    """Without a line of gpumap's; and what there was until then is shown."""
    text = f"{ONE}\ndef f():\n    raise KeyError('x')\nf()\n"
    answer = run(text)
    alone = gpumap.run([sys.executable, "script.py"])

    said = "error: the script ended with KeyError: 'x'\n  fix: its traceback is above\n"
    assert (answer.code, answer.err) == (1, alone.err + said)
    assert "  upload  a     -" in answer.out


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("3", "error: the script ended with exit code 3\n  fix: its own output says why\n"),
        (
            "'mine'",
            "mine\nerror: the script ended with exit code 1\n  fix: its own output says why\n",
        ),
    ],
)
def test_an_exit_code_that_is_not_0(run, gpumap, end, said):
    """The answer is no; the trace is shown all the same."""
    answer = run(f"{ONE}\nimport sys\nsys.exit({end})", "--output", "report.json")

    assert (answer.code, answer.err, codes(gpumap)) == (1, said, [("script", 1)])
    assert "trace: what ran where" in answer.out


def test_the_scripts_own_hook_prints_its_exceptions(run):
    """As in a process of its own; a hook that fails is Python's again."""
    hook = "import sys\nsys.excepthook = lambda kind, error, trace: print('hooked', kind.__name__)"
    broken = "import sys\nsys.excepthook = lambda *_: 1 / 0"

    assert run(f"{hook}\n{ONE}\n1 / 0").out.startswith("hooked ZeroDivisionError\n")
    answer = run(f"{broken}\n{ONE}\n1 / 0")
    assert "ZeroDivisionError: division by zero\nerror: the script ended with" in answer.err


def test_an_absent_device_ends_in_3(run, gpumap):
    """In gpumap's words, without a traceback: nothing is wrong with the script."""
    gpumap.fake(devices())

    answer = run("gpumap.open('a->cuda7', backend='fake')", "--output", "report.json")

    assert (answer.code, codes(gpumap)) == (3, [("absent", 3)])
    assert answer.err == (
        "error in entry 1: a: cuda7 is not there; fake found cuda0, cuda1\n"
        "  fix: `gpumap devices` lists the devices of this machine\n"
    ) or answer.err.startswith("error in entry 1: a: ")
    assert "Traceback" not in answer.err


def test_what_a_script_does_not_catch_is_its_own_mistake(run, gpumap):
    """Its traceback has the place, gpumap's words the fix; the exit code is 1."""
    text = """
    with gpumap.open("a->cpu0") as context:
        gpumap.dot(context.shared(ones, target="a"), np.ones((5, 5), "float32"))
    """
    answer = run(text, "--output", "report.json")

    assert (answer.code, codes(gpumap)) == (1, [("shape", 1)])
    assert answer.err.count("Traceback") == 1
    assert answer.err.endswith(
        "error: dot of shapes (4, 4) and (5, 5)\n  fix: the inner lengths differ: 4 and 5\n"
    )


def test_a_device_that_is_lost_ends_in_3(run, gpumap):
    """It was there and failed: that is no mistake of the script's."""
    gpumap.fake(devices({"fault": "lost", "fault_after": 1}))

    answer = run(
        """
        with gpumap.open("a->cuda0", backend="fake") as context:
            for _ in range(3):
                context.shared(ones, target="a")
        """,
        "--output",
        "report.json",
    )

    assert answer.code == 3
    assert {exit_ for _, exit_ in codes(gpumap)} == {3}
    assert "device-lost" in dict(codes(gpumap))


@pytest.mark.parametrize(
    "text",
    ["print('no devices')", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])"],
)
def test_a_script_without_a_context_is_a_no(run, gpumap, text):
    """There is nothing to trace, and that is no pass; the viewer's file is valid, and empty."""
    answer = run(text, "--output", "report.json", "--perfetto", "p.json")

    assert (answer.code, codes(gpumap)) == (1, [("no-context", 1)])
    assert answer.err == (
        "error: the script opened no context, so there is nothing to trace\n"
        "  fix: open one: with gpumap.open() as context: ...; a process that it starts is not "
        "seen\n"
    )
    assert json.loads((gpumap.folder / "p.json").read_text())["traceEvents"] == []


def test_a_hook_that_exits_decides(run, gpumap):
    """As in a process of its own: its exit code is the script's."""
    hook = f"{ONE}\nimport sys\nsys.excepthook = lambda *_: sys.exit({{}})\n1 / 0"

    for code, mapped in [(0, 0), (3, 1)]:
        answer = run(hook.format(code))
        alone = gpumap.run([sys.executable, "script.py"])
        assert (alone.code, answer.code) == (code, mapped)
        assert "trace: what ran where" in answer.out


@pytest.mark.parametrize("asked", ["10**5000", "-1", "256", "2**40 + 3", "True", "None", "(1, 2)"])
def test_any_exit_code_is_what_a_shell_sees(run, gpumap, asked):
    """However large: eight bits of it, or 255."""
    answer = run(f"{ONE}\nimport sys\nsys.exit({asked})")
    alone = gpumap.run([sys.executable, "script.py"])

    said = f"error: the script ended with exit code {alone.code}\n"
    assert (answer.code, said in answer.err) == ((1, True) if alone.code else (0, False))


@pytest.mark.parametrize(
    "body",
    [
        "__str__ = lambda self: Text('broken')",
        "def __str__(self): raise KeyboardInterrupt",
        "def __str__(self): raise SystemExit(0)",
        "def __str__(self): return 5",
    ],
)
def test_an_exception_that_cannot_be_told(run, gpumap, body):
    """Whatever its class does, it is the script's and not gpumap's failure."""
    answer = run(
        f"""
        {ONE.replace(chr(10), chr(10) + "        ")}
        class Text(str):
            def __format__(self, spec): raise ValueError("of the script")
        class Odd(Exception):
            {body}
        raise Odd
        """,
        "--output",
        "report.json",
    )

    assert (answer.code, codes(gpumap)) == (1, [("script", 1)])
    assert "error: the script ended with Odd" in answer.err


# --- scripts that cannot run


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "cannot read the script s.py: there is no such file"),
        (b"x = = 1\n", 's.py is not Python, line 1: invalid syntax: "x = = 1"'),
        (b"\nif True:\nx\n", "s.py is not Python, line 3: expected an indented block after "),
        (b"x = '\xff'\n", "s.py is not Python"),
        (b"a\0b\n", "s.py is not Python: source code string cannot contain null bytes"),
        (b"# coding: nonsense\n", "s.py is not Python: unknown encoding: nonsense"),
        (b"(" * 5000 + b")" * 5000, "s.py is not Python, line 1: too many nested parentheses"),
        (b"'\x1b[2J\n", "s.py is not Python, line 1: unterminated string literal"),
    ],
    ids=["missing", "syntax", "indent", "bytes", "nul", "coding", "nested", "hostile"],
)  # fmt: skip
def test_a_script_that_is_none_ends_in_2(gpumap, data, said):
    """With its place, and without a word of Python's own."""
    if data is not None:
        (gpumap.folder / "s.py").write_bytes(data)

    answer = gpumap("trace", "s.py")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {said}")
    assert "\n  fix: " in answer.err
    assert answer.err.replace("\n", "").isprintable()
    assert "Traceback" not in answer.err


def test_a_folder_is_no_script(gpumap):
    """Nor is a FIFO: nothing blocks."""
    os.mkfifo(gpumap.folder / "fifo")

    answers = [gpumap("trace", name) for name in (".", "fifo")]

    assert [answer.code for answer in answers] == [2, 2]
    assert "it is a folder" in answers[0].err
    assert "it is a FIFO" in answers[1].err


@pytest.mark.parametrize(
    "options",
    [
        ("--map", "a=>cpu0"),
        ("--map", ""),
        ("--map", "a->cpu0", "--map-file", "m"),
        ("--map-file", "m"),
        ("--perfetto", "no/such/p.json"),
        ("--perfetto", "."),
        ("--perfetto", "r.json", "--output", "r.json"),
    ],
)
def test_a_wrong_question_runs_nothing(run, options):
    """The script is not started for a result that nobody would get."""
    answer = run("print('ran')", *options)

    assert (answer.code, answer.out, answer.err[:5]) == (2, "", "error")


def test_a_viewers_file_that_cannot_be_written(run, gpumap):
    """Costs nobody the result."""
    text = f"{ONE}\nimport os\nos.mkdir('p.json')"

    answer = run(text, "--perfetto", "p.json", "--output", "report.json")

    assert (answer.code, codes(gpumap)) == (2, [("source", 2)])
    place = gpumap.folder / "p.json"
    assert f"error: cannot write {place}: it is a folder" in answer.err
    assert "trace: what ran where" in answer.out


# --- as Python would


SELF = """
import __main__, os, sys
import beside

class Mine: ...

print(sys.argv)
print(__name__, os.path.basename(__file__), sys.path[0] == os.path.dirname(__file__))
print(__main__.Mine is Mine, beside.WORD, __spec__, __annotations__)
"""


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
    assert gpumap.run(module, PYTHONSAFEPATH="1").code == 1  # nor would Python find it


def test_what_is_pickled_in_main_is_found_there(run):
    """A class of the script's belongs to `__main__`."""
    answer = run(f"import pickle\nclass Mine: ...\npickle.loads(pickle.dumps(Mine()))\n{ONE}")

    assert (answer.code, answer.err) == (0, "")


def test_neighbours_called_as_libraries_of_ours(run, gpumap):
    """The script gets its own; gpumap shows its tables with the real ones."""
    for name in ("tabulate", "csv"):
        (gpumap.folder / f"{name}.py").write_text(f"WORD = '{name} of mine'")

    answer = run(
        f"import csv, tabulate\nprint(csv.WORD, tabulate.WORD)\n{ONE}", "--output", "r.csv"
    )

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("csv of mine tabulate of mine\nMapped name a")
    assert "ran," in (gpumap.folder / "r.csv").read_text()


@pytest.mark.parametrize(
    "mess",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(1); os.close(2)",
        "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'latin-1')",
        "sys.stdout = io.StringIO(); sys.stderr = None",
        "contextlib.redirect_stdout(io.StringIO()).__enter__()",
        "del sys.stdout",
        "os.chdir('/')",
        "sys.argv.clear(); sys.path.clear(); sys.modules['__main__'] = None",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "sys.setrecursionlimit(60)",
        "os.environ.clear()",
        "sys.modules.clear()",
        "builtins.print = None; builtins.open = None",
    ],
)
def test_what_a_script_does_to_the_process_costs_no_result(run, gpumap, mess):
    """Streams, folders, paths, signals: the report comes out, on stdout and in the file."""
    names = "import builtins, contextlib, io, os, signal, sys"

    answer = run(f"{names}\n{ONE}\n{mess}", "--output", str(gpumap.folder / "report.json"))

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Mapped name a to device cpu0: ")
    assert json.loads((gpumap.folder / "report.json").read_text())["status"] == "ok"


VICTIMS = """
import os
for n in range(4):
    with open(f"victim{n}", "w") as file:
        file.write("mine")
os.closerange(FIRST, LAST)
victims = [os.open(f"victim{n}", os.O_RDWR) for n in range(4)]
"""


@pytest.mark.parametrize(
    ("first", "last", "code"), [(3, 256, 0), (3, 4096, 0), (0, 256, 0), (0, 4096, 2)]
)
def test_no_file_of_a_script_is_written_to(run, gpumap, first, last, code):
    """It closed our descriptors, and its own files got their numbers: exit 2 where none is left."""
    mess = VICTIMS.replace("FIRST", str(first)).replace("LAST", str(last))

    answer = run(f"{ONE}\n{mess}", "--output", "report.json")

    assert [(gpumap.folder / f"victim{n}").read_text() for n in range(4)] == ["mine"] * 4
    assert (answer.code, answer.out.startswith("Mapped name a")) == (code, code == 0)
    assert codes(gpumap) == []


def test_a_result_that_is_lost_is_said(run, gpumap):
    """Where stderr is left; the file has the report."""
    mess = VICTIMS.replace("FIRST", "3").replace("LAST", "4096")
    answer = run(f"{ONE}\nimport os\nos.close(1)\n{mess}", "--output", "report.json")

    assert (answer.code, answer.out, codes(gpumap)) == (2, "", [])
    assert answer.err == (
        "error: cannot write the result to stdout: the script closed every descriptor\n"
        "  fix: let it leave those alone that it did not open; --output writes the result to a "
        "file\n"
    )
    assert (gpumap.folder / "victim0").read_text() == "mine"


def test_a_script_that_changes_its_folder_moves_no_result(run, gpumap):
    """A relative path is one from where gpumap was called."""
    (gpumap.folder / "there").mkdir()

    answer = run(
        f"{ONE}\nimport os\nos.chdir('there')", "--output", "r.json", "--perfetto", "p.json"
    )

    assert answer.code == 0
    assert list((gpumap.folder / "there").iterdir()) == []
    for name in ("r.json", "p.json"):
        assert json.loads((gpumap.folder / name).read_text())


def test_a_script_that_ends_the_process_leaves_no_old_report(run, gpumap):
    """Nothing can be written then; nor does what an earlier run wrote pass for this one's."""
    asked = ("--output", "r.json", "--perfetto", "p.json")
    assert run(ONE, *asked).code == 0

    answer = run(f"{ONE}\nimport os\nos._exit(0)", *asked)

    assert (answer.code, answer.out) == (0, "")
    assert [(gpumap.folder / name).read_text() for name in ("r.json", "p.json")] == ["", ""]
    assert gpumap("report", "r.json").code == 2


def test_what_a_script_printed_comes_first(run):
    """Also what is still in a buffer when it ends."""
    answer = run(f"import sys\nsys.stdout.write('no line break')\n{ONE}")

    assert answer.out.startswith("no line breakMapped name a")


# --- contexts


def test_the_map_of_the_command_is_what_open_finds(traces, gpumap):
    """By --map or --map-file; a map in the script is the script's."""
    text = "with gpumap.open() as context: context.shared(ones, target=context.names[-1])"
    (gpumap.folder / "m").write_text("x->cpu0;y->cpu0")

    _, (one,) = traces(text, "--map", "a->cpu0;b->cpu0")
    _, (two,) = traces(text, "--map-file", "m")
    _, (own,) = traces(ONE, "--map", "x->cpu0")

    assert [list(ran(each)) for each in (one, two, own)] == [
        [("upload", "b")], [("upload", "y")], [("upload", "a")],
    ]  # fmt: skip


def test_the_environments_map_is_what_open_finds(traces):
    """As without gpumap trace."""
    _, (trace,) = traces(
        "with gpumap.open() as c: c.shared(ones, target='z')", GPUMAP_CONTEXTS="z->cpu0"
    )

    assert ran(trace) == {("upload", "z"): 1}


def test_two_contexts_are_two_traces(traces):
    """On one clock: the second was opened later. Each has its tables."""
    answer, found = traces(ONE + ONE.replace("cpu0", "cpu").replace("(ones", "(ones + 1"))

    assert [trace["context"] for trace in found] == [1, 2]
    assert found[0]["opened_s"] == 0.0
    assert found[1]["opened_s"] >= found[0]["events"][-1]["stop_s"]
    assert [trace["entries"][0]["device"] for trace in found] == ["cpu:0", "cpu"]
    assert "\ncontext 2: implicit transfers\n" in answer.out


def test_a_context_that_is_closed_early(traces):
    """What it did is kept."""
    _, (trace,) = traces(f"{ONE}\ncontext.close()\nimport gc; del context; gc.collect()")

    assert (ran(trace), trace["closed"]) == ({("upload", "a"): 1}, True)


def test_a_context_that_is_left_open(traces):
    """What it has queued is waited for, and a line says so."""
    answer, (trace,) = traces(
        """
        context = gpumap.open("a->cpu0")
        a = context.shared(np.eye(512, dtype="float32"), target="a")
        for _ in range(10):
            a = gpumap.dot(a, a)
        """
    )

    assert (answer.code, ran(trace), trace["closed"]) == (
        0, {("upload", "a"): 1, ("dot", "a"): 10}, False,
    )  # fmt: skip
    assert "  it was left open when the program ended: open it by `with`, which " in answer.out


def test_what_fails_where_nobody_looks_is_no_pass(run, gpumap):
    """An operation that is never waited for, and lost: the exit code says so."""
    gpumap.fake(devices({"fault": "lost", "fault_after": 2}))

    answer = run(
        """
        context = gpumap.open("a->cuda0", backend="fake")
        a = context.shared(ones, target="a")
        b = gpumap.dot(a, a)
        c = gpumap.dot(b, b)
        """,
        "--output",
        "report.json",
    )

    assert (answer.code, answer.err.count("error: ")) == (3, 1)
    assert "device-lost" in dict(codes(gpumap))


def test_a_strict_context(traces, gpumap):
    """What it refuses is the script's mistake, and the trace says that it is strict."""
    answer, (trace,) = traces(
        """
        with gpumap.open("a->cpu0", policy="strict") as context:
            gpumap.dot(context.shared(ones, target="a"), ones)
        """
    )

    assert (answer.code, trace["policy"], codes(gpumap)) == (
        1, "strict", [("implicit-transfer", 1)],
    )  # fmt: skip


def test_a_backend_without_times(traces, gpumap):
    """Unknown, and never 0: in the row, the device, the share, the viewer's file."""
    answer, (trace,) = traces(
        """
        from gpumap.backends.numpy import NumpySession
        NumpySession.at = lambda self, mark: None  # what pygpu has, which cannot tell
        with gpumap.open("a->cpu0") as context:
            context.shared(ones, target="a")
        """,
        "--perfetto",
        "p.json",
    )

    (event,) = trace["events"]
    assert (event["start_s"], event["stop_s"]) == (None, None)
    assert [line.split()[-1] for line in answer.out.splitlines() if "upload" in line] == ["unknown"]
    assert "  cpu0      a               1  unknown  unknown\n" in answer.out
    assert "  1 events have no times: " in answer.out
    assert json.loads((gpumap.folder / "p.json").read_text())["otherData"][
        "events_without_times"
    ] == 1  # fmt: skip


# --- threads and processes


def test_threads_are_waited_for(traces):
    """What they do after the end of the script's text is in the trace."""
    _, (trace,) = traces(
        """
        import threading
        context = gpumap.open("a->cpu0")
        ended = threading.Event()
        def later():
            ended.wait(30)
            context.shared(ones, target="a")
        threading.Thread(target=later).start()
        threading.Timer(0.2, ended.set).start()
        """
    )

    assert ran(trace) == {("upload", "a"): 1}


def test_a_pool_that_is_not_shut_down(traces):
    """Its idle workers end, and what it was given is done first, as at the end of any program."""
    _, (trace,) = traces(
        """
        import concurrent.futures
        context = gpumap.open("a->cpu0")
        pool = concurrent.futures.ThreadPoolExecutor(2)
        for _ in range(5):
            pool.submit(context.shared, ones, "a")
        """
    )

    assert ran(trace) == {("upload", "a"): 5}


def test_daemon_threads_are_not_waited_for(run):
    """They end with the program."""
    waiting = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    answer = run(f"{ONE}\nimport threading\n{waiting}")

    assert (answer.code, answer.err) == (0, "")


def test_many_threads_on_one_context(traces):
    """Nothing is lost or counted twice."""
    _, (trace,) = traces(
        """
        import threading
        with gpumap.open("a->cpu0;b->cpu0") as context:
            def work(target):
                for _ in range(50):
                    context.shared(ones, target=target)
            threads = [threading.Thread(target=work, args=(t,)) for t in "abab"]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        """
    )

    assert ran(trace) == {("upload", "a"): 100, ("upload", "b"): 100}


FORK = """
context = gpumap.open("a->cpu0")
context.shared(ones, target="a")
import os, sys
print("before", flush=True)
child = os.fork()
if child:
    print("waited", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    print("child", flush=True)
    {end}
"""


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("os._exit(8)", 8, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("context.shared(ones, target='a')", 1, "before the process was forked\n"),
    ],
)
def test_a_child_ends_as_it_would_without_gpumap(traces, end, status, said):
    """It has no report: there is one, of the script's own process."""
    answer, (trace,) = traces(FORK.format(end=end), PYTHONWARNINGS="")

    assert (answer.code, ran(trace)) == (0, {("upload", "a"): 1})
    assert answer.out.startswith(f"before\nchild\nwaited {status}\nMapped name a")
    assert answer.out.count("Mapped name a") == 1
    assert answer.err.endswith(said)
    assert answer.err.count("Traceback") == bool(said)
    assert "error: " not in answer.err


def test_a_child_that_is_ended_says_nothing(run):
    """SIGTERM ends it at once, as `multiprocessing` expects."""
    answer = run(
        f"""
        import multiprocessing, time
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join()
        print(child.exitcode)
        {ONE.replace(chr(10), chr(10) + "        ")}
        """,
        PYTHONWARNINGS="",
    )

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("-15\nMapped")


def test_a_spawned_process_finds_the_script(run):
    """What `multiprocessing` starts anew imports the script again, and is not traced."""
    answer = run(
        """
        import multiprocessing
        def work(n): return n + 1
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]))
            with gpumap.open("a->cpu0") as context:
                context.shared(ones, target="a")
        """
    )

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("[2, 3]\nMapped")


# --- interruptions


def started(gpumap, *options, end="time.sleep(60)"):
    """Start a script that tells when it has begun, and then waits."""
    (gpumap.folder / "s.py").write_text(f"{OPEN}{ONE}\nimport os, time\nos.mkdir('begun')\n{end}\n")
    process = subprocess.Popen(
        [gpumap.command, "trace", *options, "s.py"],
        cwd=gpumap.folder,
        env=gpumap.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (gpumap.folder / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_script_leaves_its_trace(gpumap, number):
    """Exit 130, no traceback, and everything until then."""
    with started(gpumap, "--output", "report.json", "--perfetto", "p.json") as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT)

    report = json.loads((gpumap.folder / "report.json").read_text())
    validate(report)
    assert (process.returncode, report["status"], err) == (130, "interrupted", "")
    assert ran(report["traces"][0]) == {("upload", "a"): 1}
    assert "trace: what ran where" in out
    assert out.endswith("\n\nstopped early (interrupted): above stands what there was\n")
    assert gpumap("report", "report.json").out == out
    assert '"upload"' in (gpumap.folder / "p.json").read_text()


def test_a_script_may_catch_an_interrupt(gpumap):
    """Then it ended as it says."""
    end = "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')"
    with started(gpumap, end=end) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)

    assert (process.returncode, err) == (0, "")
    assert out.startswith("caught\nMapped")


def test_an_interrupt_while_threads_are_waited_for(gpumap):
    """The script's text has ended, its thread has not."""
    end = "import threading\nthreading.Thread(target=time.sleep, args=(3,)).start()"
    with started(gpumap, end=end) as process:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)

    assert process.returncode == 130
    assert "trace: what ran where" in out


def test_a_reader_that_leaves_early(gpumap):
    """Exit 141, and not a word."""
    with started(gpumap, end="import sys\nsys.stdin.read()") as process:
        process.stdout.close()
        process.stdin.close()  # only now it goes on
        code = process.wait(LIMIT)

        assert (code, process.stderr.read()) == (141, "")
