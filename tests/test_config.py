"""gpumap.toml: found upwards, read, and its unknown keys named."""

import os
from pathlib import Path

import pytest

from gpumap import config
from gpumap.errors import Diagnostic, SourceError


def said(error):
    """Return the message and the hint of every diagnostic."""
    return [(d.message, d.hint) for d in error.value.diagnostics]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], None),
        (["gpumap.toml"], "gpumap.toml"),
        (["gpumap.toml", "a/gpumap.toml"], "a/gpumap.toml"),
        (["gpumap.toml", "a/b/gpumap.toml", "a/b/c/gpumap.toml"], "a/b/gpumap.toml"),
    ],
)
def test_the_nearest_file_upwards_is_found(tmp_path, files, found):
    """The folder itself comes first, then its parents; folders below are not searched."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    for name in files:
        (tmp_path / name).touch()

    assert (found and tmp_path / found) == config.find(tmp_path / "a/b")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.symlink_to("gone"), "there is no such file"),
        (lambda path: path.mkdir(), "it is a folder"),
        (os.mkfifo, "it is a FIFO"),
    ],
)
def test_what_bears_the_name_is_never_passed_over(tmp_path, make, problem):
    """A gpumap.toml that cannot be read is an error, not a reason to look further up."""
    path = tmp_path / "gpumap.toml"
    make(path)

    with pytest.raises(SourceError) as error:
        config.read(config.find(tmp_path))

    assert f"cannot read the configuration {path}: {problem}" == said(error)[0][0]


def test_tables_and_values_are_read(tmp_path):
    """The file is TOML."""
    path = tmp_path / "gpumap.toml"
    path.write_text('map = "dev0->cpu0"\n[bench]\nsize = 8\n')

    assert config.read(path) == {"map": "dev0->cpu0", "bench": {"size": 8}}


TOML_HINT = 'a setting is written key = value, text in quotes: map = "dev0->cuda0"'


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("map = dev0", "Invalid value (at line 1, column 7)", TOML_HINT),
        ("a = 1\na = 2\n", "Cannot overwrite a value (at line 2, column 6)", TOML_HINT),
        ('a = "\x1b[2J"', r"Illegal character '\x1b' (at line 1, column 6)", TOML_HINT),
        ("a = " + "9" * 5000, "a number is too long", "shorten it"),
        ("a = " + "[" * 5000, "brackets are nested too deeply", "remove some"),
    ],
)
def test_what_is_no_toml_is_said_with_its_place(tmp_path, text, problem, hint):
    """An error of TOML names the file, the line and the column, and prints no raw character."""
    path = tmp_path / "gpumap.toml"
    path.write_text(text)

    with pytest.raises(SourceError) as error:
        config.read(path)

    assert [(f"cannot read the configuration {path}: {problem}", hint)] == said(error)


def test_known_keys_pass(tmp_path):
    """Nothing is said about keys that are known."""
    config.check_keys({"map": "", "seed": 1}, {"map", "seed", "budget"}, tmp_path)


def test_every_unknown_key_is_named_with_what_is_near(tmp_path):
    """All unknown keys are reported at once, each with the key that was meant."""
    path = tmp_path / "gpumap.toml"

    with pytest.raises(SourceError) as error:
        config.check_keys({"precison": 1, "map": "", "\x1b": 2}, ("precision", "map"), path)

    assert (
        Diagnostic("unknown-key", f'{path}: unknown key "precison"', hint="write precision"),
        Diagnostic(
            "unknown-key",
            rf'{path}: unknown key "\x1b"',
            hint="remove it; known are map, precision",
        ),
    ) == error.value.diagnostics


@pytest.mark.parametrize(
    ("value", "hint"),
    [(3, 'write text = "..."'), ([1], 'write text = "..."'), (None, 'write text = "..."')],
)
def test_a_value_of_another_type(value, hint):
    """Each is a diagnostic that says what is wanted; a number is not taken for its digits."""
    with pytest.raises(SourceError) as error:
        config.check_types({"text": value, "flag": True}, TYPES, Path("g.toml"))

    (found,) = error.value.diagnostics
    assert ("wrong-type", hint) == (found.code, found.hint)
    assert "g.toml: text is not a text" in found.message


def test_values_of_the_right_types():
    """A list is one of texts; true is no text and 1 is no flag."""
    good = {"text": "a", "flag": False, "both": ["a", "b"]}
    bad = {"flag": 1, "both": [1]}

    assert config.check_types(good, TYPES, Path("g.toml")) is None
    with pytest.raises(SourceError) as error:
        config.check_types(bad, TYPES, Path("g.toml"))
    assert len(error.value.diagnostics) == 2


TYPES = {"text": (str,), "flag": (bool,), "both": (str, list)}


# --- the table of a project


TABLE = '[tool.gpumap]\nlimit = ["dot.many.speedup>=1.8"]\n'


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, None),
        ({"pyproject.toml": '[project]\nname = "x"\n'}, None),
        ({"pyproject.toml": 'name = "gpumap"\n'}, None),
        ({"pyproject.toml": TABLE}, "pyproject.toml"),
        ({"pyproject.toml": TABLE.replace("gpumap", '"gpu\\u006dap"')}, "pyproject.toml"),
        ({"pyproject.toml": TABLE, "a/pyproject.toml": TABLE}, "a/pyproject.toml"),
        ({"pyproject.toml": TABLE, "a/b/pyproject.toml": "[tool.ruff]\n"}, "pyproject.toml"),
        ({"a/b/c/pyproject.toml": TABLE}, None),
    ],
)
def test_the_nearest_project_with_a_table_is_found(tmp_path, files, found):
    """A project without one says nothing about gpumap."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    expected = found and (tmp_path / found, {"limit": ["dot.many.speedup>=1.8"]})
    assert expected == config.project(tmp_path / "a/b")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool]\ngpumap = 3\n", "{path}: tool.gpumap is no table"),
        ("[[tool.gpumap]]\n", "{path}: tool.gpumap is no table"),
        ("[tool.gpumap\n", "cannot read the configuration {path}: Expected ']' at the end of a"),
        ("\0gpumap", "cannot read the configuration {path}: it is not text (a NUL at byte 0)"),
    ],
)
def test_a_project_that_cannot_be_understood_is_never_passed_over(tmp_path, text, problem):
    """Its limits would be lost without a word."""
    path = tmp_path / "pyproject.toml"
    path.write_text(text)

    with pytest.raises(SourceError) as error:
        config.project(tmp_path)

    assert said(error)[0][0].startswith(problem.format(path=path))


def test_a_project_of_another_tool_is_not_parsed(tmp_path):
    """What is wrong with it is that tool's affair."""
    (tmp_path / "pyproject.toml").write_text("[tool.other\n")

    assert config.project(tmp_path) is None
