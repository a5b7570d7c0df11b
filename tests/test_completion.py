"""What a shell offers after TAB: in real shells, by the page's lines, and by click's protocol."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import pexpect
import pytest
from shell import BIN, LIMIT, Shell
from surface import commands
from tables import table
from test_architecture import NOT_AT_START, OF_EXPLAIN, START

from gpumap.commands.about import SHELLS as NAMED
from gpumap.completion import SHELLS

PAGE = (Path(__file__).parents[1] / "docs" / "commands.md").read_text()
LINES = {  # what the page says a user's own file is to have
    shell: re.search(rf"^    (.*gpumap completion {shell}.*?) +# ~", PAGE, re.MULTILINE)[1]
    for shell in SHELLS
}
BARE = {  # no file of the user's is read
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}
TABLE = table(__file__, "completion")
BEFORE = {"zsh": "autoload -U compinit && compinit -u -D"}
ESCAPES = re.compile("\x1b\\][^\x07]*\x07|\x1b\\[[0-9;?]*[a-zA-Z]")  # fish marks outputs with them
PWNED = "odd $(touch pwned).json"
# Values that are the user's own to think of. A new option that takes one is either here, or says
# what a shell may offer: by its type: click.Choice, or one of commands/option_types.py.
FREE = {
    *("--ab", "--map", "--needs", "--reference", "--limit", "--judge", "--accept"),
    *("--latency", "--bandwidth", "--bytes", "--compute", "--batch", "--devices"),
    *("--size", "--sizes", "--seed", "--budget", "--timeout", "--precision", "--threshold"),
    *("--rows", "--grace", "--python", "--expect", "--name", "--rank-from"),
    *("--network", "--sweep", "--batch-per-device", "--rate", "--learn"),
    *("--tau", "--chance", "--within"),
}


class Terminal:
    """A real shell on a terminal, with the page's line in it."""

    def __init__(self, shell, gpumap):
        self.folder = gpumap.folder
        options = {"encoding": "utf-8", "timeout": LIMIT, "dimensions": (24, 500)}
        self._child = pexpect.spawn(
            shell, list(BARE[shell]), cwd=gpumap.folder, env=gpumap.env, **options
        )
        for line in (BEFORE.get(shell, ":"), LINES[shell]):
            self._child.sendline(f"{line}; echo do''ne")
            self._child.expect("(?<!')done\r?\n")

    def completed(self, line):
        """Type a line and TAB; return the words that the shell then has, read by itself."""
        self._child.send(f"{line}\t\x01printf '%s\\n' words \x05; echo do''ne\n")
        self._child.expect("words\r?\n(.*?)(?<!')done\r?\n")
        return ESCAPES.sub("", self._child.match[1]).splitlines()

    def close(self):
        self._child.close(force=True)


@pytest.fixture(scope="module", params=SHELLS)
def terminal(request, tmp_path_factory):
    """Each shell, with a few files in its folder."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param}: not installed (make system installs it)")
    folder, home = (tmp_path_factory.mktemp(name) for name in ("folder", "home"))
    path = f"{BIN}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    (folder / "sub").mkdir()
    for name in ("base.json", "new.json", "sub/older.json", "devices.txt", PWNED):
        (folder / name).touch()
    shell = Terminal(request.param, Shell(folder, env))
    yield shell
    shell.close()


@pytest.mark.parametrize(("typed", "expected"), TABLE["completed"].items())
def test_a_shell_completes(terminal, typed, expected):
    """Commands, options, choices, words and files, also behind "="; never a map. Nothing runs."""
    assert terminal.completed(typed) == shlex.split(expected)
    assert not (terminal.folder / "pwned").exists()


def offered(gpumap, line, shell="bash"):
    """Return what a shell would be told; a bash that ends words at "=" is what the others are."""
    words = shlex.split(line)
    number = len(words) - 1
    if line.endswith(" "):
        words, number = [*words, ""], number + 1
    env = {"COMP_WORDS": line, "COMP_CWORD": words[-1] if shell == "fish" else str(number)}
    answer = gpumap(_GPUMAP_COMPLETE=f"{shell}_complete", **env)
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


@pytest.mark.parametrize(("line", "expected"), TABLE["offered"].items())
def test_every_word_is_offered_once(gpumap, line, expected):
    """In the order of the list; after a comma those that are not there yet."""
    before = line.split()[-1] if line.endswith(",") else ""
    assert offered(gpumap, line) == [f"plain,{before}{word}" for word in expected.split()]


@pytest.mark.parametrize(("behind", "words"), [
    ("=s", ["--if-absent=skip"]), (" = s", ["skip"]), (" =", ["fail", "skip"]),
])  # fmt: skip
def test_a_bash_that_keeps_words_whole_gets_whole_words(gpumap, behind, words):
    """Where COMP_WORDBREAKS has no "=", all of the word is replaced; else what stands after it."""
    found = offered(gpumap, f"gpumap bench dot --if-absent{behind}")
    assert found == [f"plain,{word}" for word in words]


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
    """Every shell that is answered is named by the command, and a broken setting stops neither."""
    (gpumap.folder / "gpumap.toml").write_text("broken")
    answer = gpumap("completion", shell)
    assert tuple(SHELLS) == NAMED
    assert (answer.code, answer.err, bool(answer.out)) == (0, "", True)
    assert answer.out == gpumap(_GPUMAP_COMPLETE=f"{shell}_source").out
