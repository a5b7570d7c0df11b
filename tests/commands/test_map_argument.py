"""The map as an argument: of every command that takes one, and beside `--map`."""

import click
import pytest
from commands.scripts import report, script
from surface import commands

MAP = "left->cuda1;right->cuda0"
PLANS = ("--dry-run", "--format", "json")
TAKING = {
    "check": ("--format", "json"), "doctor": ("--format", "json"), "bench dot": PLANS,
    "bench chain": PLANS, "bench allreduce": PLANS, "bench train": PLANS, "transfer-cost": PLANS,
    "selftest": PLANS,
}  # fmt: skip
ELSEWHERE = {"run", "scale", "trace"}  # a command or script follows: their own tests


def test_every_command_that_takes_a_map_takes_it_as_an_argument():
    found = {name: command for name, command in commands() if _has(command, "option")}
    assert set(found) == {*TAKING, *ELSEWHERE}
    assert [name for name, command in found.items() if not _has(command, click.Argument)] == []


def _has(command, what):
    return any(p.name == what or (what is click.Argument and isinstance(p, what))
               for p in command.params)  # fmt: skip


@pytest.mark.parametrize("name", TAKING)
def test_the_argument_is_the_map(gpumap, name):
    gpumap.fake(script())
    command = (*name.split(), *TAKING[name])
    argument = report(gpumap(*command, MAP))
    option = report(gpumap(*command, "--map", MAP))
    found = [(each["map"]["source"], each["map"]["text"]) for each in (argument, option)]
    assert found == [("argument", MAP), ("--map", MAP)]
