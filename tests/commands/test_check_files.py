"""`gpumap check-files`: every map in every file, its problems with their places; and the hook."""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from shell import Answer
from tables import table

TABLE = table(__file__)
ROOT = Path(__file__).parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
TWO = "dev0->cuda0;dev1->cuda1"


def written(gpumap, path, text):
    path = gpumap.folder / path
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("path", "text", "maps"), TABLE["maps"])
def test_what_a_file_is_its_name_says(gpumap, path, text, maps):
    """A map is looked for where gpumap and Theano look for it, and no device at all."""
    written(gpumap, path, text)
    assert gpumap("check-files", path) == Answer(0, f"{maps} in 1 file: well-formed.\n", "")


@pytest.mark.parametrize(("path", "text", "line"), TABLE["problems"])
def test_a_problem_has_its_file_and_its_line(gpumap, path, text, line):
    """Exit 2, nothing on stdout; the caret stands below what is wrong."""
    written(gpumap, path, text)
    answer = gpumap("check-files", path)
    said, shown, caret, _ = answer.err.splitlines()
    place = (f"{path}, line {line}" if line else path).replace("\x1b", r"\x1b")
    assert (answer.code, answer.out) == (2, "")
    assert said == f'error in entry 1: {place}: "gpu0" is not a device'
    assert shown[caret.index("^") : len(caret)] == "gpu0"
    assert shown.endswith("gpu0")
    assert answer.err.replace("\n", "").isprintable()


def test_the_hook_is_a_script_for_which_pre_commit_installs_nothing():
    assert {"id", "name", "entry", "language", "files"} <= set(HOOK)
    assert (HOOK["language"], HOOK["types"]) == ("script", ["text"])
    assert os.access(ROOT / HOOK["entry"], os.X_OK)


@pytest.mark.parametrize(("path", "meant"), TABLE["meant"])
def test_the_hook_is_given_the_files_that_may_have_a_map(path, meant):
    assert meant == bool(re.search(HOOK["files"], path))


@pytest.mark.parametrize(("text", "code"), [
    (TWO, 0), ("dev0->gpu0\n", 2), ("a b->cpu0;a b->cpu0", 2), ("a b->cpu0", 0),
    (f"{TWO}\ud800", 2), ("\x1b[31m->cpu0", 2),
])  # fmt: skip
def test_the_hook_says_what_the_command_says(gpumap, text, code):
    """With no library but Python's own: neither click nor NumPy can be imported."""
    (gpumap.folder / "a.gpumap").write_bytes(text.encode("utf-8", "surrogatepass"))
    written(gpumap, "b.gpumap", TWO)
    names = ("a.gpumap", "b.gpumap")
    answer = gpumap.run([sys.executable, "-I", "-S", str(ROOT / HOOK["entry"]), *names])
    assert answer.code == code
    assert answer == gpumap("check-files", *names)
