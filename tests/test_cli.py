"""The edges of the command line: its help, its exit codes, streams that go away, completion."""

import os
import signal
import sys

import pytest
from flat_report import loads
from shell import COLOURS, LIMIT, Answer, on_a_terminal, until
from tables import table
from test_architecture import NOT_AT_START, START

from gpumap.cli import COMMANDS, group
from gpumap.version import __version__

TEXTS = table(__file__)
WELL_FORMED = "The map is well-formed (1 name); no device was looked for (--syntax-only).\n"


def test_the_group_lists_the_first_line_of_each_command():
    """A copy, so that `gpumap --help` imports none of them."""
    listed = {name: text for name, (_, text) in COMMANDS.items()}
    assert listed == {n: group.get_command(None, n).help.splitlines()[0] for n in COMMANDS}


def test_the_version(gpumap):
    assert gpumap("--version") == Answer(0, f"gpumap {__version__}\n", "")


@pytest.mark.parametrize("arguments", TEXTS["hangs"])
def test_ctrl_c_while_a_driver_hangs(gpumap, arguments):
    (gpumap.folder / "lib").mkdir()
    (gpumap.folder / "lib" / "pyopencl.py").write_text(TEXTS["hanging"])  # it sleeps
    gpumap.env["PYTHONPATH"] = str(gpumap.folder / "lib")
    with gpumap.start([gpumap.command, *arguments]) as process:
        until((gpumap.folder / "child").exists, process)
        child = int((gpumap.folder / "child").read_text())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (130, b"")
    assert b"Traceback" not in out
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    if "json" in arguments:
        report = loads(out)
        assert (report["status"], report["exit_code"]) == ("interrupted", 130)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_comes_after_the_report_changes_no_exit_code(gpumap, number):
    """Everything is said: a signal that meets the interpreter's own end does not end it instead."""
    late = f"import atexit, os; atexit.register(os.kill, os.getpid(), {int(number)})"
    text = f"{late}; import sys; from gpumap.__main__ import main; sys.exit(main())"
    answer = gpumap.run([sys.executable, "-c", text, "check", "--syntax-only", "a->cpu0"])
    assert answer == Answer(0, WELL_FORMED, "")


HOSTILE = TEXTS["hostile"]
SHOWN = r"[bold red]\x1b[2JEvil\u202e \x9b31m[/]"


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
@pytest.mark.parametrize("format_", ["auto", "rich"])
def test_a_narrow_terminal_gets_lines_for_a_table(gpumap, format_, env):
    """In 40 columns nothing is cut off or broken; NO_COLOR, set to anything, takes the colours."""
    code, text = on_a_terminal(gpumap.fake(HOSTILE), "devices", "--format", format_, **env)
    bare = COLOURS.sub("", text)
    table, paste = bare.rsplit("\n\n", 1)
    assert (code, "\x1b" in text) == (0, not env)
    assert bare.replace("\n", "").isprintable()
    assert SHOWN in " ".join(table.split())
    assert all(len(line) <= 40 for line in table.splitlines())
    assert paste.strip() == 'gpumap check "dev0->cuda0;dev1->cuda1" --backend fake'


def test_a_dumb_terminal_gets_plain_text(gpumap):
    gpumap.fake(HOSTILE)
    assert (0, gpumap("devices").out) == on_a_terminal(gpumap, "devices", TERM="dumb")


def test_an_ascii_terminal_gets_escapes(gpumap):
    """A locale that cannot write a character gets its escape, never a traceback."""
    env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    answer = gpumap("check", "--backend", "fake", "dé->cpu0;ok->cpu1", **env)
    assert answer.code == 0
    assert "\nMapped name d\\xe9 to device cpu0: " in answer.out


def test_a_deleted_working_folder(gpumap):
    """The shell's folder may be gone; a map on the command line needs none."""
    script = f'rmdir "$PWD" && exec {gpumap.command} check --syntax-only "a->cpu0"'
    assert Answer(0, WELL_FORMED, "") == gpumap.run(["sh", "-c", script])


@pytest.mark.parametrize(("error", "said"), TEXTS["an_error_of_its_own_ends_in_70_and_keeps_the"])
def test_an_error_of_its_own_ends_in_70_and_keeps_the_traceback_in_a_file(gpumap, error, said):
    """A user reads one line and where the rest is; where even the file fails, it is on stderr."""
    program = TEXTS["crashing"].format(error=error)
    nowhere = "import tempfile; tempfile.tempdir = '/nowhere'\n"
    answer = gpumap.run([sys.executable, "-c", program])
    (file,) = (gpumap.folder.parent).glob("gpumap-*.traceback")
    lost = gpumap.run([sys.executable, "-c", nowhere + program])
    expected = f"error: gpumap itself failed: {said}\n  fix: report it with {file}\n"
    assert Answer(70, "", expected) == answer
    assert file.read_text().startswith("Traceback (most recent call last):\n")
    assert (lost.code, lost.out) == (70, "")
    assert lost.err.startswith(f"error: gpumap itself failed: {said}\n")
    assert "\nTraceback (most recent call last):\n" in lost.err


def asked(line):
    place = len(line.split(" ")) - 1
    return {"_GPUMAP_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(place)}


@pytest.mark.parametrize(("line", "expected"), TEXTS["offered"])
def test_commands_options_and_choices_are_offered(gpumap, line, expected):
    answer = gpumap(**asked(line))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.split() == [f"plain,{word}" for word in expected.split()]


@pytest.mark.parametrize("line", TEXTS["begun"])
def test_to_complete_loads_no_library(gpumap, line):
    code = "from gpumap.cli import main\nassert main([]) == 0"
    script = START.format(code=code, names=set(NOT_AT_START))
    done = gpumap.run([sys.executable, "-c", script], **asked(line))
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(gpumap, shell):
    """A broken setting does not stop it."""
    (gpumap.folder / "gpumap.toml").write_text("broken")
    answer = gpumap(_GPUMAP_COMPLETE=f"{shell}_source")
    assert (answer.code, answer.err, "_GPUMAP_COMPLETE" in answer.out) == (0, "", True)
