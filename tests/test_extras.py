"""What fixes tell to install: libraries by name, by the Python that runs gpumap, never gpumap."""

import ast
import re
import shlex
import sys

import pytest
from packaging.requirements import Requirement
from test_architecture import TREES
from written import PAGES, PROJECT, ROOT

from gpumap import extras

DRIVEN = {name: found for name, found in PROJECT["optional-dependencies"].items()
          if not name.startswith(("docs", "test"))}  # fmt: skip
LIBRARIES = {Requirement(text).name for found in DRIVEN.values() for text in found} | {
    *(Requirement(text).name for text in PROJECT["dependencies"]),
    "nvidia-nccl-cu13",
}


def on(monkeypatch, platform, machine):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(extras.os, "uname", lambda: type("Uname", (), {"machine": machine}))


def calls(name):
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield file, node.args


def test_the_table_is_the_projects():
    """Name by name, requirement by requirement; what only tests take is in no fix."""
    own, ours = ({name: [str(Requirement(text)) for text in found] for name, found in each.items()}
                 for each in (DRIVEN, extras.EXTRAS))  # fmt: skip
    assert ours == own


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_a_line_names_this_python_and_every_library(monkeypatch, extra):
    on(monkeypatch, "linux", "x86_64")
    python, *words = shlex.split(extras.install(extra))
    assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert words[3:] == [text.partition(";")[0] for text in extras.EXTRAS[extra]]


@pytest.mark.parametrize(("platform", "machine"), [("linux", "aarch64"), ("darwin", "x86_64")])
def test_on_other_machines_a_line_names_what_there_is(monkeypatch, platform, machine):
    on(monkeypatch, platform, machine)
    names = {extra: [Requirement(text).name for text in shlex.split(extras.install(extra))[4:]]
             for extra in extras.EXTRAS}  # fmt: skip
    assert names["opencl-cpu"] == names["opencl-intel"] == ["pyopencl"]
    assert [extra for extra in extras.EXTRAS if not extras.has_wheels(extra)] == [
        "opencl-cpu",
        "opencl-intel",
    ]


@pytest.mark.parametrize("python", ["/a b/python", "/it's/$(rm)/py;thon", '/"/\\/p', ""])
def test_a_line_can_be_pasted_whatever_the_path_is(monkeypatch, python):
    """A shell reads it as one word; where Python is embedded, it does not know itself."""
    monkeypatch.setattr(sys, "executable", python)
    words = shlex.split(extras.pip("install", "a[b]>=1"))
    assert words[:3] == [python or "python3", "-m", "pip"]


def test_no_text_of_gpumaps_has_a_line_of_its_own():
    """One function makes them all, so that what holds for it holds for every fix."""
    pattern = re.compile(r"pip3? (un)?install\b|-m pip|gpumap\[|-m[\"', ]+pip")
    nodes = [(file, node) for file, tree in TREES.items() for node in ast.walk(tree)]
    texts = [(file, node.value) for file, node in nodes
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    # but what finds such a line
    assert [t for t in texts if pattern.search(t[1]) and t[1] != " -m pip "] == []


def test_every_library_that_a_fix_names_is_known():
    """None is a stranger's, and none is gpumap: no one else may upload what a fix installs."""
    words = {word.value for file, args in calls("pip") if file != "extras"
             for word in args if isinstance(word, ast.Constant)}  # fmt: skip
    assert {word for word in words if word[0] != "-"} <= LIBRARIES | {"install", "uninstall"}
    asked = [args[0] for _, args in calls("install")]
    literal = {one.value for one in asked if isinstance(one, ast.Constant)}
    assert literal <= set(extras.EXTRAS)
    computed = {ast.unparse(one) for one in asked if not isinstance(one, ast.Constant)}
    assert computed == {"f'cuda{major}'", "self.name"}  # a framework's


def test_no_page_tells_to_install_gpumap_from_an_index():
    """From a checkout or a wheel: what the index has under that name is not this."""
    line = re.compile(r"pip3? install(?: --?[\w-]+)* +['\"]?gpumap")
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
    assert [name for name, text in texts.items() if line.search(text) or "gpumap[" in text] == []
