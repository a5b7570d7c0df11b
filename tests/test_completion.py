"""What a shell offers after TAB, by click's protocol."""

import shlex
import sys

import click
import pytest
from surface import commands
from tables import table
from test_architecture import NOT_AT_START, OF_EXPLAIN, START

from gpumap.completion import SHELLS

TABLE = table(__file__, "completion")
# Values that are the user's own to think of. A new option that takes one is either here, or says
# what a shell may offer: by its type: click.Choice, or one of commands/option_types.py.
FREE = {
    *("--ab", "--map", "--needs", "--reference", "--limit", "--judge"),
    *("--latency", "--bandwidth", "--bytes", "--compute", "--batch", "--devices"),
    *("--size", "--sizes", "--seed", "--budget", "--timeout", "--precision", "--threshold"),
    *("--rows", "--grace", "--python", "--expect", "--name", "--rank-from"),
    *("--network", "--sweep", "--batch-per-device", "--rate", "--learn"),
    *("--tau", "--chance", "--within"),
}


def offered(gpumap, line, shell="bash"):
    """Return what a shell would be told."""
    words = shlex.split(line)
    number = len(words) - 1
    if line.endswith(" "):
        words, number = [*words, ""], number + 1
    env = {"COMP_WORDS": line, "COMP_CWORD": words[-1] if shell == "fish" else str(number)}
    answer = gpumap(_GPUMAP_COMPLETE=f"{shell}_complete", **env)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


@pytest.mark.parametrize(("line", "expected"), TABLE.items())
def test_every_word_is_offered_once(gpumap, line, expected):
    """In the order of the list; after a comma those that are not there yet."""
    before = line.split()[-1] if line.endswith(",") else ""
    assert offered(gpumap, line) == [f"plain,{before}{word}" for word in expected.split()]


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_option_offers_its_values_or_is_free(name, command):
    context = click.Context(command, info_name=name)
    valued = [p for p in command.params if isinstance(p, click.Option) and not p.is_flag]
    assert {p.opts[0] for p in valued if not p.shell_complete(context, "")} <= FREE


OF_A_BENCHMARK = ("--cases", "--dtype", "--comm")  # its own words: it is loaded, with its nouns


@pytest.mark.parametrize("line", [
    "gpumap ", "gpumap bench dot --", "gpumap bench dot --cases so", "gpumap bench dot --dtype fl",
    "gpumap bench chain --cases s", "gpumap bench allreduce --comm n",
    "gpumap bench train --rule b", "gpumap transfer-cost --cases h", "gpumap predict --algorithm r",
    "gpumap check --backend n", "gpumap compare b", "gpumap explain s",
])  # fmt: skip
def test_to_complete_loads_no_library(gpumap, line):
    env = {"_GPUMAP_COMPLETE": "bash_complete", "COMP_WORDS": line,
           "COMP_CWORD": str(len(line.split(" ")) - 1)}  # fmt: skip
    code = f"import os\nos.environ.update({env})\nfrom gpumap.cli import main\nassert main([]) == 0"
    unwanted = set(NOT_AT_START) - (OF_EXPLAIN if "explain" in line else set())
    if any(option in line for option in OF_A_BENCHMARK):
        unwanted.remove("msgspec")
    script = START.format(code=code, names=unwanted)
    done = gpumap.run([sys.executable, "-c", script])
    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_a_command_too(gpumap, shell):
    """A broken setting stops neither."""
    (gpumap.folder / "gpumap.toml").write_text("broken")
    answer = gpumap("completion", shell)
    assert (answer.code, answer.err, bool(answer.out)) == (0, "", True)
    assert answer.out == gpumap(_GPUMAP_COMPLETE=f"{shell}_source").out
    assert ("string split --max 1" in answer.out) == (shell == "fish")  # a text may have a comma
