"""The reference and the man pages say what the commands say, and are read back as that."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from manual import DOCS, FOLDER, PAGE, contexts, listed, pages, reference

from gpumap import cli
from gpumap.explain.lookup import table


@pytest.mark.filterwarnings("ignore:'click.utils.make_default_short_help'")  # click-man's
def test_what_is_stored_is_made_from_the_commands():
    """`make docs` writes it; nothing is left of a command that is gone."""
    assert reference() == PAGE.read_text(encoding="utf-8")
    assert pages() == {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}


@pytest.mark.parametrize("variable", listed("Variables"))
def test_a_variable_is_one_that_gpumap_reads(variable):
    sources = (DOCS.parent / "gpumap").rglob("*.py")
    assert any(f'"{variable}"' in path.read_text() for path in sources)


def test_the_files_are_those_that_set_something():
    files = listed("Files")
    assert set(re.findall("`(.*?)`", files["gpumap.toml"])) == set(cli._CONFIG)
    assert set(cli._PROJECT) < set(re.findall("`(.*?)`", files["pyproject.toml"]))


def test_the_exit_codes_are_those_of_explain():
    rows = [tuple(line[2:-2].split(" | ")) for line in PAGE.read_text().splitlines()
            if re.match(r"\| \d", line)]  # fmt: skip
    known = [topic for topic in table() if topic.kind == "exit code"]
    assert rows == [(topic.name, topic.summary, topic.text) for topic in known]


@pytest.mark.parametrize(
    "reader", [("groff", "-man", "-ww", "-Tutf8", "-P-cbou"), ("mandoc", "-man", "-Tutf8")]
)
def test_a_man_page_is_read_back_as_its_command_says_it(reader):
    """Every option with its text, and without a warning."""
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed (make system installs it)")
    for context in contexts():
        page = FOLDER / f"{context.command_path.replace(' ', '-')}.1"
        done = subprocess.run([*reader, page], capture_output=True, text=True, check=False)
        shown = "".join(re.sub(r".\x08", "", done.stdout).split())  # mandoc's bold
        assert (done.returncode, done.stderr) == (0, "")
        options = [param for param in context.command.params if param.param_type_name == "option"]
        for option in options:
            terms, text = option.get_help_record(context)
            assert "".join(f"{terms}{text}".split()) in shown
