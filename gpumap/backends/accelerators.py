"""An accelerator as gpumap describes it, whichever library listed it.

CUDA numbers devices by speed or by bus, and CUDA_VISIBLE_DEVICES hides and reorders them; so a
device is known by its PCI bus id and UUID, and its number is only what this process calls it. NVML
tells what is free of its memory without a context, which costs 0.3 s and hundreds of MB on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.backends.third_party import message_of
from gpumap.kinds import Kind
from gpumap.machine.cuda import version_text
from gpumap.machine.topology import pci_address
from gpumap.model import Device, DeviceRef, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.backends.base import Host
    from gpumap.backends.third_party import Cuda
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Param

_MIG = " MIG "  # CUDA names an instance "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
_OF_NVML = ("link_width", "max_link_generation", "max_link_width", "max_clock")


class Told(NamedTuple):
    """What a library tells of a device: `uuid` without prefix, `memory` in bytes."""

    name: str
    address: str | None = None
    uuid: str | None = None
    memory: int | None = None
    units: int | None = None
    capability: tuple[int, int] = (0, 0)


def listed(asked: Mapping[str, Callable[[], Device]]) -> tuple[list[Device], list[str]]:
    """Return the devices that answer, and why others do not; a broken one hides no other.

    Args:
        asked: what returns a device, by what it is called.
    """
    devices, notes = [], []
    for name, ask in asked.items():
        try:
            devices.append(ask())
        except Exception as error:  # noqa: BLE001 - whatever a driver's library raises
            notes.append(f"{name}: {message_of(error)}")
    return devices, notes


def accelerator(
    backend: str, kind: Kind, ordinal: int, told: Told, host: Host, cuda: Cuda
) -> Device:
    """Return the device of a kind with that number in this process.

    Args:
        backend: the library that lists it.
        kind: its kind.
        ordinal: its number.
        told: what the library tells of it.
        host: whose PCI bus it is on.
        cuda: NVML and the driver, of which one of NVIDIA's is asked for.
    """
    if kind is Kind.CUDA:
        return _cuda_device(backend, ordinal, told, host, cuda)
    pci = pci_address(told.address or "")
    identity = f"pci:{pci}" if pci else f"uuid:{told.uuid}" if told.uuid else f"{kind}:{ordinal}"
    return _described(backend, kind, ordinal, told, host, pci, identity)


def _described(
    backend: str, kind: Kind, ordinal: int, told: Told, host: Host, pci: str | None, identity: str
) -> Device:
    """Return a device with what its library and the PCI bus tell of it."""
    place = next((p for p in host.topology.pci if p.address == pci), None)
    return Device(
        id=f"{kind}:{ordinal}",
        kind=kind,
        ref=DeviceRef(kind, ordinal if "index" in kind.row.forms else None),
        name=told.name,
        backend=backend,
        pci=pci,
        uuid=told.uuid,
        memory_total=told.memory,
        units=told.units,
        numa_node=place.numa_node if place else None,
        cores=place.local_cpus if place else (),
        hardware=frozenset({identity}),
    )


def _cuda_device(backend: str, ordinal: int, told: Told, host: Host, cuda: Cuda) -> Device:
    """Return the CUDA device with that number in this process."""
    listed = cuda.driver.devices[ordinal : ordinal + 1] if cuda.driver else ()
    address = told.address or next((each.pci for each in listed), None) or f"cuda:{ordinal}"
    pci = pci_address(address) or address.lower()
    digits = cuda.uuid(ordinal, pci) or told.uuid
    gpu, part = _nvml_device(pci, digits, cuda.gpus)
    mig = part is not None or _MIG in told.name or bool(gpu and gpu.mig)
    uuid = _uuid(digits, gpu, part, mig=mig)
    memory = part if mig else gpu
    identity = f"mig:{uuid}" if uuid and uuid.startswith("MIG-") else f"pci:{pci}"
    found = _described(backend, Kind.CUDA, ordinal, told, host, pci, identity)
    version = version_text(cuda.driver.version) if cuda.driver else None
    drivers = (gpu.driver if gpu else None, version)
    return replace(
        found,
        uuid=uuid,
        memory_free=memory.memory_free if memory else None,
        numa_node=gpu.numa_node if gpu and found.numa_node is None else found.numa_node,
        driver=", ".join(filter(None, drivers)) or None,
        facts=_facts(told.capability, gpu, mig=mig),
    )


def _nvml_device(
    pci: str, digits: str | None, gpus: tuple[NvmlGpu, ...]
) -> tuple[NvmlGpu | None, NvmlGpu | None]:
    """Return the GPU and the MIG instance that a device of CUDA's is.

    Never by index: NVML's order is not CUDA's. CUDA gives a MIG instance its GPU's PCI address.
    """
    gpu = next((gpu for gpu in gpus if gpu.pci == pci), None)
    gpu = gpu or next((gpu for gpu in gpus if digits and gpu.uuid == f"GPU-{digits}"), None)
    if gpu is None:
        return None, None
    part = next((p for p in gpu.instances if digits and p.uuid == f"MIG-{digits}"), None)
    if part is None and len(gpu.instances) == 1:
        part = gpu.instances[0]  # the driver gave its GPU's UUID, but there is no other
    return gpu, part


def _uuid(
    digits: str | None, gpu: NvmlGpu | None, part: NvmlGpu | None, *, mig: bool
) -> str | None:
    """Return the UUID as nvidia-smi writes it; CUDA tells bytes, and not of what."""
    if part is not None and part.uuid:
        return part.uuid
    whole = gpu.uuid if gpu else None
    if digits is None or whole == f"GPU-{digits}":
        return whole
    return f"MIG-{digits}" if mig else f"GPU-{digits}"


def _facts(capability: tuple[int, int], gpu: NvmlGpu | None, *, mig: bool) -> dict[str, Param]:
    facts: dict[str, Param] = {"compute_capability": "{}.{}".format(*capability), "mig": mig}
    figures = {key: getattr(gpu, key, None) for key in _OF_NVML}
    return facts | {key: value for key, value in figures.items() if value is not None}
