"""`gpumap check-files`: every map in every file, its problems with their places; and the hook."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from shell import Answer

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / ".pre-commit-hooks.yaml"
TWO = "dev0->cuda0;dev1->cuda1"
GPU0 = """\
  dev0->gpu0
        ^~~~
  fix: gpu0 is the name in Theano's old back-end: write cuda0
"""


@pytest.fixture
def files(gpumap):
    """Write files into the folder: by name, their text."""

    def written(**texts):
        for name, text in texts.items():
            path = gpumap.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return written


def well(maps, of):
    """Return the answer to files with nothing wrong in them."""
    return Answer(0, f"{maps} in {of}: well-formed.\n", "")


@pytest.mark.parametrize(
    ("name", "text", "maps"),
    [
        ("a__gpumap_toml", f'map = "{TWO}"', "1 map"),
        ("a__gpumap_toml", "quiet = true", "0 maps"),
        ("a__pyproject_toml", '[tool.gpumap]\nlimit = ["dot.many.speedup>=1.8"]', "0 maps"),
        ("a__pyproject_toml", 'tool = "gpumap"', "0 maps"),
        ("a___theanorc", f"[global]\ncontexts = {TWO}", "1 map"),
        ("a___theanorc", "[global]\nfloatX = float32", "0 maps"),
        ("node_gpumap", f"\n{TWO}\n", "1 map"),
        ("any_txt", "a->cpu0;\nb->cpu1\n", "1 map"),
    ],
)
def test_what_a_file_is_its_name_says(gpumap, files, name, text, maps):
    """A map is looked for where gpumap and Theano look for it, and no device at all."""
    files(**{name: text})

    path = name.replace("__", "/").replace("_", ".")
    assert well(maps, "1 file") == gpumap("check-files", path)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a__gpumap_toml", '# GPUs\nmap = "dev0->gpu0"', "a/gpumap.toml, line 2"),
        ("a__gpumap_toml", '"map"="dev0->gpu0"', "a/gpumap.toml, line 1"),
        ("a___theanorc", "[x]\n[global]\n\nContexts=dev0->gpu0", "a/.theanorc, line 4"),
        ("a___theanorc", "[global]\n# [x]\ncontexts : dev0->gpu0", "a/.theanorc, line 3"),
        ("node_gpumap", "\n\ndev0->gpu0", "node.gpumap, line 3"),
    ],
)
def test_a_problem_has_its_file_its_line_and_its_place_in_the_map(gpumap, files, name, text, place):
    """Exit 2, nothing on stdout; the caret stands below what is wrong."""
    files(**{name: text})
    shown = GPU0 if not name.startswith("node") else GPU0.replace("  dev0", r"  \n\ndev0").replace(
        "        ^", "            ^"
    )  # fmt: skip

    expected = f'error in entry 1: {place}: "gpu0" is not a device\n{shown}'
    path = name.replace("__", "/").replace("_", ".")
    assert Answer(2, "", expected) == gpumap("check-files", path)


def test_all_problems_of_all_files_are_said_at_once(gpumap, files):
    """A file that cannot be read costs no other its look."""
    files(a_map="a->gpu0;b=>cpu1", b_map="", c_map="a->cpu0")
    (gpumap.folder / "d.map").write_bytes(b"\xff")

    answer = gpumap("check-files", "a.map", "b.map", "c.map", "d.map", "gone.map")

    folder = gpumap.folder
    assert (answer.code, answer.out) == (2, "")
    assert re.findall("^error.*$", answer.err, re.MULTILINE) == [
        'error in entry 1: a.map, line 1: "gpu0" is not a device',
        'error in entry 2: a.map, line 1: no "->" in "b=>cpu1"',
        "error: b.map, line 1: the map is empty",
        f"error: cannot read the map file {folder}/d.map: it is not UTF-8 (0xff at byte 0)",
        f"error: cannot read the map file {folder}/gone.map: there is no such file",
    ]


def test_a_map_where_nobody_looks_for_it_is_a_problem(gpumap, files):
    """pyproject.toml may have limits, which are a project's; a map is a machine's."""
    files(a__pyproject_toml=f'[tool.gpumap]\nmap = "{TWO}"')

    said = (
        f"error: {gpumap.folder}/a/pyproject.toml: a map in [tool.gpumap] is not looked for\n"
        "  fix: move it to a gpumap.toml beside it\n"
    )
    assert Answer(2, "", said) == gpumap("check-files", "a/pyproject.toml")


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_what_theano_would_drop_is_a_warning(gpumap, files, options, code):
    """It is said, with its file; with --strict it is a no."""
    files(a___theanorc=f"[gpuarray]\ncontexts = {TWO}")

    answer = gpumap("check-files", "a/.theanorc", *options)

    said = 'warning: a/.theanorc: Theano does not look for contexts in "gpuarray"\n'
    assert answer.code == code
    assert answer.err.startswith(said)
    assert ("--strict" in answer.err, answer.out == "") == (bool(code), bool(code))


def test_hostile_names_and_maps_are_harmless(gpumap):
    """No control character of a file's, or of its name's, comes through."""
    (gpumap.folder / "x\x1b[2J.map").write_text("a\x1b[2J->gpu0")

    answer = gpumap("check-files", "x\x1b[2J.map")

    assert answer.code == 2
    assert answer.err.replace("\n", "").isprintable()


def test_no_file_is_no_success(gpumap):
    """A hook that is given nothing has looked at nothing."""
    assert gpumap("check-files").code == 2


# --- the hook


def hook():
    """Return what pre-commit reads."""
    (found,) = yaml.safe_load(HOOKS.read_text())
    return found


def test_the_hook_has_what_pre_commit_asks_for():
    """The keys that it must have, and a script: pre-commit installs nothing for it."""
    found = hook()

    assert {"id", "name", "entry", "language", "files"} <= set(found)
    assert (found["language"], found["types"]) == ("script", ["text"])
    assert os.access(ROOT / found["entry"], os.X_OK)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("gpumap.toml", True), ("sub/gpumap.toml", True), (".theanorc", True),
        ("home/.theanorc", True), ("maps/node.gpumap", True), ("pyproject.toml", True),
        ("mygpumap.toml", False), ("gpumap.toml.orig", False), ("app.js.map", False),
    ],
)  # fmt: skip
def test_the_hook_is_given_the_files_that_may_have_a_map(path, meant):
    """pre-commit searches the path for the expression."""
    assert meant == bool(re.search(hook()["files"], path))


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [(TWO, (), 0), ("dev0->gpu0\n", (), 2), ("a b->cpu0;a b->cpu0", (), 2), ("a b->cpu0", (), 0),
     (f"{TWO}\ud800", (), 2), ("\x1b[31m->cpu0", (), 2)],
)  # fmt: skip
def test_the_hook_says_what_the_command_says(gpumap, files, text, words, code):
    """With no library but Python's own: neither click nor NumPy can be imported."""
    (gpumap.folder / "a.gpumap").write_bytes(text.encode("utf-8", "surrogatepass"))
    files(b_gpumap=TWO)
    names = (*words, "a.gpumap", "b.gpumap")

    answer = gpumap.run([sys.executable, "-I", "-S", str(ROOT / hook()["entry"]), *names])

    assert answer.code == code
    assert answer == gpumap("check-files", *names)


def test_the_hook_can_be_strict(gpumap):
    """A warning is a no."""
    (gpumap.folder / ".theanorc").write_text("[global]\ncontexts = 'a->cpu0'\n")
    script = [sys.executable, "-I", "-S", str(ROOT / hook()["entry"])]

    assert gpumap.run([*script, "--strict", ".theanorc"]) == gpumap(
        "check-files", "--strict", ".theanorc"
    )


def test_a_caret_points_into_a_line_and_not_at_the_end_of_the_file(gpumap, files):
    """A map's file ends in a line break, which is no part of the map."""
    files(a_gpumap="a->gpu0\n")

    assert "\\n" not in gpumap("check-files", "a.gpumap").err
