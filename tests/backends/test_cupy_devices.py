"""What CuPy and NVML tell about devices: a scripted CuPy, for what no stub driver can show."""

import json
import sys
from types import SimpleNamespace

import pytest
from tables import table

from gpumap.backends import third_party
from gpumap.backends.base import Host
from gpumap.backends.cupy import CupyBackend
from gpumap.backends.cupy.launch import peak
from gpumap.bench.link_limit import limit
from gpumap.machine.cuda import CudaDevice, CudaDriver
from gpumap.machine.nvml import NvmlGpu, NvmlUnavailable
from gpumap.machine.topology import read
from gpumap.model import Device, DeviceRef, Kind, Probe, replace
from gpumap.model.io import plain, typed

GIB = 2**30
ONES = "11111111-1111-1111-1111-111111111111"
TWOS = "22222222-2222-2222-2222-222222222222"
LINK = {"link_width": 16, "max_link_generation": 5, "max_link_width": 16}
# NVML's order is not CUDA's here.
SECOND = NvmlGpu(
    0, "580.65.06", "NVIDIA H200", "0000:9d:00.0", f"GPU-{TWOS}",
    memory_total=141 * GIB, memory_free=140 * GIB, numa_node=1, **LINK,
)  # fmt: skip
FIRST = replace(
    SECOND, index=1, pci="0000:9e:00.0", uuid=f"GPU-{ONES}", memory_free=7 * GIB, numa_node=0
)
PARTS = tuple(
    NvmlGpu(0, None, uuid=f"MIG-{d * 8}-aaaa-aaaa-aaaa-{d * 12}", memory_free=GIB) for d in "34"
)
CUT = replace(FIRST, mig=True, instances=PARTS)
HOSTILE = "H200\x1b[2J"


class RuntimeFailure(RuntimeError):
    status = 46


def runtime_of(*devices, broken=(), has=()):
    """Stand in for cupy.cuda.runtime, without memGetInfo: that would open a context."""

    def properties(ordinal):
        if ordinal in broken:
            raise RuntimeFailure(f"busy \x1b[2J{ordinal}")
        name, _, uuid = devices[ordinal]
        raw = bytes.fromhex(uuid.replace("-", ""))
        return {"name": name.encode(), "uuid": raw, "totalGlobalMem": 140 * GIB,
                "multiProcessorCount": 132, "major": 9, "minor": 0}  # fmt: skip

    return SimpleNamespace(
        CUDARuntimeError=RuntimeFailure, cudaDevAttrPageableMemoryAccessUsesHostPageTables=100,
        cudaDevAttrHostNativeAtomicSupported=86, getDeviceCount=lambda: len(devices),
        driverGetVersion=lambda: 13000, deviceGetPCIBusId=lambda ordinal: devices[ordinal][1],
        deviceGetAttribute=lambda which, _: int(which in has), getDeviceProperties=properties,
    )  # fmt: skip


NONE_LISTED = CudaDriver(0, 13000, ())
BOTH = (("NVIDIA H200", "0000:9E:00.0", ONES), ("NVIDIA H200", "0000:9D:00.0", TWOS))
PART = (("NVIDIA H200 MIG 1g.18gb", "0000:9E:00.0", ONES),)  # the runtime gives its GPU's UUID


@pytest.fixture
def ask(monkeypatch):
    """Return what the inventory says, having gone through the probe's JSON."""

    def inventory_of(runtime, *, nvml=(SECOND, FIRST), driver=NONE_LISTED, **env):
        def gpus():
            if isinstance(nvml, Exception):
                raise nvml
            return nvml

        module = SimpleNamespace(__version__="14", cuda=SimpleNamespace(runtime=runtime))
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setattr(third_party, "gpus", gpus)
        monkeypatch.setattr(third_party, "driver", lambda: driver)
        probe = CupyBackend(Host(env, replace(read(), pci=()))).inventory()
        assert typed(json.loads(json.dumps(plain(probe))), Probe) == probe
        return probe

    return inventory_of


def test_two_devices_are_joined_with_nvml_by_identity(ask):
    """The index of one is not the index of the other; memory that is free comes from NVML."""
    probe = ask(runtime_of(*BOTH))
    first, second = probe.devices
    assert (probe.usable, probe.fix, probe.notes) == (True, None, ())
    assert (first.ref.index, first.pci, first.uuid) == (0, "0000:9e:00.0", f"GPU-{ONES}")
    assert (second.ref.index, second.pci, second.uuid) == (1, "0000:9d:00.0", f"GPU-{TWOS}")
    assert (first.memory_total, first.memory_free) == (140 * GIB, 7 * GIB)
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert first.hardware == {"pci:0000:9e:00.0"}
    assert first.driver == "580.65.06, CUDA 13.0"
    assert first.facts == {"compute_capability": "9.0", "mig": False, **LINK}


@pytest.mark.parametrize("attribute", [100, 86])
def test_a_host_that_shares_its_page_tables_is_told(ask, attribute):
    """Its copies go by another way than the PCIe link that NVML tells of."""
    device = ask(runtime_of(*BOTH, has=(attribute,))).devices[0]
    assert device.facts["host_page_tables"] is True
    assert limit([device]) is None
    assert limit([ask(runtime_of(*BOTH)).devices[0]]) is not None


@pytest.mark.parametrize("status", [None, 9])  # pynvml is not there; nor is the driver
def test_without_nvml(ask, status):
    """What CUDA tells without a context is there; what is free is not known."""
    device = ask(runtime_of(*BOTH), nvml=NvmlUnavailable("x", status=status)).devices[0]
    assert (device.pci, device.uuid) == ("0000:9e:00.0", f"GPU-{ONES}")
    assert (device.memory_total, device.memory_free) == (140 * GIB, None)
    assert device.facts == {"compute_capability": "9.0", "mig": False}
    assert device.driver == "CUDA 13.0"


def test_a_broken_device_does_not_hide_the_others(ask):
    """Errors are notes, or the reason where no device works; all texts stay as they are."""
    lost = NvmlGpu(2, "580.65.06", problem="a GPU is lost: it has fallen off the bus")
    probe = ask(runtime_of(*BOTH, broken={0}), nvml=(SECOND, FIRST, lost))
    assert [str(device.ref) for device in probe.devices] == ["cuda1"]
    assert probe.notes == (
        "cuda0: busy \x1b[2J0",
        "cuda: NVML's GPU 2: a GPU is lost: it has fallen off the bus",
    )
    probe = ask(runtime_of(*BOTH, broken={0, 1}))
    assert (probe.usable, probe.devices, bool(probe.fix)) == (False, (), True)
    assert probe.reason == "cuda0: busy \x1b[2J0; cuda1: busy \x1b[2J1"
    assert ask(runtime_of((HOSTILE, "0000:9E:00.0", ONES))).devices[0].name == HOSTILE


def test_a_mig_instance_has_its_own_identity_and_hardware(ask):
    """The driver knows which one it is; link and driver are those of its GPU."""
    own = (PARTS[1].uuid or "").removeprefix("MIG-")
    driver = CudaDriver(0, 13000, (CudaDevice("", "0000:9e:00.0", own),))
    (device,) = ask(runtime_of(*PART), nvml=(SECOND, CUT), driver=driver).devices
    assert device.uuid == PARTS[1].uuid
    assert device.hardware == {f"mig:{PARTS[1].uuid}"}
    assert (device.pci, device.memory_free) == ("0000:9e:00.0", GIB)
    assert (device.facts["mig"], device.facts["max_link_width"]) == (True, 16)


@pytest.mark.parametrize(
    ("parts", "uuid", "free"), [(PARTS[:1], PARTS[0].uuid, GIB), (PARTS, f"GPU-{ONES}", None)]
)
def test_an_instance_without_its_uuid_is_known_where_it_can_be_no_other(ask, parts, uuid, free):
    """The runtime gives it its GPU's; of two, what is free is not the GPU's memory."""
    (device,) = ask(runtime_of(*PART), nvml=(replace(CUT, instances=parts),)).devices
    assert (device.uuid, device.memory_free, device.facts["mig"]) == (uuid, free, True)


def test_devices_that_the_variable_hides_are_said_beside_those_it_shows(ask):
    probe = ask(runtime_of(BOTH[0]), CUDA_VISIBLE_DEVICES="1,7,0")
    assert probe.usable
    later = "names no device, so it and every later entry are hidden"
    assert probe.notes == (f'CUDA_VISIBLE_DEVICES=1,7,0: entry 2 ("7") {later}',)
    fix = "name devices that are there, each once; `nvidia-smi -L` lists the devices"
    assert (probe.fix or "").endswith(fix)


@pytest.mark.parametrize(
    ("capability", "count", "megahertz", "arithmetic", "published"), table(__file__)["rates"]
)
def test_a_table_of_rates_is_no_lower_than_a_data_sheet(
    capability, count, megahertz, arithmetic, published
):
    """Of all boards of a compute capability: a ceiling below one of them would be none."""
    keys = dict(zip(("major", "minor"), capability, strict=True))
    properties = keys | {"multiProcessorCount": count}
    device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "", "cupy",
                    facts={"max_clock": megahertz})  # fmt: skip
    found = peak(device, properties, arithmetic)
    assert found.value >= 0.999 * published
    assert found.origin == "reported"  # so a row above it is flagged, and keeps its figures
