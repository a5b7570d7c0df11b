"""Under what conditions a command ends how: one table each, on scripted devices."""

import os
import shlex
import sys

import pytest
from scripts import report, script
from shell import Answer, ended
from tables import table

TEXTS = table(__file__)
PAIR = "a->cuda0;b->cuda1"
DOT = ("bench", "dot", "--size", "64", "--cases", "many", "--map", PAIR)
MAPS = ("argument", "--map", "@FILE", "GPUMAP_CONTEXTS", "gpumap.toml", "THEANO_FLAGS",
        ".theanorc")  # fmt: skip
VARIABLES = {"GPUMAP_CONTEXTS": "{}", "THEANO_FLAGS": "contexts={}"}


@pytest.mark.parametrize("first", MAPS)
def test_the_map_comes_from_the_first_place_that_has_one(gpumap, first):
    """Each place wins over all that come after it, and the report says which it was."""
    texts = {place: f"a{n}->cpu0" for n, place in enumerate(MAPS)}
    mine, later = texts[first], MAPS[max(MAPS.index(first), 3) :]  # the first three are arguments
    words = {"argument": [mine], "--map": ["--map", mine], "@FILE": ["@m"]}.get(first, [])
    folder, home = gpumap.folder, gpumap.folder.parent / "home"
    (folder / "m").write_text(mine)
    files = {
        "gpumap.toml": (folder / "gpumap.toml", 'map = "{}"'),
        ".theanorc": (home / ".theanorc", "[global]\ncontexts = {}"),
    }
    for place in files.keys() & later:
        path, form = files[place]
        path.write_text(form.format(texts[place]))
    env = {name: form.format(texts[name]) for name, form in VARIABLES.items() if name in later}
    answer = gpumap("check", "--syntax-only", "--format", "json", *words, **env)
    found = report(answer)["map"]
    assert (answer.code, found["source"], found["text"]) == (0, first, mine)
    paths = {"@FILE": "m"} | {place: str(path) for place, (path, _) in files.items()}
    assert found["source_path"] == paths.get(first)


@pytest.mark.parametrize(("words", "variable", "file", "quiet"), TEXTS["flags"])
def test_a_flag_comes_from_the_first_place_that_sets_it(gpumap, words, variable, file, quiet):
    if file:
        (gpumap.folder / "gpumap.toml").write_text(f"quiet = {file}")
    env = {} if variable is None else {"GPUMAP_QUIET": variable}
    assert (gpumap.fake(script())("check", PAIR, *words, **env).err == "") == quiet


def test_the_longest_budget_is_no_overflow(gpumap):
    words = ("transfer-cost", "--sizes", "4KiB", "--cases", "h2d", "--no-model", "--map", PAIR)
    answer = gpumap.fake(script())(*words, "--budget", "999999999", "--format", "json")
    assert (answer.code, report(answer)["settings"]["timeout_s"]) == (0, 1e9)


COMMANDS = {name: shlex.split(line) for name, line in TEXTS["commands"].items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_without_a_reader(gpumap, name):
    """Exit 141 without a word, also where the output fits into a buffer."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [gpumap.fake(script()).command, *COMMANDS[name]]
    process = gpumap.start(command, {"GPUMAP_QUIET": "1"}, stdout=writer)
    os.close(writer)
    assert ended(process) == Answer(141, "", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("redirection", "said"), TEXTS["a_stdout_that_takes_nothing"])
def test_a_stdout_that_takes_nothing(gpumap, name, redirection, said):
    """Exit 2 and one line where it can be read: a lost result is no success."""
    answer = redirected(gpumap, COMMANDS[name], redirection)
    assert (answer.code, answer.out, answer.err) == (2, "", said)


def test_a_stderr_that_takes_nothing(gpumap):
    answer = redirected(gpumap, ("check", PAIR), "2>/dev/full", GPUMAP_QUIET="0")
    assert (answer.code, answer.out.count("Mapped name"), answer.err) == (0, 2, "")


def redirected(gpumap, arguments, redirection, **env):
    gpumap.fake(script())
    words = ["sh", "-c", f'"$@" {redirection}', "sh", gpumap.command, *arguments]
    return gpumap.run(words, **({"GPUMAP_QUIET": "1"} | env))


PLANNED = [("solo", "a"), ("solo", "b"), ("one", "a"), ("many", "ab")]


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("moment", TEXTS["moments"])
def test_an_interrupt_at_each_stage(gpumap, moment, signal):
    """Exit 130 with a whole report of what there is, and once that is made, the run's own end."""
    at, code, status, measured = TEXTS["moments"][moment]
    text = TEXTS["program"].format(signal=signal, patch=TEXTS["at"].format(**at))
    words = (*DOT, "--budget", "8s", "--format", "json", "--quiet")
    answer = gpumap.fake(script()).run([sys.executable, "-P", "-c", text, *words])
    found = report(answer)
    assert (answer.code, answer.err) == (code, "")
    assert (found["status"], found["exit_code"]) == (status, code)
    assert any(row["samples"] for row in found["measurements"]) == measured
    if moment in ("measuring", "reporting"):  # every row that was planned is there
        rows = [row for row in found["measurements"] if row["bench"] == "dot"]
        assert [(row["case"], "".join(row["names"])) for row in rows] == PLANNED
    if moment == "measuring":  # each says what ended it
        assert {row["stop"]["why"] for row in rows if row["stop"]} == {"interrupted"}
