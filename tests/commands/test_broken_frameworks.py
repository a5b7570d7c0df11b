"""A PyTorch that is broken: each command answers without it, and names it."""

import json
import os

import pytest
from tables import table

from gpumap.backends import REGISTRY

BROKEN = table(__file__)
SILENT = ("sleeps", "aborts")


@pytest.fixture
def broken(gpumap, tmp_path):
    """Return gpumap beside a PyTorch with that source, and without OpenCL."""

    def run(source, *arguments):
        (tmp_path / "with/torch").mkdir(parents=True)
        (tmp_path / "with/torch/__init__.py").write_text(source)
        path = os.pathsep.join([str(tmp_path / "with"), gpumap.env.get("PYTHONPATH", "")])
        return gpumap(*arguments, PYTHONPATH=path, OCL_ICD_VENDORS=str(tmp_path))

    return run


@pytest.mark.parametrize("how", BROKEN)
def test_devices_names_who_did_not_answer_and_knows_what_cannot_be_imported(broken, how):
    """It waits for no framework that was not requested as long as that sleeps."""
    source, reason, fix = BROKEN[how]
    done = broken(source, "devices", "--format", "json")
    report = json.loads(done.out)
    usable, _, unknown = report["headline"]["text"].partition(" usable. ")
    backends = {each["name"]: each for each in report["backends"]}
    torch = backends["torch"]
    assert [*backends] == [name for name in REGISTRY if name != "fake"]
    assert all(each["usable"] or each["reason"] for each in backends.values())
    assert (done.code, report["devices"] != [], "core" in usable) == (0, True, True)
    assert (report["headline"]["level"] == "untrusted") == (how in SILENT)
    asked = f"Cannot tell whether torch has devices: {torch['reason']}"
    assert unknown.startswith(asked) == (how in SILENT)
    assert torch["reason"].startswith(reason)
    assert fix in torch["fix"]


def test_a_default_map_says_whose_devices_it_may_lack(broken):
    """What was planned goes on, on the devices of those who answered."""
    source, reason, _ = BROKEN["sleeps"]
    done = broken(source, "bench", "dot", "--dry-run", "--format", "json")
    report = json.loads(done.out)
    (said,) = (note for note in report["notes"] if note["code"] == "silent")
    assert done.code == 0
    assert said["message"] == f"cannot tell whether torch has devices: {reason}"


def test_what_was_requested_by_name_has_its_time(broken):
    """Importing a real one may take longer than anyone waits who did not ask for it."""
    source = "import time; time.sleep(6); raise OSError('slow, but an answer')"
    done = broken(source, "devices", "--backend", "torch")
    assert (done.code, "cannot load: slow, but an answer" in done.out + done.err) == (3, True)
