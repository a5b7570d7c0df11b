"""preflight: each known failure of a node is named, and healthy scripted devices pass."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands.scripts import script
from machine.trees import Sketch
from nvml_library import Library, NvmlError
from tables import table

from gpumap.app.preflight import fixed
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.doctor import health
from gpumap.doctor.evidence import Health
from gpumap.doctor.requirements import Requirements
from gpumap.doctor.screening import DeviceRun, StepResult
from gpumap.doctor.screening_child import Screening
from gpumap.judge.fitness import by_name, compared
from gpumap.machine import nvml
from gpumap.machine.kernel_log import records, xids
from gpumap.machine.topology import Tree, read
from gpumap.model import Binding, Device, DeviceRef, FitnessCheck, Kind, LinkState, worst
from gpumap.model.io import plain

TABLE = table(__file__)
FAST = {"latency": 5e-6, "rate": 1e9}
NOISY = {**FAST, "noise": 0.01, "launch": 1e-7}


@pytest.fixture
def scripted(tmp_path):
    def made(*devices, **every):
        path = tmp_path / "fake.toml"
        path.write_text(script(*devices, **{**FAST, **every}))
        env = {**os.environ, "GPUMAP_FAKE": str(path)}
        found = load("fake", Host(env, read())).probe().devices
        return [Binding(f"dev{n}", device) for n, device in enumerate(found)], env

    return made


def screened(bindings, env, tier="quick", seconds=60.0, done=()):
    """Return the checks of all steps, in this process."""
    names = [{"name": b.name, "device": plain(b.device)} for b in bindings]
    job = {"names": json.loads(json.dumps(names)), "done": done, "seconds": seconds, "tier": tier}
    job["end"] = time.monotonic() + seconds
    lines = []
    Screening(job, env, lines.append).run()
    return [line["result"].check for line in lines if "result" in line]


def run(bindings, env, within, end):
    results = []
    DeviceRun(bindings, env, "quick", within, end, results.append).run()
    return [result.check for result in results]


def bad(checks):
    return {(c.what, c.name, c.other): c.fitness for c in checks if c.fitness != "fit"}


@pytest.mark.parametrize("row", TABLE["known"])
def test_a_known_failure_is_named(scripted, row):
    checks = screened(*scripted(*row["devices"]))
    assert bad(checks)[row["what"], row["name"], row.get("other")] == row["fitness"]
    verdicts = {name: worst(each) for name, each in by_name(checks).items()}
    assert [name for name, verdict in verdicts.items() if verdict != "fit"] == [row["name"]]


def test_a_device_that_failed_takes_no_other_step(scripted):
    checks = screened(*scripted({}, {"fault": "flip"}, {}))
    taken = [check.what for check in checks if check.name == "dev1"]
    assert taken == ["open", "upload", "download"]
    assert {c.name for c in checks if c.what == "siblings"} == {"dev0", "dev2"}


def test_of_eight_devices_the_slow_one_is_named_and_no_other(scripted):
    """5 % slower under 1 % of noise; benchmarks/preflight.py counts how often."""
    devices = [{"noise_seed": n, "rate": FAST["rate"] / (1.05 if n == 5 else 1)} for n in range(8)]
    checks = screened(*scripted(*devices, **NOISY))
    assert bad(checks) == {("siblings", "dev5", None): "unfit"}


def test_a_pair_that_hangs_is_named_and_the_rest_goes_on(scripted):
    """The copy from dev1 never returns: its limit ends it, and another process does the rest."""
    devices = scripted({}, {"fault": "hang-copy"}, {})
    checks = run(*devices, 8.0, time.monotonic() + 60.0)
    pairs = {("pair", "dev1", "dev0"): "unfit", ("pair", "dev1", "dev2"): "unfit"}
    assert bad(checks) == pairs
    assert {c.name for c in checks if c.what == "siblings"} == {"dev0", "dev1", "dev2"}
    assert worst(by_name(checks)["dev0"]) == "fit"


def test_what_there_is_no_time_for_is_no_pass(scripted):
    checks = run(*scripted({}, {}), 10.0, time.monotonic() - 1.0)
    assert {check.fitness for check in checks} == {"cannot-tell"}
    assert len(checks) == 2 * 5 + 2  # each name's own items, and both pairs


RATES = ("siblings", "upload-rate", "download-rate", "memory-rate")
COMPARED = [(what, f"dev{n}", None) for what in RATES for n in range(2)]  # two devices
COMPARED.append(("all-at-once", None, None))


def test_a_soak_finds_a_wrong_bit_and_says_where(scripted):
    devices = scripted({}, {"fault": "wrong-product", "fault_after": 60})
    checks = screened(*devices, "soak", seconds=1.5, done=COMPARED)
    found = [check for check in checks if check.what == "soak" and check.fitness != "fit"]
    assert [(check.name, check.fitness) for check in found] == [("dev1", "wrong-data")]
    assert "launch" in found[0].text
    assert "wrong bits, element 0 has 0x" in found[0].text


def test_more_time_compares_memory_and_links(scripted):
    devices = [{}, {"large_from": 1 << 19, "large_bandwidth": 1e9, "large_latency": 1e-6}, {}]
    scripts = scripted(*devices, bandwidth=1e10)
    checks = screened(*scripts, "long", done=[("all-at-once", None, None)])
    found = {what: name for what, name, _ in bad(checks)}
    assert found == dict.fromkeys(("upload-rate", "download-rate", "memory-rate"), "dev1")


def test_a_wrong_sum_over_all_devices_is_wrong_data(scripted):
    """Each way was right before: what is wrong shows in the allreduce alone."""
    done = [*COMPARED, *(("pair", f"dev{n}", f"dev{1 - n}") for n in range(2))]
    assert bad(screened(*scripted({}, {}), "long", done=done)) == {}
    devices = scripted({}, {"fault": "flip", "fault_in": "copy"})
    assert bad(screened(*devices, "long", done=done)) == {("allreduce", None, None): "wrong-data"}


# --- health, from what NVML and the kernel say

GPU = Device(
    "cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "NVIDIA H200", "torch", "0000:9d:00.0",
    "GPU-1a2b", memory_total=141 * 2**30, driver="580.65",
    facts={"link_width": 16, "max_link_generation": 5},
)  # fmt: skip
NOTHING = Requirements()
NO_TREE = Tree(Path("/nowhere"))


def answered(value):
    """Return what NVML answers: an error by its number, and a structure by its fields."""
    if isinstance(value, list):
        return [answered(each) for each in value]
    if isinstance(value, dict):
        return NvmlError(value["status"]) if "status" in value else SimpleNamespace(**value)
    return value


def examined(log=(), required=NOTHING, links=None, why=None, **answers):
    given = {query: answered(value) for query, value in (TABLE["answers"] | answers).items()}
    known = Health(None, nvml.health(Library(given)), xids=xids(map(XID.format, log)), log=why)
    links = {card: LinkState(**link) for card, link in (links or {}).items()}
    return list(health.checks([Binding("dev0", GPU)], known, links, required, NO_TREE))


XID = "6,1,2,-;NVRM: Xid (PCI:0000:9d:00): {}, pid=1, name=python"
OTHER = {"pid": os.getppid(), "usedGpuMemory": 71 * 2**30}


@pytest.mark.parametrize(("what", "seen", "given"), [
    *TABLE["unfit"], ("processes", "(71.0 GiB)", {"DeviceGetComputeRunningProcesses_v3": [OTHER]}),
])  # fmt: skip
def test_a_card_that_is_not_well_is_unfit_and_says_why(what, seen, given):
    check = next(check for check in examined(**given) if check.fitness != "fit")
    assert (check.what, check.fitness) == (what, "unfit")
    assert seen in check.text
    assert fixed(check).fix


@pytest.mark.parametrize(("given", "what"), TABLE["unread"])
def test_what_cannot_be_read_is_no_pass(given, what):
    checks = examined(**given)
    assert [check.what for check in checks if check.fitness == "cannot-tell"] == [what]


def test_what_a_card_does_not_have_is_no_item():
    """A card without ECC has no counter of it; and a program's own Xid is no fault of the card."""
    checks = examined((31,), DeviceGetTotalEccErrors={"status": 3})
    sound = {"driver", "remapped-rows", "power", "xid", "throttle", "processes"}
    assert {check.what for check in checks} == sound
    assert {check.fitness for check in checks} == {"fit"}


@pytest.mark.parametrize(("text", "fitness"), TABLE["of_amd"])
def test_errors_that_amdgpu_counts(tmp_path, text, fitness):
    files = {} if text is None else {"ras/umc_err_count": text}
    Sketch(tmp_path).pci("0000:9d:00.0", **files)
    ref = DeviceRef(Kind.ROCM, 0)
    card = Device("rocm:0", Kind.ROCM, ref, "MI300X", "torch", "0000:9d:00.0")
    every = health.checks([Binding("dev0", card)], Health(), {}, NOTHING, Tree(tmp_path))
    assert [(check.what, check.fitness) for check in every] == [("ecc", fitness)]


def test_the_kernels_log_is_read_to_its_end(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(f"6,1,2,-;other\n{XID.format(79)}\n")
    assert xids(records(str(log))) == {"0000:9d:00.0": (79,)}
    with pytest.raises(OSError, match="kmsg2"):
        records(f"{log}2")


def test_drivers_are_asked_in_a_process_that_can_be_ended():
    """Without NVML the reason is known; no device is healthy whose driver does not answer."""
    known = health.query(dict(os.environ), 50.0)
    assert known.gpus or known.nvml
    late = health.query(dict(os.environ), 0.0)
    assert (late.silent, late.hangs) == ("it did not answer within 0 s", True)
    (check,) = health.checks([Binding("dev0", GPU)], late, {}, NOTHING, NO_TREE)
    assert (check.what, check.fitness) == ("driver", "cannot-tell")


# --- what is required


def required(tmp_path, text):
    path = tmp_path / "require.toml"
    path.write_text(text)
    return Requirements.of(None, path)


@pytest.mark.parametrize("what", TABLE["required"])
def test_what_is_required_of_a_device(tmp_path, what):
    met, missed = (required(tmp_path, text) for text in TABLE["required"][what])
    assert {check.fitness for check in examined(required=met)} == {"fit"}
    found = {check.what: check.fitness for check in examined(required=missed)}
    assert {key for key, fitness in found.items() if fitness != "fit"} == {what}


def test_a_device_that_tells_nothing_does_not_have_what_is_required(tmp_path):
    wanted = required(tmp_path, "ecc = true\nlink_width = 16")
    items = wanted.of_device(Device("cpu:0", Kind.CPU, DeviceRef(Kind.CPU, 0), "x", "numpy"), None)
    assert {fitness for _, fitness, _ in items} == {"cannot-tell"}


@pytest.mark.parametrize(("expect", "name", "fitness"), TABLE["counted"])
def test_devices_of_a_model_are_counted_once_by_a_whole_word(expect, name, fitness):
    """Seven devices, and an eighth name for one of them."""
    devices = [Device(f"cuda:{n}", Kind.CUDA, DeviceRef(Kind.CUDA, n), name, "torch")
               for n in range(7)]  # fmt: skip
    bindings = [Binding(f"dev{n}", device) for n, device in enumerate([*devices, devices[0]])]
    ((what, found, _),) = Requirements.of(expect, None).of_node(bindings)
    assert (what, found) == ("count", fitness)


# --- the command


def test_cores_are_used_within_the_limit(gpumap):
    """Real cores: bytes and products are right, whatever their speed is today."""
    answer = gpumap("preflight", "a->cpu0", "--within", "50s", "--format", "json")
    found = json.loads(answer.out)["result"]["checks"]
    whats = ["open", "upload", "download", "product", "siblings"]
    assert [check["what"] for check in found] == whats
    assert (answer.code, {check["fitness"] for check in found}) == (0, {"fit"})


def test_a_run_that_is_stuck_ends_at_its_limit_and_is_no_pass(tmp_path):
    """By 5, as all that cannot be told; not even where that may pass."""
    done = subprocess.run([sys.executable, "-c", TABLE["stuck"]], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    (error,) = json.loads(done.stdout)["errors"]
    assert (done.returncode, error["diagnostic"]["code"], error["exit"]) == (5, "timeout", 5)
    assert "--within" in error["diagnostic"]["hint"]


def test_two_names_of_one_device_are_told_and_compared_with_nothing(gpumap):
    """The job may mean it; but it is no two devices, and no device as fast as another."""
    answer = gpumap.fake(script({}, **FAST))("preflight", "a->cuda0;b->cuda0", "--within", "50s")
    assert answer.code == 0, answer.err
    assert "a, b share hardware" in answer.err
    (row,) = (line.split() for line in answer.out.splitlines() if line.startswith("  a "))
    assert row == ["a", "cuda0", "-", "ok", "-", "ok", "-", "fit"]


def test_drivers_that_hang_one_after_the_other_are_named_within_the_limit(gpumap):
    """Each has a share of the time that is left: however many there are, it suffices."""
    for name in ("cupy", "pyopencl"):
        (gpumap.folder / f"{name}.py").write_text("import time\ntime.sleep(600)\n")
    map_, env = "a->cuda0;b->opencl0:0", {"PYTHONPATH": str(gpumap.folder)}
    answer = gpumap("preflight", map_, "--within", "5s", "--format", "json", **env)
    found = {one["name"]: one["text"] for one in json.loads(answer.out)["result"]["checks"]}
    assert answer.code == 3
    for name, library in (("a", "cupy"), ("b", "pyopencl")):
        assert f"{library}: its driver did not answer within" in found[name]


@pytest.mark.parametrize(("ignored", "options", "code"), TABLE["not_told"])
def test_what_cannot_be_told_is_no_pass_unless_it_may_be(gpumap, ignored, options, code):
    """A scripted device says nothing of its memory's errors, which are required to be counted."""
    (gpumap.folder / "require.toml").write_text(f'ecc = true\nignore = ["{ignored}"]')
    given = ("--require", "require.toml", "--within", "50s", *options)
    answer = gpumap.fake(script({}, **FAST))("preflight", "a->cuda0", *given)
    assert answer.code == code


def test_what_a_later_process_finds_wrong_counts(scripted):
    """The product was right in the process before: the verdict is that of the worst."""
    bindings, env = scripted({}, {})
    results = []
    run = DeviceRun(bindings, env, "quick", 10.0, time.monotonic(), results.append)
    for code in (None, None, "wrong-data"):
        run._note(StepResult("product", "dev0", None, code, ""))
    assert [result.code for result in results] == [None, "wrong-data"]


def test_a_pair_that_had_no_time_blames_no_other_name():
    """dev5 hangs with dev0; the pairs of dev5 that were not tried say nothing of either end."""
    checks = [FitnessCheck("pair", "unfit", "no answer", "", "dev0", "dev5")]
    checks += [FitnessCheck("pair", "cannot-tell", "", "", "dev5", f"dev{n}") for n in (1, 2)]
    found = {name: worst(each) for name, each in by_name(checks).items()}
    assert (found["dev0"], found["dev5"]) == ("unfit", "unfit")


def test_blocks_that_could_name_no_device_show_no_device_as_fit():
    """Of eight devices it takes ten blocks; with eight the slow one would pass."""
    times = {f"dev{n}": [2.0 if n == 5 else 1.0] * 8 for n in range(8)}
    assert set(compared(times).values()) == {(None, False)}
    assert compared({name: each * 2 for name, each in times.items()})["dev5"][1]
