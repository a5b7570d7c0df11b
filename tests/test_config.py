"""gpumap.toml: found upwards, read, and its unknown keys named."""

import os
from pathlib import Path

import pytest
import tables

from gpumap import config
from gpumap.errors import SourceError
from gpumap.files import others

TABLES = tables.table(__file__)
OWN = os.geteuid()


def refused(action):
    with pytest.raises(SourceError) as error:
        action()
    return error.value.diagnostics


@pytest.mark.parametrize(("files", "found"), TABLES["the_nearest_file_upwards_is_found"])
def test_the_nearest_file_upwards_is_found(tmp_path, files, found):
    """The folder itself comes first, then its parents; folders below are not searched."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    for name in files:
        (tmp_path / name).touch()
    assert (found and tmp_path / found) == config.find(tmp_path / "a/b")


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("gone"), Path.mkdir, os.mkfifo])
def test_what_bears_the_name_is_never_passed_over(tmp_path, make):
    """A gpumap.toml that cannot be read is an error, not a reason to look further up."""
    path = tmp_path / "a" / "gpumap.toml"
    path.parent.mkdir()
    (tmp_path / "gpumap.toml").touch()
    make(path)
    (found,) = refused(lambda: config.read(config.find(tmp_path / "a")))
    assert found.message.startswith(f"cannot read the configuration {path}: ")


@pytest.mark.parametrize(("text", "place"), [
    *TABLES["no_toml"], *((f"a = {character * 5000}", "") for character in "9["),
])  # fmt: skip
def test_what_is_no_toml_is_said_with_its_place(tmp_path, text, place):
    path = tmp_path / "gpumap.toml"
    path.write_text(text)
    (found,) = refused(lambda: config.read(path))
    assert found.message.startswith(f"cannot read the configuration {path}: ")
    assert found.message.endswith(place)


def test_every_unknown_key_is_named_with_what_is_near():
    known = {"precision": (str,), "map": (str,)}
    found = refused(lambda: config.check({"precison": 1, "map": "", "\x1b": 2}, known, FILE))
    assert [(d.code, d.hint) for d in found] == [
        ("unknown-key", "did you mean precision?"),
        ("unknown-key", "remove it; known are map, precision"),
    ]  # fmt: skip
    assert config.check({"map": ""}, known, FILE) is None


FILE = Path("g.toml")
TYPES = {"text": (str,), "flag": (bool,), "both": (str, list)}


@pytest.mark.parametrize(("settings", "wrong"), TABLES["each_value_of_another_type_is_said"])
def test_each_value_of_another_type_is_said(settings, wrong):
    found = refused(lambda: config.check(settings, TYPES, FILE)) if wrong else ()
    assert [d.code for d in found] == ["wrong-type"] * wrong
    assert wrong or config.check(settings, TYPES, FILE) is None


def test_nothing_is_looked_for_above_the_home_folder(tmp_path):
    (tmp_path / "home" / "a").mkdir(parents=True)
    (tmp_path / config.NAME).touch()
    home = str(tmp_path / "home")
    assert config.find(tmp_path / "home" / "a", home) is None
    (tmp_path / "home" / config.NAME).touch()
    assert tmp_path / "home" / config.NAME == config.find(tmp_path / "home" / "a", home)


def state(kind, mode, user=OWN, group=None):
    mode |= {"file": 0o100000, "folder": 0o040000, "link": 0o120000}[kind]
    return os.stat_result((mode, 1, 1, 1, user, os.getegid() if group is None else group, *[0] * 4))


@pytest.mark.parametrize(("found", "safe"), TABLES["who_else_can_write"])
def test_who_else_can_write(found, safe):
    """Root and this user may; a user's own group is that user; a sticky folder is no way."""
    assert safe == (others(state(*found)) is None)


@pytest.mark.parametrize(("what", "mode"), [("b/x.toml", 0o646), ("a", 0o757), ("b", 0o757)])
def test_a_file_that_others_can_write_is_refused(tmp_path, what, mode):
    """Or its folder, or that of what a link leads to; a file that is named is the user's choice."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir(mode=0o755)
    (tmp_path / "b" / "x.toml").write_text('map = "dev0->cpu0"\n')
    path = tmp_path / "a" / config.NAME
    path.symlink_to("../b/x.toml")
    assert config.read(path, own=True) == {"map": "dev0->cpu0"}
    (tmp_path / what).chmod(mode)
    assert refused(lambda: config.read(path, own=True))
    assert config.read(path) == {"map": "dev0->cpu0"}
