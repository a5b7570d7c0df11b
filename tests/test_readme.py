"""README is true: its examples give what they show, and its commands and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

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


def test_every_command_is_in_readme():
    """README names every command."""
    missing = [name for name in cli.COMMANDS if f"gpumap {name}" not in TEXT]

    assert missing == []


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


def test_the_table_of_exit_codes_is_complete():
    """README's table has every exit code that this version can give."""
    table = TEXT[TEXT.index("| exit |") : TEXT.index("## Devices")]

    missing = [code for code in Exit if not re.search(rf"\b{code}\b", table)]

    assert missing == []
