"""What a shell offers after TAB, by click's protocol."""

import sys

import pytest
from tables import table
from test_architecture import NOT_AT_START, START

TABLE = table(__file__)


def asked(line):
    place = len(line.split(" ")) - 1
    return {"_GPUMAP_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(place)}


@pytest.mark.parametrize(("line", "expected"), TABLE["offered"])
def test_commands_options_and_choices_are_offered(gpumap, line, expected):
    answer = gpumap(**asked(line))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.split() == [f"plain,{word}" for word in expected.split()]


@pytest.mark.parametrize("line", TABLE["begun"])
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
