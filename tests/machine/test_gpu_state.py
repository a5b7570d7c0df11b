"""The state of a map's CUDA devices, as NVML tells it, and who is on them."""

import os
from types import SimpleNamespace

import pytest
from nvml_library import Library, NvmlError
from tables import table

from gpumap.machine.nvml import GpuProcess, Gpus, GpuUse
from gpumap.model import Device, DeviceRef, GpuState, Kind


def device(index=0, kind=Kind.CUDA, **facts):
    given = {"pci": f"0000:0{index}:00.0"} | facts
    return Device(f"{kind}:{index}", kind, DeviceRef(kind, index), "H200", "cupy", **given)


def process(pid, memory=None):
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


FOUND = {"DeviceGetHandleByPciBusId 0000:00:00.0": "h0"}
TOLD = FOUND | {
    "DeviceGetClockInfo h0 1": 1980,
    "DeviceGetClockInfo h0 2": 3201,
    "DeviceGetPowerUsage h0": 699_500,
    "DeviceGetTemperature h0 0": 61,
    "DeviceGetCurrentClocksEventReasons h0": 0x4,
}
STATE = GpuState("cuda:0", {"sm": 1.98e9, "memory": 3.201e9}, 699.5, 61, ("power cap",))


def test_the_state_of_a_device():
    library = Library(TOLD)
    with Gpus([device()], library) as gpus:
        assert (gpus.read(), gpus.read()) == ((STATE,), (STATE,))
    assert (library.calls.count("Init"), library.calls[-1]) == (1, "Shutdown")


@pytest.mark.parametrize(("bits", "words"), table(__file__)["reasons"])
def test_what_holds_a_device_back_is_in_words(bits, words):
    """Being idle and clocks that someone has chosen are left out; what is new has its number."""
    for name in ("Event", "Throttle"):  # as older drivers call it
        answers = FOUND | {f"DeviceGetCurrentClocks{name}Reasons h0": bits}
        with Gpus([device()], Library(answers)) as gpus:
            assert gpus.read()[0].throttle == tuple(words)
            assert gpus.throttled() == ({"cuda:0": tuple(words)} if words else {})


@pytest.mark.parametrize(("answers", "failing", "found"), [
    (FOUND, {}, (GpuState("cuda:0"),)), (TOLD, {"init": NvmlError()}, ()),
    (TOLD, {"end": NvmlError()}, (STATE,)),
])  # fmt: skip
def test_what_is_not_told_is_none(answers, failing, found):
    with Gpus([device()], Library(answers, **failing)) as gpus:
        assert gpus.read() == found
        assert gpus.throttled() == ({"cuda:0": ("power cap",)} if STATE in found else {})
        assert list(gpus.uses()) == [GpuUse(device(), None, None)]


def test_only_cuda_devices_of_the_map_are_asked():
    wanted = [device(0), device(1, pci=None, uuid="GPU-b"), device(2), device(0, Kind.CPU)]
    answers = FOUND | {"DeviceGetHandleByUUID GPU-b": "h1"}
    with Gpus(wanted, Library(answers)) as gpus:
        assert [state.device for state in gpus.read()] == ["cuda:0", "cuda:1"]
    without = Library({})
    with Gpus([device(0, Kind.CPU)], without) as gpus:
        assert (gpus.read(), gpus.throttled(), list(gpus.uses())) == ((), {}, [])
    assert without.calls == []  # a map of cores costs no look for a driver


def test_who_is_on_a_device():
    unseen = 2**22 + 1  # no process has such a number: it is the host's, of who is in a container
    processes = [process(os.getpid(), 1), process(1, 3 << 30), process(1), process(1, 2**64 - 1),
                 process(unseen, 1)]  # fmt: skip
    answers = FOUND | {
        "DeviceGetComputeRunningProcesses_v3 h0": processes,
        "DeviceGetUtilizationRates h0": SimpleNamespace(gpu=87),
    }
    with Gpus([device()], Library(answers)) as gpus:
        found = list(gpus.uses())
    others = (GpuProcess(1, 3 << 30), GpuProcess(1, None), GpuProcess(1, None))
    assert found == [GpuUse(device(), 0.87, others)]


@pytest.mark.parametrize("suffix", ["_v3", "_v2"])
def test_pynvml_and_driver_may_be_of_any_age(suffix):
    answers = FOUND | {f"DeviceGetComputeRunningProcesses{suffix} h0": [process(1)]}
    with Gpus([device()], Library(answers)) as gpus:
        assert [use.processes for use in gpus.uses()] == [(GpuProcess(1, None),)]


def test_a_mig_instance_has_processes_of_its_own():
    part = device(uuid="MIG-c5b2")
    answers = TOLD | {
        "DeviceGetHandleByUUID MIG-c5b2": "part",
        "DeviceGetComputeRunningProcesses_v3 h0": [process(1)],
        "DeviceGetComputeRunningProcesses_v3 part": [],
    }
    with Gpus([part], Library(answers)) as gpus:
        assert [use.processes for use in gpus.uses()] == [()]
        assert gpus.read()[0].power == 699.5
