"""The CUDA devices of this process, as CuPy and NVML tell them: no device is opened for it.

CUDA numbers devices by speed or by bus, and CUDA_VISIBLE_DEVICES hides and reorders them; so a
device is known by its PCI bus id and UUID, and its number is only what this process calls it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.escape import printable
from gpumap.machine.nvml import NvmlUnavailable, gpus
from gpumap.model import Device, DeviceRef, Kind, Probe

if TYPE_CHECKING:
    from gpumap.backends.base import Host
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.machine.pci import PciDevice

NAME = "cupy"
INSTALL = "pip install 'gpumap[cuda13]' (or 'gpumap[cuda12]' for a driver below 580)"
DRIVER = "install NVIDIA's driver; `nvidia-smi` shows whether it works"

# CUDA status -> why there is nothing to use, and what mends it.
_REASONS = {
    35: ("the NVIDIA driver is too old for this CuPy", "pip install 'gpumap[cuda12]'"),
    100: ("the NVIDIA driver is there, but it has no device", "check CUDA_VISIBLE_DEVICES"),
    803: ("the NVIDIA driver and its library differ in version", "reboot, or reload the driver"),
    999: ("the NVIDIA driver answers with an unknown error", "look at `dmesg` for NVRM lines"),
}  # fmt: skip
_NO_DRIVER = "no NVIDIA driver"


def inventory(host: Host) -> Probe:
    """Ask the driver, in this process; `probe` calls it in the child."""
    try:
        import cupy
    except ImportError as error:
        reason = f"cannot load: {error}"
        return Probe(NAME, usable=False, reason=reason, fix=INSTALL)
    from cupy_backends.cuda.api.runtime import CUDARuntimeError

    version = str(cupy.__version__)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        devices = tuple(_device(n, host) for n in range(count))
    except CUDARuntimeError as error:
        reason, fix = _why(error)
        return Probe(NAME, usable=False, version=version, reason=reason, fix=fix)
    return Probe(NAME, usable=True, version=version, devices=devices)


def _why(error: Any) -> tuple[str, str]:
    """Return reason and fix; status 35 is said of a missing driver too."""
    import cupy

    if cupy.cuda.runtime.driverGetVersion() == 0:
        return _NO_DRIVER, DRIVER
    return _REASONS.get(error.status, (printable(str(error)), DRIVER))


def _device(ordinal: int, host: Host) -> Device:
    import cupy

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(ordinal)
    pci = runtime.deviceGetPCIBusId(ordinal).lower()
    with cupy.cuda.Device(ordinal):
        free, total = runtime.memGetInfo()
    place, nvml = _place(pci, host), _nvml().get(pci)
    near = place or nvml
    cuda = _version(runtime.driverGetVersion())
    return Device(
        id=f"cuda:{ordinal}",
        kind=Kind.CUDA,
        ref=DeviceRef(Kind.CUDA, ordinal),
        name=properties["name"].decode(errors="replace"),
        backend=NAME,
        pci=pci,
        uuid=_uuid(properties.get("uuid")) or (nvml.uuid if nvml else None),
        memory_total=total,
        memory_free=free,
        units=properties["multiProcessorCount"],
        numa_node=near.numa_node if near else None,
        cores=place.local_cpus if place else (),
        silicon=frozenset({f"pci:{pci}"}),
        driver=f"{nvml.driver}, {cuda}" if nvml else cuda,
    )


def _place(pci: str, host: Host) -> PciDevice | None:
    return next((p for p in host.topology.pci if p.address == pci), None)


@cache
def _nvml() -> dict[str, NvmlGpu]:
    """Return what NVML knows, by PCI address: its own order is not CUDA's."""
    try:
        return {gpu.pci: gpu for gpu in gpus() if gpu.pci is not None}
    except NvmlUnavailable:
        return {}  # CuPy tells enough to go on


def _uuid(raw: bytes | None) -> str | None:
    if not raw:
        return None
    digits = raw[:16].hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(groups)


def _version(number: int) -> str:
    """Return CUDA's 13020 as 13.2."""
    return f"CUDA {number // 1000}.{number % 1000 // 10}"
