"""Causes that no command line can plant here: captured systems, NVML's answers, exact bounds."""

import os
import re
import tomllib
from pathlib import Path

import pytest
import tables
from machine.trees import Sketch

import gpumap
from gpumap import model
from gpumap.config import Setting
from gpumap.doctor.diagnose import RULES, diagnoses, only_default_cores, pages, table
from gpumap.doctor.evidence import Evidence, Health, MapName
from gpumap.doctor.gather import denied, with_results
from gpumap.doctor.screening import StepResult
from gpumap.errors import Diagnostic
from gpumap.kinds import KINDS
from gpumap.machine.cuda import CudaDevice, CudaDriver
from gpumap.machine.nvml import GpuHealth, NvmlGpu
from gpumap.machine.state import Others, link_states
from gpumap.machine.topology import Cpu, Topology, Tree, read
from gpumap.model import replace

TABLES = tables.table(__file__)
CPUS = tuple(Cpu(n, (n,), 0) for n in range(4))
SMALL = Topology(CPUS, 4, None, "A processor", 1 << 34, 1 << 33)
GPU = model.Device("cuda:0", model.Kind.CUDA, model.DeviceRef(model.Kind.CUDA, 0), "A GPU", "cupy",
             pci="0000:09:00.0", uuid="GPU-a")  # fmt: skip
CORE = model.Device("cpu:0", model.Kind.CPU, model.DeviceRef(model.Kind.CPU, 0), "A processor",
                    "numpy", hardware=frozenset({"core:0"}))  # fmt: skip


def known(*names, topology=SMALL, **more):
    return Evidence(topology, model.MapText("x", "argument"), names=names, **more)


def named(device=GPU, name="a", **more):
    return MapName(name, device.ref, device, **more)


def absent(kind=model.Kind.CUDA):
    lost = Diagnostic("absent", "it is not there")
    return MapName("a", model.DeviceRef(kind, 1), absent=lost)


def seconds(value):
    return model.Estimate(value, value, value, "s")


def codes(evidence):
    return [finding.code for finding in diagnoses(evidence)[0].findings]


@pytest.mark.parametrize(("files", "found"), [
    ({}, []), ({"current_link_width": "4"}, ["GM306"]), ({"numa_node": "1"}, ["GM305"]),
], ids=["sound", "narrow link", "another NUMA node"])  # fmt: skip
def test_the_place_of_a_card(tmp_path, files, found):
    link = {"current_link_width": "16", "max_link_width": "16"}
    sketch = Sketch(tmp_path).online(range(4)).status("0-3").node(0, range(4))
    sketch.pci(GPU.pci, **{"class_": "0x030000", "numa_node": "0"} | link | files)
    evidence = known(named(), topology=read(tmp_path), links=link_states([GPU], tmp_path))
    assert codes(evidence) == found


def test_files_of_devices_that_may_not_be_opened(tmp_path, monkeypatch):
    """They are named; a file that is none of a device's is not looked at."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia-caps", "null"):
        (tmp_path / "dev" / name).touch()
    monkeypatch.setattr(os, "access", lambda path, _: path.name == "null")
    found = denied(Tree(tmp_path))
    assert [path.rpartition("/")[2] for path in found] == ["nvidiactl", "nvidia0"]
    assert codes(known(absent(), denied=found)) == ["GM201", "GM205"]


def nvidia(parts=(), names=(), shown=1, **more):
    devices = tuple(CudaDevice("A GPU", f"0000:{9 + n:02x}:00.0") for n in range(shown))
    instances = tuple(NvmlGpu(0, None, uuid=part) for part in parts)
    gpu = NvmlGpu(0, None, pci=GPU.pci, uuid=GPU.uuid, mig=bool(parts), instances=instances)
    return Health(CudaDriver(0, 13000, devices), (GpuHealth(gpu, **more),), names=dict(names))


@pytest.mark.parametrize(("there", "answers", "code"), TABLES["nvml"])
def test_what_nvml_answers(there, answers, code):
    """Who works on the device; that it is cut up, so that one process sees one part; or nothing."""
    answers = answers or {}
    names = {int(pid): name for pid, name in answers.get("names", {}).items()}
    busy = answers and {"processes": dict(answers.get("processes", ())), "names": names}
    silent = Health(silent="it did not answer within 8 s", hangs=True)
    nvml = nvidia(**answers | busy) if answers else silent
    (found,) = diagnoses(known(named() if there else absent(), nvidia=nvml))
    assert found.findings[0].code == code
    assert code != "GM215" or "97% of the time: pid 7 python train.py" in found.findings[0].text


@pytest.mark.parametrize(
    ("kind", "variables", "usable", "found"), TABLES["hidden_by_numbers_alone"]
)
def test_a_variable_that_hides_devices_with_numbers_alone(
    monkeypatch, kind, variables, usable, found
):
    """It is a cause where a library was there to be told by it; without one, that lacks."""
    kind = model.Kind(kind)
    monkeypatch.setitem(KINDS, kind, kind.row._replace(backends=("torch",)))
    lack = {} if usable else {"lack": "no-library", "reason": "not installed", "fix": "x"}
    evidence = known(
        absent(kind), variables=variables, probes=(model.Probe("torch", usable, **lack),)
    )
    assert codes(evidence)[0] == found


@pytest.mark.parametrize("requested", ["cpu", "cpu0", "cpu3", "cpu4", "cpu9"])
@pytest.mark.parametrize(("why", "found"), TABLES["no_device"])
def test_no_name_without_a_device_is_used(requested, why, found):
    """A core, too: what was requested to drive it may fail, and the core be there."""
    probes = (model.Probe("torch", usable=False, reason="x", fix="y", **(why or {})),)
    lost = Diagnostic("absent", "torch: x")
    number = int(requested[3:]) if requested[3:] else None
    name = MapName("a", model.DeviceRef(model.Kind.CPU, number), absent=lost)
    evidence = known(name, topology=replace(SMALL, online=8), probes=probes)
    assert diagnoses(evidence)[0].verdict == "not used"
    assert diagnoses(evidence)[0].findings[0].fix == "y" or found in ("GM202", "GM219")
    assert {found, "GM301" if number == SMALL.online else found} & {*codes(evidence)}


@pytest.mark.parametrize(("code", "figures", "found"), TABLES["at_once"])
def test_what_fails_with_all_devices_at_once_is_each_ones(code, figures, found):
    """None of them passes, as in preflight; a limit of their speed is no failure of any."""
    devices = (model.Binding("a", GPU), model.Binding("b", replace(GPU, id="cuda:1")))
    names = [named(), named(devices[1].device, "b")]
    results = [StepResult("costs", one.name, None, None, "") for one in devices]
    figures = {name: seconds(value) for name, value in (figures or {}).items()}
    together = StepResult("all-at-once", None, None, code or None, "x", figures)
    every = with_results(known(*names), devices, [*results, together]).names
    assert [n.failure and n.failure.code for n in every] == [found] * 2


@pytest.mark.parametrize(("failure", "code"), TABLES["no_failure_of_the_probes_passes"])
def test_no_failure_of_the_probes_passes(failure, code):
    assert codes(known(named(failure=model.Reason(failure, "x")))) == [code]


def test_what_is_not_used_at_all_comes_first():
    """However far down the table it stands; what is not there is lost behind no setting."""
    lost = Diagnostic("absent", "gone")
    figures = {"launch": seconds(2e-3)}
    gone = replace(named(), device=None, absent=lost, figures=figures)
    broken = Diagnostic("source", "it is broken")
    blocking = known(gone, variables={"CUDA_LAUNCH_BLOCKING": "1"})
    settings = known(absent(), nvidia=nvidia(), unreadable=broken)
    assert codes(blocking) == ["GM205", "GM110", "GM401"]
    assert codes(settings) == ["GM219", "GM112"]


def test_the_fix_names_the_whole_map():
    """One line to paste, whatever the number of names; a name on a core is none of Theano's."""
    two = (named(CORE), named(replace(CORE, id="cpu:1", hardware=frozenset({"core:1"})), "b"))
    probes = (model.Probe("cupy", usable=True, devices=(GPU,)),)
    (first, second) = diagnoses(replace(known(*two, probes=probes), source=None))
    theano = {"device": Setting("cpu", "THEANO_FLAGS")}
    (_, told) = diagnoses(known(named(CORE, "c"), named(), theano=theano))
    assert [one.findings[0].code for one in (first, second, told)] == ["GM102", "GM102", "GM104"]
    assert 'gpumap doctor "a->cpu0;b->cpu0"' in first.findings[0].fix
    assert second.findings[0].fix == first.findings[0].fix
    assert '"contexts=a->cuda0"' in told.findings[0].fix
    assert "device=cuda0" in told.findings[0].fix


def test_a_map_that_cannot_be_read_has_one_fix():
    """Its own: that no map is given was not seen, and there is no name to write a map of."""
    evidence = replace(known(problems=(Diagnostic("source", "broken", hint="mend"),)), source=None)
    assert codes(evidence) == ["GM101"]


@pytest.mark.parametrize(("failure", "nothing"), TABLES["chosen_cores"])
def test_cores_that_doctor_chose_need_only_work(failure, nothing):
    reason = model.Reason(failure, "x") if failure else None
    busy = Others(2.0, 2, ())
    chosen = replace(known(named(CORE, failure=reason), others=busy), source=None)
    gpu = replace(chosen, probes=(model.Probe("cupy", usable=True, devices=(GPU,)),))
    assert only_default_cores(chosen, diagnoses(chosen)) is nothing
    for asked in (replace(chosen, source=model.MapText("a->cpu0", "argument")), gpu):
        assert not only_default_cores(asked, diagnoses(asked))


def test_every_rule_has_its_text_and_every_text_its_rule():
    """By the code, those of frameworks after the others; sentences where sentences are due."""
    folder = Path(gpumap.__file__).parent / "doctor"
    texts = list(tomllib.loads((folder / "causes.toml").read_text()))
    frameworks = [code for code in texts if code.startswith("GM5")]
    assert texts == [*RULES, *frameworks] == list(table())
    files = ("diagnose.py", "framework_rules.py", "lines.toml", "signs.toml")
    rules = "".join((folder / file).read_text() for file in files)
    assert set(re.findall(r"GM5\d\d", rules)) == set(frameworks)
    assert len({cause.key for cause in table().values()}) == len(table())
    assert [cause.code for cause in table().values() if not complete(cause)] == []


def complete(cause):
    lines = (cause.text, cause.fix, cause.meaning, cause.how, cause.source)
    clean = all(line and line.isascii() and line.isprintable() for line in lines)
    ends = all(line.endswith((".", ".)")) for line in (cause.meaning, cause.how))
    return clean and ends and re.fullmatch(r"[a-z][a-z0-9-]*", cause.key)


def test_hostile_words_stay_words():
    """Braces in what a driver says are no format."""
    said = "cannot load: \x1b[2J{0.__class__}{what}"
    probes = tuple(
        model.Probe(name, usable=False, reason=said, lack="unloadable")
        for name in ("cupy", "pygpu")
    )
    (found,) = diagnoses(known(absent(), probes=probes, nvidia=nvidia()))
    assert found.findings[0].code == "GM210"
    assert said in found.findings[0].text


def test_a_cause_is_found_by_its_code_and_its_word():
    """Or by a part of the code, with others; nothing is beside its page: no template."""
    words = {word: c.code for c in table().values() for word in (c.code, c.code.lower(), c.key)}
    assert [w for w, code in words.items() if code not in {p.name for p in pages(w)}] == []
    assert [len(pages(word)) for word in ("GM", "GM9", "", "M1")] == [len(table()), 0, 0, 0]
    templates = {"FIX", '"ENTRY"THEANO', '"MAP"THEANO'}
    assert [page.name for page in pages() if not page.fix or "beside it" in page.fix] == []
    assert [page.name for page in pages() if set(page.fix.split()) & templates] == []


def seen(*, float64=False, busy=None, free=None, quota=None, taken=None, **figures):
    """Return evidence on one name of which nothing is wrong but by these facts and intervals."""
    found = {name: model.Estimate(low, low, high, "s") for name, (low, high) in figures.items()}
    card = replace(GPU, memory_total=1 << 34, memory_free=free) if free else GPU
    return known(
        named(CORE if quota or taken else card, figures=found),
        topology=replace(SMALL, quota=quota),
        theano={"floatX": Setting("float64", "THEANO_FLAGS")} if float64 else {},
        nvidia=nvidia(busy=busy) if busy else Health(),
        others=Others(taken, 4, ()) if taken else None,
    )


@pytest.mark.parametrize(("code", "beyond", "within"), TABLES["bounds"])
def test_a_cause_begins_beyond_its_bound(code, beyond, within):
    """Where the interval reaches back to it, the figure may be that of a sound device."""
    assert (codes(seen(**beyond)), codes(seen(**within))) == ([code], [])


@pytest.mark.parametrize("value", ["Yes", "yes", "No", "1", ""])
def test_only_yes_marks_a_parent_that_has_the_device(value):
    found = codes(known(named(), variables={"THEANO_GPU_IS_ALREADY_ACTIVE": value}))
    assert found == (["GM108"] if value == "Yes" else [])
