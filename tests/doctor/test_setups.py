"""Broken set-ups, each planted for real: `gpumap doctor` names what was planted, and first."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec

import pytest
import tables
from commands.scripts import script
from flat_report import loads

from gpumap.doctor.diagnose import table

SOUND = {"latency": 5e-6, "launch": 5e-6, "rate": 1e12, "bandwidth": 1e11}
ROOM = "90s"  # for a machine with other work; what hangs would take all of it
needs_opencl = pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl: not installed")


@dataclass(frozen=True)
class Plant:
    """A set-up: scripted devices or none, files, variables, stub drivers, and what is asked."""

    code: str = ""
    arguments: tuple = ("dev0->cuda0",)
    devices: tuple = ()  # what differs from sound ones
    env: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)  # in the working folder; "~/" is HOME
    stubs: tuple | None = None  # None: the machine's own drivers
    exit: int | None = None  # None: that of the cause
    opencl: bool = False  # whether it takes pyopencl


PLANTS = {name: Plant(**row) for name, row in tables.table(__file__, "plants").items()}
THEANO = tables.table(__file__)


def asked(gpumap, plant, stubs):
    for name, text in plant.files.items():
        folder = gpumap.folder.parent / "home" if name.startswith("~/") else gpumap.folder
        (folder / name.removeprefix("~/")).write_text(text)
    if plant.devices:
        gpumap.fake(script(*plant.devices, **SOUND))
    there = {} if plant.stubs is None else stubs(*plant.stubs)
    env = {key: str(gpumap.folder) if value == "." else value for key, value in plant.env.items()}
    env = {"GPUMAP_TIMEOUT": ROOM} | env
    answer = gpumap("doctor", *plant.arguments, "--format", "json", **there, **env)
    return answer, loads(answer.out)


def first(diagnosis):
    return next((finding["code"] for finding in diagnosis["findings"]), None)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=name, marks=(needs_opencl,) * plant.opencl)
        for name, plant in PLANTS.items()
    ],
)
def test_the_planted_cause_is_named_first(gpumap, stubs, plant):
    answer, report = asked(gpumap, plant, stubs)
    found = next(one for one in report["diagnoses"] if one["verdict"] != "used")
    cause = table()[plant.code]
    assert (found["findings"][0]["code"], found["findings"][0]["cause"]) == (plant.code, cause.key)
    assert found["verdict"] == cause.rule.verdict
    assert found["findings"][0]["text"]
    assert found["findings"][0]["fix"]
    expected = 2 if plant.code == "GM101" else int(cause.rule.exit)
    assert answer.code == (expected if plant.exit is None else plant.exit)
    assert "Traceback" not in answer.err


def test_a_gpu_that_nvidia_smi_numbers_otherwise_is_used(gpumap):
    devices = [{"pci": "0000:09:00.0"}, {"pci": "0000:06:00.0"}]
    answer, report = asked(gpumap, Plant("", ("dev0->cuda0;dev1->cuda1",), devices), None)
    notes = [note for note in report["map"]["notes"] if note["code"] == "order-differs"]
    assert [one["verdict"] for one in report["diagnoses"]] == ["used", "used"]
    assert [note["name"] for note in notes] == ["dev0", "dev1"]
    for note, address in zip(notes, ("0000:09:00.0", "0000:06:00.0"), strict=True):
        assert f"cuda@{address}" in note["hint"]
    assert answer.code == 0


@pytest.mark.parametrize("setting", ["", "device=cpu"])
def test_without_a_map_and_a_gpu_nothing_is_unused(gpumap, stubs, setting):
    """No one asked for a device: no verdict on cores that doctor chose itself, and exit 0."""
    plant = Plant("", (), env={"THEANO_FLAGS": setting} if setting else {}, stubs=())
    answer, report = asked(gpumap, plant, stubs)
    assert (answer.code, report["status"], report["diagnoses"]) == (0, "ok", [])
    assert "nothing-to-diagnose" in {note["code"] for note in report["map"]["notes"]}
    assert report["map"]["source"] == "default"


@pytest.mark.parametrize("name", THEANO)
def test_what_theanos_settings_use(gpumap, stubs, name):
    found, row = THEANO[name]["found"], {k: v for k, v in THEANO[name].items() if k != "found"}
    _, report = asked(gpumap, Plant(**row) if row else PLANTS[name], stubs)
    assert [[one["requested"], first(one)] for one in report["diagnoses"]] == found


def test_a_core_that_is_not_for_this_process(gpumap):
    """An affinity mask hides it: the second of two cores for a process on the first."""
    core, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("one core only")
    code = (f"import os, subprocess, sys; os.sched_setaffinity(0, {{{core}}}); "
            "sys.exit(subprocess.run(sys.argv[1:]).returncode)")  # fmt: skip
    command = [sys.executable, "-c", code, gpumap.command, "doctor", "a->cpu1", "--format", "json"]
    answer = gpumap.run(command)
    (found,) = loads(answer.out)["diagnoses"]
    assert (first(found), found["verdict"], answer.code) == ("GM301", "not used", 3)


def test_a_second_process_on_the_cores(gpumap):
    code = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        answer = gpumap("doctor", "a->cpu0", "--format", "json")
        other.kill()
    (found,) = loads(answer.out)["diagnoses"]
    assert (first(found), found["verdict"], answer.code) == ("GM303", "partly", 1)
