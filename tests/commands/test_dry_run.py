"""`--dry-run`: the plan, of devices that stay closed; and `--reference`, which decides on it."""

import shlex

import pytest
from commands.scripts import report, script
from tables import table

MAP = ("--map", "a->cuda0;b->cuda1")
COMMANDS = {name: shlex.split(line) for name, line in table(__file__).items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_plan_is_what_a_run_does_and_opens_no_device(gpumap, name):
    """Row by row, where the first device is the fastest. One that is opened writes a log."""
    log = gpumap.folder / "log"
    command = (*COMMANDS[name], *MAP, "--format", "json")
    gpumap.fake(f'log = "{log}"\n' + script())
    answer = gpumap(*command, "--dry-run")
    dry = report(answer)
    assert (answer.code, log.exists()) == (0, False)
    assert {row["reason"]["code"] for row in dry["measurements"]} <= {"stopped", "unsupported"}
    run = report(gpumap(*command, "--budget", "1s"))
    planned, done = ([row["id"] for row in found["measurements"]] for found in (dry, run))
    assert planned == done != []


@pytest.mark.parametrize("bench", ["dot", "chain"])
def test_the_reference_is_the_requested_name(gpumap, bench):
    """Also in a dry run."""
    words = ("bench", bench, *MAP, "--reference", "b", "--budget", "2s", "--format", "json")
    for more in ((), ("--dry-run",)):
        rows = report(gpumap.fake(script())(*words, *more))["measurements"]
        names = [row["names"] for row in rows if row["case"] in ("one", "fused")]
        assert {*map(tuple, names)} == {("b",)}


def test_a_requested_reference_without_kernels_is_refused(gpumap):
    """Most cases of a chain need a kernel on it: nothing of them could be measured."""
    gpumap.fake(script({}, {"features": []}))
    words = ("bench", "chain", "--rows", "1024", *MAP, "--budget", "9s", "--reference")
    assert [gpumap(*words, name).code for name in "ba"] == [2, 0]
