"""Broken set-ups, each planted for real: `gpumap doctor` names what was planted, and first.

Planted by the environment, by files, by scripted devices, by stub drivers (tests/drivers) and by a
second process. What could not be planted so stands in test_causes.py.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec

import pytest

from gpumap.doctor.causes import RULES, table

SOUND = "latency = 5e-6\nlaunch = 5e-6\nrate = 1e12\n"
ONE = f'[[device]]\nref = "cuda0"\n{SOUND}'
TWO = f'{ONE}[[device]]\nref = "cuda1"\n{SOUND}'
MAP = "dev0->cuda0"
BOTH = "dev0->cuda0;dev1->cuda1"
LATE = "import theano\ntheano.config.device = 'cuda'\n"
HIDING = "import os\nimport cupy\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
MISSING = "raise ImportError(\"No module named 'fastrlock'\")\n"
BROKEN = "raise ImportError('numpy.core.multiarray failed to import')\n"
needs_opencl = pytest.mark.skipif(find_spec("pyopencl") is None, reason="pyopencl: not installed")


@dataclass(frozen=True)
class Plant:
    """A set-up: scripted devices or none, files, variables, stub drivers, and what is asked."""

    code: str
    arguments: tuple = (MAP,)
    script: str = ""
    env: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)  # in the working folder; "~/" is HOME
    stubs: tuple | None = None  # None: the machine's own drivers
    exit: int | None = None  # None: that of the cause
    marks: tuple = ()


def stub(**numbers):
    return {f"GPUMAP_STUB_{name.upper()}": str(value) for name, value in numbers.items()}


def faulty(*lines):
    return ONE + "".join(f"{line}\n" for line in lines)


DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
MODULES = {"PYTHONPATH": "."}
PLANTS = {
    "empty map": Plant("GM101", ("",), ONE),
    "cut map": Plant("GM101", ("dev0-",), ONE),
    "no map": Plant("GM102", (), ONE),
    "device without a GPU": Plant("GM205", (), env={"THEANO_FLAGS": "device=cuda0"}, stubs=()),
    "another device": Plant("GM219", (), ONE, {"THEANO_FLAGS": "device=cuda7"}),
    "device that is none": Plant("GM101", (), ONE, {"THEANO_FLAGS": "device=cudaX"}),
    "device that is a map": Plant("GM101", (), TWO, {"THEANO_FLAGS": "device=cuda0;b->cuda1"}),
    "name as device": Plant("GM114", (), TWO, {
        "THEANO_FLAGS": f"floatX=float32,device=dev0,contexts={BOTH}"}),
    "lost name": Plant("GM115", (), TWO, {
        "THEANO_FLAGS": f"floatX=float32,device=cuda0,contexts={BOTH}"}),
    "comma": Plant("GM103", (), TWO,
                   {"THEANO_FLAGS": "floatX=float32,contexts=dev0->cuda0,dev1->cuda1"}),
    "comment": Plant("GM103", (), TWO,
                     {"THEANO_FLAGS": "floatX=float32,contexts=dev0->cuda0#;dev1->cuda1"}),
    "device=cpu": Plant("GM104", script=ONE, env={"THEANO_FLAGS": "device=cpu,floatX=float32"}),
    "device=cpu in a file": Plant("GM104", script=ONE,
                                  files={"~/.theanorc": "[global]\ndevice = cpu\n"}),
    "old device": Plant("GM105", script=ONE, env={"THEANO_FLAGS": "device=gpu0,floatX=float32"}),
    "option after import": Plant("GM106", (MAP, "--script", "train.py"), ONE,
                                 files={"train.py": LATE}),
    "variable after import": Plant("GM107", (MAP, "--script", "train.py"), ONE,
                                   files={"train.py": HIDING}),
    "child": Plant("GM108", script=ONE, env={"THEANO_GPU_IS_ALREADY_ACTIVE": "Yes"}),
    "two maps": Plant("GM109", (), TWO, {
        "GPUMAP_CONTEXTS": MAP, "THEANO_FLAGS": "floatX=float32,contexts=dev0->cuda1"}),
    "launch blocking": Plant("GM110", script=ONE, env={"CUDA_LAUNCH_BLOCKING": "1"}),
    "one device": Plant("GM111", ("a->cuda0;b->cuda",), TWO),
    "broken settings": Plant("GM112", script=ONE, files={"~/.theanorc": "contexts = a->cuda0\n"}),
    "no permission": Plant("GM201", stubs=DRIVER, env=stub(cuda=100, nvml=4)),
    "driver hangs": Plant("GM202", ("a->opencl0:0",), env=MODULES, files={
        "pyopencl.py": "import time\ntime.sleep(600)\n"}),
    "device hangs": Plant("GM202", (BOTH, "--timeout", "14s"), f'{TWO}fault = "hang"\n', exit=3),
    "driver crashes": Plant("GM203", ("a->opencl0:0",), env=MODULES, files={
        "pyopencl.py": "import os\nos.abort()\n"}),
    "hidden": Plant("GM204", stubs=DRIVER,
                    env=stub(cuda=100, nvml_devices=1) | {"CUDA_VISIBLE_DEVICES": ""}),
    "hidden by a number": Plant("GM204", stubs=DRIVER,
                                env=stub(cuda=100, nvml_devices=1) | {"CUDA_VISIBLE_DEVICES": "7"}),
    "no driver": Plant("GM205", stubs=()),
    "no OpenCL driver": Plant("GM205", ("a->opencl0:0",), marks=(needs_opencl,),
                              env={"OCL_ICD_VENDORS": "/nonexistent"}),
    "old driver": Plant("GM206", stubs=DRIVER, env=stub(cuda=100, cuda_version=11040)),
    "driver fails": Plant("GM207", stubs=DRIVER, env=stub(cuda=803)),
    "no device": Plant("GM208", stubs=DRIVER, env=stub(cuda=100)),
    "library missing": Plant("GM209", env=stub(cuda_devices=1, nvml_devices=1) | MODULES,
                             stubs=DRIVER, files={"cupy.py": MISSING, "pygpu.py": MISSING}),
    "library broken": Plant("GM210", env=stub(cuda_devices=1, nvml_devices=1) | MODULES,
                            stubs=DRIVER, files={"cupy.py": BROKEN, "pygpu.py": BROKEN}),
    "wrong backend": Plant("GM113", (MAP, "--backend", "numpy")),
    "wrong answer": Plant("GM212", script=faulty('fault = "flip"')),
    "memory full": Plant("GM213", script=faulty('fault = "memory"')),
    "little memory": Plant("GM213", script=faulty("memory = 50000000")),
    "lost": Plant("GM214", script=faulty('fault = "lost"', "fault_after = 20")),
    "wrong device": Plant("GM217", ("a->opencl0:0",), (
        f'[[device]]\nref = "opencl0:0"\ntype = "other"\n{SOUND}'
        f'[[device]]\nref = "opencl1:0"\n{SOUND}')),
    "no kernel": Plant("GM218", script=faulty('features = ["float64"]')),
    "no such device": Plant("GM219", ("dev0->cuda7",), ONE),
    "shared hardware": Plant("GM304", (BOTH,), TWO.replace(SOUND, f'hardware = ["card"]\n{SOUND}')),
    "slow launches": Plant("GM401", script=ONE.replace("launch = 5e-6", "launch = 5e-3")),
    "slow copies": Plant("GM402", script=faulty("bandwidth = 1e8")),
    "late copies": Plant("GM402", script=ONE.replace("latency = 5e-6", "latency = 5e-3")),
    "slow set-up": Plant("GM403", script=faulty("slow_first = 6.0")),
    "taking turns": Plant("GM404", (BOTH,), TWO.replace(SOUND, f'engine = "bus"\n{SOUND}')),
    "slow device": Plant("GM406", script=ONE.replace("rate = 1e12", "rate = 1e10")),
    "float64": Plant("GM407", (), faulty("double = 32"),
                     {"THEANO_FLAGS": "floatX=float64,contexts=dev0->cuda0"}),
    "float64 by default": Plant("GM407", (), faulty("double = 32"),
                                {"THEANO_FLAGS": "contexts=dev0->cuda0"}),
    "device=cpu without a driver": Plant("GM205", env={"THEANO_FLAGS": "device=cpu"}, stubs=()),
    "no such device, broken settings": Plant("GM219", ("dev0->cuda7",), ONE, files={
        "~/.theanorc": "contexts = a->cuda0\n"}),
    "no such device, a late variable": Plant(
        "GM219", ("dev0->cuda7", "--script", "train.py"), ONE, files={"train.py": HIDING}),
}  # fmt: skip


def asked(gpumap, plant, stubs):
    for name, text in plant.files.items():
        folder = gpumap.folder.parent / "home" if name.startswith("~/") else gpumap.folder
        (folder / name.removeprefix("~/")).write_text(text)
    if plant.script:
        gpumap.fake(plant.script)
    there = {} if plant.stubs is None else stubs(*plant.stubs)
    env = {key: str(gpumap.folder) if value == "." else value for key, value in plant.env.items()}
    answer = gpumap("doctor", *plant.arguments, "--format", "json", **there, **env)
    return answer, json.loads(answer.out)


def first(diagnosis):
    return next((finding["code"] for finding in diagnosis["findings"]), None)


@pytest.mark.parametrize(
    "plant", [pytest.param(p, id=name, marks=p.marks) for name, p in PLANTS.items()]
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
    if plant is PLANTS["device hangs"]:  # it costs its own name alone
        assert [one["verdict"] for one in report["diagnoses"]] == ["used", "not used"]
        assert report["elapsed_s"] < 14.0


def test_enough_is_planted():
    planted = {plant.code for plant in PLANTS.values()} | {"GM301", "GM303"}
    assert len(planted) >= 0.75 * len(RULES)


def test_the_last_line_explains_what_decides_the_exit_code(gpumap):
    fake = gpumap.fake(faulty("bandwidth = 1e8"))
    answer = fake("doctor", "slow->cuda0;gone->cuda7", "--format", "plain")
    assert (answer.code, answer.out.splitlines()[-1]) == (3, "`gpumap explain GM219` says more")


@pytest.mark.parametrize("order", ["", "FASTEST_FIRST", "PCI_BUS_ID"])
def test_a_gpu_that_nvidia_smi_numbers_otherwise_is_used(gpumap, order):
    first, second = (f'[[device]]\nref = "cuda{n}"\npci = "0000:{bus}:00.0"\n{SOUND}'
                     for n, bus in ((0, "09"), (1, "06")))  # fmt: skip
    env = {"CUDA_DEVICE_ORDER": order} if order else {}
    answer, report = asked(gpumap, Plant("", (BOTH,), first + second, env), None)
    notes = [note for note in report["map"]["notes"] if note["code"] == "order-differs"]
    assert [one["verdict"] for one in report["diagnoses"]] == ["used", "used"]
    assert [note["name"] for note in notes] == ["dev0", "dev1"]
    for note, address in zip(notes, ("0000:09:00.0", "0000:06:00.0"), strict=True):
        assert f"cuda@{address}" in note["hint"]
        assert ("CUDA_DEVICE_ORDER=PCI_BUS_ID" in note["hint"]) is (order != "PCI_BUS_ID")
    assert answer.code == 0


@pytest.mark.parametrize("setting", ["", "floatX=float32", "device=cpu"])
def test_without_a_map_and_a_gpu_nothing_is_unused(gpumap, stubs, setting):
    """Nobody asked for a device: no verdict on cores that doctor chose itself, and exit 0."""
    plant = Plant("", (), env={"THEANO_FLAGS": setting} if setting else {}, stubs=())
    answer, report = asked(gpumap, plant, stubs)
    assert (answer.code, report["status"], report["diagnoses"]) == (0, "ok", [])
    assert "nothing-to-diagnose" in {note["code"] for note in report["map"]["notes"]}
    assert report["map"]["source"] == "default"


@pytest.mark.parametrize(("plant", "found"), [
    (Plant("", (), TWO, {"THEANO_FLAGS": "device=cuda1,floatX=float32"}), [("cuda1", None)]),
    (Plant("", (), TWO, files={"~/.theanorc": "[global]\ndevice = cuda1\n"}), [("cuda1", None)]),
    # ConfigParser gives its names in small letters
    (Plant("", (), faulty("double = 32"), {"THEANO_FLAGS": "contexts=dev0->cuda0"},
           {"~/.theanorc": "[global]\nfloatX = float32\n"}), [("cuda0", None)]),
    (PLANTS["lost name"], [("cuda0", "GM115"), ("cuda1", None)]),  # those after it are not
    # that doctor chose the cores itself hides nothing
    (Plant("", ("--script", "train.py"), files={"train.py": LATE}, stubs=()), "GM106"),
], ids=["device", "device in a file", "floatX in a file", "lost name", "no GPU"])  # fmt: skip
def test_what_theanos_settings_use(gpumap, stubs, plant, found):
    _, report = asked(gpumap, plant, stubs)
    every = [(one["requested"], first(one)) for one in report["diagnoses"]]
    assert every == found or {code for _, code in every} == {found}
    notes = {note["code"] for note in report["map"]["notes"]}
    assert ("theano-default-device" in notes) == (found == [("cuda1", None)])


def test_a_core_that_is_not_for_this_process(gpumap):
    """An affinity mask hides it: the second of two cores for a process on the first."""
    core, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("one core only")
    code = (f"import os, subprocess, sys; os.sched_setaffinity(0, {{{core}}}); "
            "sys.exit(subprocess.run(sys.argv[1:]).returncode)")  # fmt: skip
    command = [sys.executable, "-c", code, gpumap.command, "doctor", "a->cpu1", "--format", "json"]
    answer = gpumap.run(command)
    (found,) = json.loads(answer.out)["diagnoses"]
    assert (first(found), found["verdict"], answer.code) == ("GM301", "not used", 3)


def test_a_second_process_on_the_cores(gpumap):
    code = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        answer = gpumap("doctor", "a->cpu0", "--format", "json")
        other.kill()
    (found,) = json.loads(answer.out)["diagnoses"]
    assert (first(found), found["verdict"], answer.code) == ("GM303", "partly", 1)
    assert found["findings"][0]["figures"]["foreign"]["value"] >= 0.5


@pytest.mark.parametrize(("script", "map_"), [
    (TWO.replace("cuda", "opencl0:"), "a->opencl0:0;b->opencl0:1"),
    (ONE.replace("cuda0", "cpu0"), "a->cpu0"),
])  # fmt: skip
def test_a_sound_set_up_has_no_cause(gpumap, script, map_):
    answer = gpumap.fake(script)("doctor", map_, "--format", "json")
    found = json.loads(answer.out)["diagnoses"]
    assert answer.code == 0
    assert {(one["verdict"], len(one["findings"])) for one in found} == {("used", 0)}
