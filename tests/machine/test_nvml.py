"""What NVML says of devices, of their state, and of who is on them."""

import os
from types import SimpleNamespace

import pytest
from nvml_library import Library, NvmlError
from tables import table

from gpumap.errors import Exit
from gpumap.machine import nvml
from gpumap.model import Device, DeviceRef, Kind

TABLE = table(__file__)
ANSWERS = {
    key: SimpleNamespace(**told) if isinstance(told, dict) else told
    for key, told in TABLE["answers"].items()
}
H200 = nvml.NvmlGpu(**TABLE["h200"])
KEPT = ("DeviceGetCount", "DeviceGetHandleByIndex 0")


def test_a_device_as_the_driver_tells_it():
    """Every answer has its field, the address is written our way, and NVML is shut down."""
    library = Library(ANSWERS)
    assert nvml.gpus(library) == (H200,)
    assert (library.calls[0], library.calls[-1]) == ("Init", "Shutdown")


def test_the_instances_of_a_device_that_is_cut_up():
    """Places that are not taken are passed over; what one does not tell is None."""
    parts = {
        "DeviceGetMaxMigDeviceCount": 7,
        **{f"DeviceGetMigDeviceHandleByIndex 0 {place}": f"0/{place}" for place in (2, 6)},
        "DeviceGetUUID 0/2": "MIG-c5b2",
        "DeviceGetName 0/2": "NVIDIA H200 MIG 1g.18gb",
        "DeviceGetMemoryInfo 0/2": SimpleNamespace(total=16 * 2**30, free=15 * 2**30),
        "DeviceGetUUID 0/6": NvmlError(3),
        "DeviceGetName 0/6": NvmlError(3),
        "DeviceGetMemoryInfo 0/6": NvmlError(3),
    }
    found = nvml.gpus(Library(ANSWERS | parts))[0].instances
    shown = [(each.index, each.uuid, each.name, each.memory_free, each.mig) for each in found]
    first = (2, "MIG-c5b2", "NVIDIA H200 MIG 1g.18gb", 15 * 2**30, False)
    assert shown == [first, (6, None, None, None, False)]
    whole = Library(ANSWERS | parts | {"DeviceGetMigMode": [0, 1]})
    assert nvml.gpus(whole)[0].instances == ()


@pytest.mark.parametrize("answers", [
    {key: value if key in KEPT else NvmlError(3) for key, value in ANSWERS.items()},
    {key: value for key, value in ANSWERS.items() if key in KEPT},
    {"DeviceGetHandleByIndex 0": 0, "DeviceGetCount": 1, "DeviceGetMigMode": [0, 1],
     "DeviceGetMemoryAffinity": [0] * 16},
], ids=["not supported", "not in this pynvml", "no node, MIG off"])  # fmt: skip
def test_what_is_not_told_is_none(answers):
    assert nvml.gpus(Library(answers)) == (nvml.NvmlGpu(0, None),)


def test_a_lost_device_does_not_hide_the_others():
    library = Library(ANSWERS | {"DeviceGetCount": 2, "DeviceGetHandleByIndex 0": NvmlError(15)})
    lost = nvml.NvmlGpu(0, "580.65.06", problem="a GPU is lost: it has fallen off the bus")
    assert [gpu.index for gpu in nvml.gpus(library)] == [0, 1]
    assert nvml.gpus(library)[0] == lost


@pytest.mark.parametrize(("code", "reason", "fix"), TABLE["unavailable"])
def test_a_driver_that_does_not_answer(code, reason, fix):
    library = Library({}, init=NvmlError(code))
    with pytest.raises(nvml.NvmlUnavailable) as caught:
        nvml.gpus(library)
    assert caught.value.reason == reason
    assert fix in caught.value.diagnostics[0].hint
    assert caught.value.exit_code == Exit.ABSENT
    assert library.calls == ["Init"]
    library = Library({"DeviceGetCount": NvmlError(999)})  # shut down after a failure
    with pytest.raises(nvml.NvmlUnavailable, match="NVML: code 999"):
        nvml.gpus(library)
    assert (library.calls[0], library.calls[-1]) == ("Init", "Shutdown")


def cuda_device(index=0, kind=Kind.CUDA, **facts):
    given = {"pci": f"0000:0{index}:00.0"} | facts
    return Device(f"{kind}:{index}", kind, DeviceRef(kind, index), "H200", "cupy", **given)


def process(pid, memory=None):
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


FOUND = {"DeviceGetHandleByPciBusId 0000:00:00.0": "h0"}
TOLD = FOUND | {"DeviceGetCurrentClocksThrottleReasons h0": 0x4}


@pytest.mark.parametrize(("bits", "words"), TABLE["reasons"])
def test_what_holds_a_device_back_is_in_words(bits, words):
    """Being idle and clocks that someone has chosen are left out; what is new has its number."""
    answers = FOUND | {"DeviceGetCurrentClocksThrottleReasons h0": bits}
    with nvml.Gpus([cuda_device()], Library(answers)) as gpus:
        assert gpus.throttled() == ({"cuda:0": tuple(words)} if words else {})


@pytest.mark.parametrize(("answers", "failing", "found"), [
    (FOUND, {}, {}), (TOLD, {"init": NvmlError()}, {}),
    (TOLD, {"end": NvmlError()}, {"cuda:0": ("power cap",)}),
])  # fmt: skip
def test_a_state_that_is_not_told_is_none(answers, failing, found):
    with nvml.Gpus([cuda_device()], Library(answers, **failing)) as gpus:
        assert gpus.throttled() == found
        assert list(gpus.uses()) == [nvml.GpuUse(cuda_device(), None, None)]


def test_only_cuda_devices_of_the_map_are_asked():
    one, other = cuda_device(0), cuda_device(1, pci=None, uuid="GPU-b")
    wanted = [one, other, cuda_device(2), cuda_device(0, Kind.CPU)]
    answers = FOUND | {"DeviceGetHandleByUUID GPU-b": "h1"}
    with nvml.Gpus(wanted, Library(answers)) as gpus:
        assert [*gpus.look(0)] == ["cuda:0", "cuda:1"]
    without = Library({})
    with nvml.Gpus([cuda_device(0, Kind.CPU)], without) as gpus:
        assert (gpus.throttled(), list(gpus.uses())) == ({}, [])
    assert without.calls == []  # a map of cores costs no look for a driver


def test_who_is_on_a_device():
    """A part of a device has processes of its own."""
    unseen = 2**22 + 1  # no process has such a number: it is the host's, of who is in a container
    answers = FOUND | {"DeviceGetUtilizationRates h0": SimpleNamespace(gpu=87)}
    for used, known in ((3 << 30, 3 << 30), (None, None), (2**64 - 1, None)):
        processes = [process(os.getpid(), 1), process(1, used), process(unseen, 1)]
        answers["DeviceGetComputeRunningProcesses_v3 h0"] = processes
        with nvml.Gpus([cuda_device()], Library(answers)) as gpus:
            assert list(gpus.uses()) == [nvml.GpuUse(cuda_device(), 0.87, {1: known})]
    part = cuda_device(uuid="MIG-c5b2")
    answers = TOLD | {
        "DeviceGetHandleByUUID MIG-c5b2": "part",
        "DeviceGetComputeRunningProcesses_v3 h0": [process(1)],
        "DeviceGetComputeRunningProcesses_v3 part": [],
    }
    with nvml.Gpus([part], Library(answers)) as gpus:
        assert [use.processes for use in gpus.uses()] == [{}]
