import importlib.util
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from gpumap.errors import Exit
from gpumap.extras import NVML, pip
from gpumap.machine.nvml import NvmlGpu, NvmlInstance, NvmlUnavailable, gpus

INSTALLED = importlib.util.find_spec("pynvml") is not None


class FakeError(Exception):
    """Stands in for pynvml.NVMLError, whose `value` is NVML's own code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


@dataclass
class FakeNvml:
    """Answers like the module pynvml: an answer that is an error is raised."""

    answers: dict[str, object]
    init: Exception | None = None
    lost: frozenset[int] = frozenset()
    places: frozenset[int] = frozenset()
    calls: list[str] = field(default_factory=list)
    NVMLError = FakeError

    def nvmlInit(self):  # noqa: N802  pynvml's own names
        self.calls.append("init")
        if self.init:
            raise self.init

    def nvmlShutdown(self):  # noqa: N802
        self.calls.append("shutdown")

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index in self.lost:
            raise FakeError(15)
        return index

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, place):  # noqa: N802
        if place not in self.places:
            raise FakeError(6)
        return f"{handle}/{place}"

    def __getattr__(self, query):
        if query.removeprefix("nvml") not in self.answers:
            raise AttributeError(query)
        return lambda *handle: self._answer(query.removeprefix("nvml"), *handle[:1])

    def _answer(self, query, handle=None):
        answer = self.answers.get(f"{query} {handle}", self.answers[query])
        if isinstance(answer, Exception):
            raise answer
        return answer


ANSWERS = {
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
KEPT = ("DeviceGetCount",)


@pytest.mark.parametrize("old", [str, str.encode])
def test_a_device_as_the_driver_tells_it(old):
    """Every answer has its field, the address is written our way, and NVML is shut down.

    Strings that an older pynvml tells as bytes are the same strings.
    """
    texts = {f"DeviceGet{name}": old(ANSWERS[f"DeviceGet{name}"]) for name in ("Name", "UUID")}
    pci = {"DeviceGetPciInfo": SimpleNamespace(busId=old("00000000:9D:00.0"))}
    library = FakeNvml(ANSWERS | texts | pci)
    assert gpus(library) == (H200,)
    assert library.calls == ["init", "shutdown"]


def test_the_instances_of_a_device_that_is_cut_up():
    """Places that are not taken are passed over; what one does not tell is None."""
    parts = {
        "DeviceGetMaxMigDeviceCount": 7,
        "DeviceGetUUID 0/2": "MIG-c5b2",
        "DeviceGetName 0/2": b"NVIDIA H200 MIG 1g.18gb",
        "DeviceGetMemoryInfo 0/2": SimpleNamespace(total=16 * 2**30, free=15 * 2**30),
        "DeviceGetUUID 0/6": FakeError(3),
        "DeviceGetName 0/6": FakeError(3),
        "DeviceGetMemoryInfo 0/6": FakeError(3),
    }
    library = FakeNvml(ANSWERS | parts, places=frozenset({2, 6}))
    assert gpus(library)[0].instances == (
        NvmlInstance("MIG-c5b2", "NVIDIA H200 MIG 1g.18gb", 16 * 2**30, 15 * 2**30),
        NvmlInstance(),
    )
    whole = FakeNvml(ANSWERS | parts | {"DeviceGetMigMode": [0, 1]}, places=frozenset({2}))
    assert gpus(whole)[0].instances == ()


@pytest.mark.parametrize("answers", [
    {key: value if key in KEPT else FakeError(3) for key, value in ANSWERS.items()},
    {key: value for key, value in ANSWERS.items() if key in KEPT},
    {"DeviceGetCount": 1, "DeviceGetMigMode": [0, 1], "DeviceGetMemoryAffinity": [0] * 16},
], ids=["not supported", "not in this pynvml", "no node, MIG off"])  # fmt: skip
def test_what_is_not_told_is_none(answers):
    assert gpus(FakeNvml(answers)) == (NvmlGpu(0, None),)


def test_a_lost_device_does_not_hide_the_others():
    library = FakeNvml(ANSWERS | {"DeviceGetCount": 2}, lost=frozenset({0}))
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
    library = FakeNvml({}, init=FakeError(code))
    with pytest.raises(NvmlUnavailable) as caught:
        gpus(library)
    assert caught.value.reason == reason
    assert fix in caught.value.fix
    assert caught.value.exit_code == Exit.ABSENT
    assert caught.value.diagnostics[0].hint == caught.value.fix
    assert library.calls == ["init"]


def test_shut_down_after_a_failure():
    """NVML is shut down also when a query that everything needs fails."""
    library = FakeNvml({"DeviceGetCount": FakeError(999)})
    with pytest.raises(NvmlUnavailable, match="NVML: code 999"):
        gpus(library)
    assert library.calls == ["init", "shutdown"]


@pytest.mark.skipif(INSTALLED, reason="pynvml is installed")
def test_without_pynvml():
    with pytest.raises(NvmlUnavailable) as caught:
        gpus()
    found = caught.value.reason, caught.value.fix
    assert found == ("pynvml is not installed", pip("install", NVML))
