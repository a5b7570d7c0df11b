import importlib.util
from types import SimpleNamespace

import pytest
from nvml_library import Library, NvmlError

from gpumap.errors import Exit
from gpumap.extras import NVML, pip
from gpumap.machine.nvml import NvmlGpu, NvmlInstance, NvmlUnavailable, gpus

INSTALLED = importlib.util.find_spec("pynvml") is not None
ANSWERS = {
    "DeviceGetHandleByIndex 0": 0,
    "DeviceGetHandleByIndex 1": 1,
    "DeviceGetCount": 1,
    "SystemGetDriverVersion": "580.65.06",
    "DeviceGetName": "NVIDIA H200",
    "DeviceGetPciInfo": SimpleNamespace(busId="00000000:9D:00.0"),
    "DeviceGetUUID": "GPU-1a2b",
    "DeviceGetMemoryInfo": SimpleNamespace(total=141 * 2**30, free=140 * 2**30),
    "DeviceGetMemoryAffinity": [0b10] + [0] * 15,
    "DeviceGetNumGpuCores": 16896,
    "DeviceGetCurrPcieLinkGeneration": 1,
    "DeviceGetCurrPcieLinkWidth": 16,
    "DeviceGetMaxPcieLinkGeneration": 5,
    "DeviceGetMaxPcieLinkWidth": 16,
    "DeviceGetMigMode": [1, 1],
}
H200 = NvmlGpu(
    index=0, driver="580.65.06", name="NVIDIA H200", pci="0000:9d:00.0", uuid="GPU-1a2b",
    memory_total=141 * 2**30, memory_free=140 * 2**30, numa_node=1, cores=16896, link_generation=1,
    link_width=16, max_link_generation=5, max_link_width=16, mig=True,
)  # fmt: skip
KEPT = ("DeviceGetCount", "DeviceGetHandleByIndex 0")


@pytest.mark.parametrize("old", [str, str.encode])
def test_a_device_as_the_driver_tells_it(old):
    """Every answer has its field, the address is written our way, and NVML is shut down."""
    texts = {f"DeviceGet{name}": old(ANSWERS[f"DeviceGet{name}"]) for name in ("Name", "UUID")}
    pci = {"DeviceGetPciInfo": SimpleNamespace(busId=old("00000000:9D:00.0"))}
    library = Library(ANSWERS | texts | pci)
    assert gpus(library) == (H200,)
    assert (library.calls[0], library.calls[-1]) == ("Init", "Shutdown")


def test_the_instances_of_a_device_that_is_cut_up():
    """Places that are not taken are passed over; what one does not tell is None."""
    parts = {
        "DeviceGetMaxMigDeviceCount": 7,
        **{f"DeviceGetMigDeviceHandleByIndex 0 {place}": f"0/{place}" for place in (2, 6)},
        "DeviceGetUUID 0/2": "MIG-c5b2",
        "DeviceGetName 0/2": b"NVIDIA H200 MIG 1g.18gb",
        "DeviceGetMemoryInfo 0/2": SimpleNamespace(total=16 * 2**30, free=15 * 2**30),
        "DeviceGetUUID 0/6": NvmlError(3),
        "DeviceGetName 0/6": NvmlError(3),
        "DeviceGetMemoryInfo 0/6": NvmlError(3),
    }
    library = Library(ANSWERS | parts)
    assert gpus(library)[0].instances == (
        NvmlInstance("MIG-c5b2", "NVIDIA H200 MIG 1g.18gb", 16 * 2**30, 15 * 2**30),
        NvmlInstance(),
    )
    whole = Library(ANSWERS | parts | {"DeviceGetMigMode": [0, 1]})
    assert gpus(whole)[0].instances == ()


@pytest.mark.parametrize("answers", [
    {key: value if key in KEPT else NvmlError(3) for key, value in ANSWERS.items()},
    {key: value for key, value in ANSWERS.items() if key in KEPT},
    {"DeviceGetHandleByIndex 0": 0, "DeviceGetCount": 1, "DeviceGetMigMode": [0, 1],
     "DeviceGetMemoryAffinity": [0] * 16},
], ids=["not supported", "not in this pynvml", "no node, MIG off"])  # fmt: skip
def test_what_is_not_told_is_none(answers):
    assert gpus(Library(answers)) == (NvmlGpu(0, None),)


def test_a_lost_device_does_not_hide_the_others():
    library = Library(ANSWERS | {"DeviceGetCount": 2, "DeviceGetHandleByIndex 0": NvmlError(15)})
    lost = NvmlGpu(0, "580.65.06", problem="a GPU is lost: it has fallen off the bus")
    assert [gpu.index for gpu in gpus(library)] == [0, 1]
    assert gpus(library)[0] == lost


@pytest.mark.parametrize(("code", "reason", "fix"), [
    (4, "no permission to talk to the NVIDIA driver", "/dev/nvidia"),
    (9, "the NVIDIA driver is not loaded", "modprobe nvidia"),
    (12, "no NVIDIA driver library (libnvidia-ml.so.1)", "--gpus all"),
    (18, "the NVIDIA driver and its library differ in version", "restart"),
])  # fmt: skip
def test_a_driver_that_does_not_answer(code, reason, fix):
    library = Library({}, init=NvmlError(code))
    with pytest.raises(NvmlUnavailable) as caught:
        gpus(library)
    assert caught.value.reason == reason
    assert fix in caught.value.fix
    assert caught.value.exit_code == Exit.ABSENT
    assert caught.value.diagnostics[0].hint == caught.value.fix
    assert library.calls == ["Init"]


def test_shut_down_after_a_failure():
    library = Library({"DeviceGetCount": NvmlError(999)})
    with pytest.raises(NvmlUnavailable, match="NVML: code 999"):
        gpus(library)
    assert (library.calls[0], library.calls[-1]) == ("Init", "Shutdown")


@pytest.mark.skipif(INSTALLED, reason="pynvml is installed")
def test_without_pynvml():
    with pytest.raises(NvmlUnavailable) as caught:
        gpus()
    found = caught.value.reason, caught.value.fix
    assert found == ("pynvml is not installed", pip("install", NVML))
