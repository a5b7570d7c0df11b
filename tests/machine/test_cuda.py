"""What the driver says by its own interface, of a stub driver in a process of its own."""

import json
import sys

import pytest

from gpumap.machine.cuda import driver, uuid_text

ASK = """
import json
from dataclasses import asdict
from gpumap.machine.cuda import driver
found = driver()
print(json.dumps(found and asdict(found)))
"""
NAMES = ("Stub \x1b[2J0", "Stub \x1b[2J1")  # escaped where they are shown


@pytest.fixture
def asked(gpumap, stubs):
    """Ask the driver in a new process: a library stays loaded."""

    def ask(*libraries, **env):
        answer = gpumap.run([sys.executable, "-c", ASK], **stubs(*libraries), **env)
        assert answer.err == ""
        return json.loads(answer.out)

    return ask


def test_no_driver(asked):
    assert asked() is None
    assert driver("libnothing-of-that-name.so.1") is None
    assert driver("libc.so.6") is None


@pytest.mark.parametrize("status", [35, 100, 803, 999])
def test_a_driver_that_does_not_start(asked, status):
    found = asked("libcuda.so.1", GPUMAP_STUB_CUDA=str(status), GPUMAP_STUB_CUDA_VERSION="12020")
    assert found == {"status": status, "version": 12020, "devices": []}


def test_two_devices(asked):
    found = asked("libcuda.so.1", GPUMAP_STUB_CUDA_DEVICES="2")
    assert found["status"] == 0
    assert [d["name"] for d in found["devices"]] == list(NAMES)
    assert [d["pci"] for d in found["devices"]] == ["0000:09:00.0", "0000:0a:00.0"]
    assert [d["uuid"] for d in found["devices"]] == [
        "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0",
        "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1",
    ]


@pytest.mark.parametrize(("raw", "text"), [
    (None, None), (b"", None), (b"\xa1\xb2", None), (bytes(16), None),
    (bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (bytes(range(16)) + b"\0", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
])  # fmt: skip
def test_a_uuid_is_written_as_nvidia_smi_writes_it(raw, text):
    """Sixteen bytes, in groups; zeros tell nothing, nor half of one, as CuPy ends it at a zero."""
    assert text == uuid_text(raw)
