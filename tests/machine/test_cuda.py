"""CUDA_VISIBLE_DEVICES in words; and what a driver says by its own interface, of a stub."""

import json
import sys

import pytest
from tables import table

from gpumap.machine.cuda import NO_DRIVER, NO_GPU, Why, driver, explain, no_driver, uuid_text

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-89aa0000-0000-0000-0000-000000000000"
PART = "MIG-c5b2f7a1-0000-0000-0000-000000000001"
KNOWN = {
    "two": [(A,), (B,)], "cut": [(A, PART, PART[:-1] + "2")],
    "nothing": None, "three": [(None,)] * 3, "none": [],
}  # fmt: skip
TABLES = table(__file__)


@pytest.mark.parametrize(("text", "known", "shown"), TABLES["works"])
def test_a_variable_that_hides_nothing_it_names(text, known, shown):
    """No word is lost on a list that works, or that is not to blame."""
    assert explain(text, KNOWN[known], shown) is explain(None, KNOWN[known], shown) is None


@pytest.mark.parametrize(("text", "known", "shown", "words"), [
    *TABLES["hidden"],
    ("9" * 5000, "two", 0, f'entry 1 ("{"9" * 72}…")'),
])  # fmt: skip
def test_what_is_hidden_is_said(text, known, shown, words):
    """By NVIDIA's rules as far as NVML can judge the entries, and never against CUDA's count."""
    mask = explain(text, KNOWN[known], shown)
    assert mask is not None
    assert mask.reason.startswith("CUDA_VISIBLE_DEVICES=")
    assert f": {words}" in mask.reason
    assert mask.reason.endswith(("every later entry are hidden", "devices"))


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_hides_everything(text):
    assert explain(text, KNOWN["two"], 0) == Why(
        "CUDA_VISIBLE_DEVICES is empty: every device is hidden",
        "unset it; `nvidia-smi -L` lists the devices",
    )


@pytest.mark.parametrize("bus", TABLES["bus"].values(), ids=TABLES["bus"])
def test_no_driver_is_to_be_installed_where_it_would_drive_nothing(sketch, bus):
    """Without a bus to look at, and where a GPU is not on it, the driver may be what lacks."""
    for number, vendor in enumerate(bus["vendors"]):
        sketch.pci(f"0000:0{number}:00.0", vendor=vendor, device="0x2000", class_="0x030000")
    if "file" in bus:
        sketch.file(bus["file"], "")
    assert no_driver(sketch.root) == {"driver": NO_DRIVER, "GPU": NO_GPU}[bus["lacks"]]


def test_a_driver_tells_of_each_of_its_devices(gpumap, stubs):
    env = stubs("libcuda.so.1") | {"GPUMAP_STUB_CUDA_DEVICES": "2"}
    answer = gpumap.run([sys.executable, "-c", TABLES["ask"]], **env)
    assert json.loads(answer.out)["devices"] == [  # names are escaped where they are shown
        {"name": "Stub \x1b[2J0", "pci": "0000:09:00.0",
         "uuid": "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"},
        {"name": "Stub \x1b[2J1", "pci": "0000:0a:00.0",
         "uuid": "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"},
    ]  # fmt: skip
    assert driver("libnothing-of-that-name.so.1") is driver("libc.so.6") is None


@pytest.mark.parametrize(("raw", "text"), [(None, None), *TABLES["uuids"]])
def test_a_uuid_is_written_as_nvidia_smi_writes_it(raw, text):
    """Sixteen bytes, in groups; zeros tell nothing, nor half of one, as CuPy ends it at a zero."""
    assert text == uuid_text(None if raw is None else bytes.fromhex(raw))
