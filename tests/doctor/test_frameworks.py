"""The user's interpreter, asked for real: recorded wheels, planted libraries, devices by UUID."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tables
from machine.trees import Sketch

from gpumap import model
from gpumap.doctor import interpreter as ask
from gpumap.doctor.diagnose import diagnosis, numbering
from gpumap.doctor.evidence import Health
from gpumap.doctor.facts import Facts
from gpumap.doctor.framework_rules import causes
from gpumap.doctor.interpreter import facts
from gpumap.machine.cuda import CudaDevice
from gpumap.machine.nvml import GpuHealth, NvmlGpu
from gpumap.machine.topology import Tree

TABLE = tables.table(__file__)
TREES, PLANTS = TABLE["trees"], TABLE["plants"]
BARE = {"driver_loaded": False, "pci_gpus": [], "device_files": [], "env": {}}  # no GPU
LIMIT = 10.0  # seconds that doctor is given, and 3 more for what a slow machine does beside it
CODES = TABLE["codes"]
REPORTS = json.loads(Path(__file__).with_name("reports.json").read_text(encoding="utf-8"))


def written(folder, files):
    for name, head in files.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "METADATA").write_text(f"{head}\n\nA long description.\n")
    return {each.name: each for each in ask.installed([str(folder)])}


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    return site, folder / "bin/python"


@pytest.fixture
def planted(venv):
    """Return where the text of a library is, that is installed, and the interpreter that has it."""
    site, python = venv
    written(site, {"torch-2.5.0.dist-info": "Name: torch\nVersion: 2.5.0"})
    yield site / "torch.py", python
    subprocess.run(["rm", "-r", *site.glob("torch*")], check=True)


@pytest.mark.parametrize("row", TREES.values(), ids=TREES)
def test_recorded_wheels_on_a_machine_without_a_gpu(tmp_path, row):
    """No build helps there, so that this is first; then what its metadata and answer show."""
    found = ask.Interpreter(
        "/venv/bin/python", {"python": row["python"]}, written(tmp_path, row["tree"])
    )
    raw = {**BARE, **ask.metadata(found, row["framework"]), **json.loads(row["answer"])}
    found = [(each.code, each.certain) for each in causes(Facts(raw, row["framework"]))]
    assert found[0] == ("GM538", True)
    assert found[1:2] == ([(row["code"], True)] if row["code"] else [])
    there = causes(Facts({**raw, "pci_gpus": ["0000:09:00.0"]}, row["framework"]))
    assert "GM538" not in [each.code for each in there]


@pytest.mark.parametrize("row", PLANTS.values(), ids=PLANTS)
def test_a_library_that_is_no_help_gets_an_answer_in_time(gpumap, planted, row):
    """And nothing that it has forked stays."""
    library, python = planted
    library.write_text(row["text"].replace("PYTHON", str(python)))
    start = time.monotonic()
    answer = gpumap(
        "doctor", "--python", str(python), "--timeout", f"{LIMIT:g}s", "--format", "json"
    )
    assert time.monotonic() - start < LIMIT + 3.0
    (found,) = json.loads(answer.out)["result"]["diagnoses"]
    assert found["verdict"] == "not used"
    assert row["code"] in ["", *(finding["code"] for finding in found["findings"])]
    assert found["findings"]
    assert "Traceback" not in answer.out + answer.err
    assert not {"\x1b", "\x07"} & set(answer.out + answer.err)
    names = (each / "cmdline" for each in Path("/proc").iterdir() if each.name.isdecimal())
    alive = [p for p in names if p.exists() and os.fsencode(python) in p.read_bytes()]
    assert alive == []


def test_the_library_runs_in_its_own_interpreter(gpumap, planted, tmp_path):
    """Neither gpumap nor its folder is there, and gpumap's process imports nothing of it."""
    library, python = planted
    told = tmp_path / "told"
    said = "repr([sys.executable, 'gpumap' in sys.modules])"
    text = f"import sys\nopen({str(told)!r}, 'a').write({said})"
    library.write_text(text)
    gpumap("doctor", "--python", str(python))
    assert told.read_text() == repr([str(python), False])


def test_an_interpreter_without_a_framework_is_said(gpumap, venv):
    answer = gpumap("doctor", "--python", str(venv[1]))
    assert (answer.code, "Traceback" in answer.err) == (3, False)
    assert "none of torch, " in answer.err


def test_broken_metadata_stops_nothing(tmp_path):
    written(tmp_path, {f"{name}-1.dist-info": "" for name in ("folder", "bytes", "whole")})
    (tmp_path / "folder-1.dist-info/METADATA").unlink()
    (tmp_path / "folder-1.dist-info/METADATA").mkdir()
    (tmp_path / "bytes-1.dist-info/METADATA").write_bytes(b"Name: bytes\nVersion: 2\xff\n")
    (tmp_path / "whole-1.dist-info/METADATA").write_text("Name: A_b.C\nVersion: 3\n")
    found = {each.name: each.version for each in ask.installed([str(tmp_path), "\0", "none"])}
    assert found["a-b-c"] == "3"


def test_what_an_interrupted_pip_leaves_is_no_package(tmp_path):
    """It renames the old folder before it unpacks the new one: ~orch is left, beside torch."""
    written(tmp_path, {"torch-2.5.0.dist-info": "Name: torch\nVersion: 2.5.0",
                       "~orch-2.0.0.dist-info": "Name: torch\nVersion: 2.0.0"})  # fmt: skip
    assert [each.version for each in ask.installed([str(tmp_path)])] == ["2.5.0"]


@pytest.mark.parametrize("row", TABLE["commands"].values(), ids=TABLE["commands"])
def test_a_fix_is_a_command_for_that_interpreter(monkeypatch, row):
    there = row.get("tools", ())
    monkeypatch.setattr(ask.shutil, "which", lambda tool, **_: tool if tool in there else None)
    packages = {n: ask.Package(n, v, "") for n, v in row.get("packages", {}).items()}
    found = ask.Interpreter("/e/bin/python", {"prefix": "/e", **row["about"]}, packages)
    raw = {"framework": "torch", "packages": {"torch": "2.15.0+cpu"}, **row.get("facts", {})}
    (first, *_) = diagnosis(raw, found.commands({}), "python").findings
    assert (first.code, first.fix) == ("GM501", row["fix"])


@pytest.mark.parametrize("row", TABLE["rules"].values(), ids=TABLE["rules"])
def test_rules_at_their_edges(row):
    found = {each.code: each.certain for each in causes(Facts(json.loads(row["facts"]), row["of"]))}
    assert {code: found.get(code) for code in row["codes"]} == {
        code: {"certain": True, "likely": False}.get(said) for code, said in row["codes"].items()
    }


def test_devices_of_a_framework_are_found_by_uuid():
    """What a library does not tell is the driver's, at the same place."""
    visible = [CudaDevice("A GPU", "0000:09:00.0", "aaaa-1"), CudaDevice("A GPU", None, "bbbb-2")]
    ref = model.DeviceRef(model.Kind.CUDA, 1)
    device = model.Device("cuda:1", model.Kind.CUDA, ref, "A GPU", "cupy",
                          uuid="GPU-BBBB-2")  # fmt: skip
    told = [{"name": "A GPU", "uuid": "bbbb-2"}, {"name": "A GPU", "uuid": ""}, {"name": "A GPU"}]
    assert numbering(told, visible, [model.Binding("dev0", device)]).split("; ") == [
        "cuda:0 is A GPU GPU-bbbb-2, dev0 of the map",
        "cuda:1 is A GPU GPU-bbbb-2, dev0 of the map",
        "cuda:2 is A GPU (UUID not known)",
    ]


def test_a_framework_that_computed_is_used():
    raw = {"framework": "torch", "packages": {"torch": "2.5.0"}, "worked": True, "gpu_count": 8}
    found = diagnosis(raw, {"python": "python", "pip": "pip", "installer": "pip"}, "python")
    assert (found.verdict, found.findings) == ("used", ())


HOSTILE = (
    None, "", 5, -1, 1e300, [], [[]], {}, {"a": None}, "\x1b[31m", "9" * 5000, "+cu", "MIG-", True,
)  # fmt: skip


@pytest.mark.parametrize("framework", [*ask.FRAMEWORKS, ""])
def test_no_fact_stops_the_judge(framework):
    """A library of the user's may answer anything; what comes of it are causes all the same."""
    for value in HOSTILE:
        odd = {"CUDA_VISIBLE_DEVICES": value, "LD_LIBRARY_PATH": value}
        raws = [{key: value} for key in TABLE["keys"]]
        raws.append({"packages": {"torch": value, "jax": value, "jaxlib": value}, "env": odd})
        raws.append(dict.fromkeys(TABLE["keys"], value))
        for raw in raws:
            assert all(cause.code.startswith("GM") for cause in causes(Facts(raw, framework)))


@pytest.mark.parametrize("row", TABLE["machines"].values(), ids=TABLE["machines"])
def test_captured_machines(tmp_path, row):
    for path, text in row["files"].items():
        Sketch(tmp_path).file(path, text)
    found = facts(Tree(tmp_path), {}, ())
    machine = {key: value for key, value in found.items() if value is not None}
    raw = {**machine, "packages": {"torch": "2.5.0+cu124"}, "is_available": False}
    assert causes(Facts(raw | row.get("facts", {}), "torch"))[0].code == row["code"]


def test_what_nvml_says_is_facts():
    """Of the first device, where devices may differ."""
    known = {"name": "Tesla V100", "driver": "580.65.06", "memory_total": 32 << 30}
    gpus = [GpuHealth(NvmlGpu(0, memory_free=2 << 30, **known), {"compute_mode": 3}),
            GpuHealth(NvmlGpu(1, memory_free=32 << 30, **known), {"compute_mode": 0})]  # fmt: skip
    found = ask.of_driver(Health(gpus=tuple(gpus)))
    assert found == {
        "gpu": "Tesla V100, Tesla V100", "gpu_count": 2, "driver": "580.65.06", "mig": False,
        "compute_mode": "Exclusive_Process", "memory_used_mib": 30720, "memory_total_mib": 32768,
    }  # fmt: skip
    assert ask.of_driver(Health(nvml="x", code=18))["nvml"].endswith("version mismatch")


def answer(report, *, symptom=True):
    lines = (report["symptom"],) if symptom else ()
    return causes(Facts({"printed": lines, **report["facts"]}, report["framework"]))


def right(report):
    return {CODES[label] for label in (report["cause"], *report.get("also_acceptable", ()))}


def missed(reports, **how):
    found = ((report, next(iter(answer(report, **how)), None)) for report in reports)
    return [
        report["id"] for report, first in found if first is None or first.code not in right(report)
    ]


def test_the_established_cause_is_first_in_nine_of_ten_reports_that_say_enough():
    """By the facts and the line that the user quotes; by the facts alone in four of five."""
    told = [report for report in REPORTS if len(report["facts"]) >= 3]
    assert len(missed(told)) <= 0.1 * len(told), missed(told)
    assert len(missed(told, symptom=False)) <= 0.2 * len(told), missed(told, symptom=False)
    assert len(told) >= 3
    assert {report["cause"] for report in REPORTS} <= set(CODES)
    assert len(set(CODES.values())) == len(CODES)


def test_no_wrong_cause_is_called_certain():
    """A second cause may hold too: what counts is the one that is named first."""
    firsts = [
        (r, found[0]) for how in (True, False) for r in REPORTS if (found := answer(r, symptom=how))
    ]
    assert [r["id"] for r, first in firsts if first.certain and first.code not in right(r)] == []
