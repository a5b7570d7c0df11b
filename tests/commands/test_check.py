"""`gpumap check`, `devices`: all names or none, what a fault ends in, where the report goes."""

import os
import re

import pytest
from flat_report import loads
from scripts import script
from tables import table

TEXTS = table(__file__)
TWO = "dev0->cuda0;dev1->cuda1"


@pytest.fixture
def fake(gpumap):
    return gpumap.fake(TEXTS["devices"])


@pytest.mark.parametrize(("text", "options", "code"), TEXTS["the_answer_is_an_exit_code"])
def test_the_answer_is_an_exit_code(fake, text, options, code):
    """All names or none: lines of names are printed where all of them are there."""
    answer = fake("check", "--quiet", text, *options)
    mapped = text.count("->") if code in (0, 1) and "--syntax-only" not in options else 0
    assert (answer.code, answer.out.count("Mapped name")) == (code, mapped)


@pytest.mark.parametrize(("devices", "code", "found"), TEXTS["faults"])
def test_every_fault_has_its_exit_code_and_its_entry(fake, devices, code, found):
    text = ";".join(f"{name}->cuda{n}" for name, n in zip("abc", devices, strict=False))
    answer = fake("check", text, "--format", "json")
    errors = [(e["code"], e["entry"], e["exit"]) for e in loads(answer.out)["errors"]]
    assert (answer.code, errors) == (code, [*map(tuple, found)])


def test_a_device_that_hangs_is_named(fake):
    answer = fake("check", "a->cuda0;b->cuda5", "--timeout", "5s")
    assert answer.code == 124
    assert "the time limit of 5 s was reached while opening b (cuda5)" in answer.err


def test_an_unbuffered_stdout_loses_nothing_in_silence(gpumap):
    """PYTHONUNBUFFERED makes stdout raw: where the disk is full, a write is short and no error."""
    full = ["sh", "-c", 'ulimit -f 8; "$@" > out', "sh", gpumap.command, "explain"]
    answer = gpumap.run(full, PYTHONUNBUFFERED="1")
    assert (answer.code, answer.err) == (2, "error: cannot write the result: File too large\n")


def test_where_a_report_goes_is_not_touched_beforehand(gpumap):
    """It is tried beside an old file, which stays whole until the new one is; no FIFO is opened."""
    (gpumap.folder / "r.json").write_text("old")
    os.mkfifo(gpumap.folder / "fifo")
    before = (gpumap.folder / "r.json").stat()
    answer = gpumap("check", "--output", "r.json", "--output", "json=fifo", "a")
    assert answer.code == 2  # the map is none, and no one reads
    report = loads((gpumap.folder / "r.json").read_text())
    assert report["exit_code"] == 2
    assert (gpumap.folder / "r.json").stat().st_ino != before.st_ino
    assert sorted(p.name for p in gpumap.folder.iterdir()) == ["fifo", "r.json"]


@pytest.mark.parametrize(("fault_in", "after"), [("download", 0), ("upload", 0), ("upload", 2)])
def test_a_copy_that_does_not_happen_is_wrong_data(gpumap, fault_in, after):
    """Neither a destination nor memory of the device may hold the bytes by an earlier copy."""
    keys = {"fault": "nothing", "fault_in": fault_in, "fault_after": after}
    answer = gpumap.fake(script(keys))("check", "a->cuda0")
    assert (answer.code, "cuda0 returned wrong bytes" in answer.err) == (4, True)


def test_a_name_shows_what_identifies_its_device(gpumap):
    """Its PCI address; of a device without one the UUID."""
    fake = gpumap.fake(script({"uuid": "GPU-1", "pci": "0000:09:00.0"}, {"uuid": "GPU-2"}))
    found = re.findall(r" device (cuda\d): .* \((\S+)\) \(simulated\)", fake("check", TWO).out)
    assert found == [("cuda0", "0000:09:00.0"), ("cuda1", "GPU-2")]


def test_a_map_of_theanos_settings_says_where_it_is_from(fake):
    """THEANORC names a file; a note of the report tells of it."""
    path = fake.folder / "rc"
    path.write_text(f"[global]\ncontexts = {TWO}\n")
    answer = fake("check", "--format", "json", THEANORC=str(path))
    found = loads(answer.out)["map"]
    assert (answer.code, found["text"]) == (0, TWO)
    assert (found["source"], found["source_path"]) == (".theanorc", str(path))
    assert found["notes"][0]["code"] == "source"
    unseen = fake("check", "--syntax-only", "--format", "json", THEANO_FLAGS=f"context={TWO}")
    assert [note["code"] for note in loads(unseen.out)["notes"]] == ["flags-lost"]
