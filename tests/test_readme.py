"""README, CONTRIBUTING, docs/json.md and the index of records list what is there, and no more."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from report_schema import SCHEMA

from gpumap import cli
from gpumap.errors import Exit

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)


def examples():
    """Return each verified example: the command, and what it prints."""
    for block in CONSOLE:
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            yield command, shown


@pytest.mark.parametrize(("command", "shown"), list(examples()))
def test_an_example_prints_what_readme_shows(gpumap, command, shown):
    """A console block is the whole output of its command, both streams."""
    answer = gpumap(*shlex.split(command)[1:])

    assert shown == answer.err + answer.out


def test_every_command_and_exit_code_is_in_readme():
    """The codes in its table."""
    table = TEXT[TEXT.index("| exit |") : TEXT.index("## Devices")]

    assert [name for name in cli.COMMANDS if f"gpumap {name}" not in TEXT] == []
    assert [code for code in Exit if not re.search(rf"\b{code}\b", table)] == []


def test_every_option_in_readme_exists():
    """Every long option that README writes is one of gpumap's."""
    known = {"--version", "--help", "--gpus"}  # the last is docker's, in a fix
    for name in cli.COMMANDS:
        command = cli.group.get_command(None, name)
        commands = command.commands.values() if isinstance(command, click.Group) else [command]
        known |= {text for c in commands for param in c.params
                  for text in (*param.opts, *param.secondary_opts)}  # fmt: skip

    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", TEXT))

    assert used - known == set()


def test_every_script_is_in_contributing():
    """Of the files in benchmarks/, each that runs by itself; the table counts each command."""
    from benchmarks.imports import COMMANDS

    files = (ROOT / "benchmarks").glob("*.py")
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = text[text.index("`benchmarks/` holds") : text.index("`docs/method.md`")]
    table = text[text.index("| command | modules |") : text.index("## Adding things")]

    assert set(re.findall(r"`(\w+\.py)`", listed)) == {
        file.name for file in files if "__main__" in file.read_text()
    }
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(COMMANDS)


def test_every_record_is_in_the_index():
    """By its name without a suffix, and each row of the index has its page."""
    folder = ROOT / "docs" / "measured"
    index = (folder / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[`([^`]+)`\]\(([^)]+)\) \|", index, re.MULTILINE)

    assert [page for _, page in rows] == [f"{name}.md" for name, _ in rows]
    assert {name for name, _ in rows} | {"README"} == {file.stem for file in folder.iterdir()}
    assert all((folder / page).is_file() for _, page in rows)


def test_the_page_of_the_json_lists_the_keys_of_the_schema():
    """In the first column of its tables: of a report, and of a row."""
    pages = (ROOT / "docs" / "json.md").read_text(encoding="utf-8").split("## A row")
    for text, wanted in zip(pages, (SCHEMA, SCHEMA["$defs"]["Row"]), strict=True):
        cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        listed = [key for cell in cells for key in re.findall("`(.*?)`", cell)]
        assert sorted(listed) == sorted(wanted["required"])
