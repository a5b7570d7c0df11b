"""An accelerator as gpumap describes it, whichever library listed it.

CUDA numbers devices by speed or by bus, and CUDA_VISIBLE_DEVICES hides and reorders them; so a
device is known by its PCI bus id and UUID, and its number is only what this process calls it. NVML
tells what is free of its memory without a context, which costs 0.3 s and hundreds of MB on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.backends.third_party import message_of
from gpumap.kinds import Kind
from gpumap.machine.cuda import version_text
from gpumap.machine.topology import pci_address
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumap.backends.base import Host
    from gpumap.backends.third_party import Cuda
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Device

_MIG = " MIG "  # CUDA names an instance "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
_OF_NVML = ("link_width", "max_link_generation", "max_link_width", "max_clock")


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


def accelerator(told: Device, host: Host, cuda: Cuda, capability: str = "0.0") -> Device:
    """Return a device with all that is known of it.

    Args:
        told: what its library tells: its UUID has no prefix, its PCI address any form.
        host: whose PCI bus it is on.
        cuda: NVML and the driver, of which one of NVIDIA's is asked for.
        capability: the compute capability of one of NVIDIA's.
    """
    if told.kind is Kind.CUDA:
        return _cuda_device(told, host, cuda, capability)
    pci = pci_address(told.pci or "")
    identity = f"pci:{pci}" if pci else f"uuid:{told.uuid}" if told.uuid else told.id
    return _placed(told, host, pci, identity)


def _placed(told: Device, host: Host, pci: str | None, identity: str) -> Device:
    """Return a device with what the PCI bus tells of it."""
    place = next((p for p in host.topology.pci if p.address == pci), None)
    return replace(
        told,
        pci=pci,
        numa_node=place.numa_node if place else None,
        cores=place.local_cpus if place else (),
        hardware=frozenset({identity}),
    )


def _cuda_device(told: Device, host: Host, cuda: Cuda, capability: str) -> Device:
    """Return the CUDA device with that number in this process."""
    ordinal = told.ref.index or 0
    known = dict(enumerate(cuda.driver.devices if cuda.driver else ())).get(ordinal)
    address = told.pci or (known and known.pci) or told.id
    pci = pci_address(address) or address.lower()
    # the driver's is a device's own: CUDA's runtime gives a MIG instance its GPU's
    digits = (known.uuid if known and known.pci == pci else None) or told.uuid
    gpu, part = _nvml_device(pci, digits, cuda.gpus)
    mig = part is not None or _MIG in told.name or bool(gpu and gpu.mig)
    uuid = _uuid(digits, gpu, part, mig=mig)
    memory = part if mig else gpu
    identity = f"mig:{uuid}" if uuid and uuid.startswith("MIG-") else f"pci:{pci}"
    found = _placed(told, host, pci, identity)
    version = version_text(cuda.driver.version) if cuda.driver else None
    drivers = (gpu.driver if gpu else None, version)
    facts = {key: getattr(gpu, key, None) for key in _OF_NVML}
    return replace(
        found,
        uuid=uuid,
        memory_free=memory.memory_free if memory else None,
        numa_node=gpu.numa_node if gpu and found.numa_node is None else found.numa_node,
        driver=", ".join(filter(None, drivers)) or None,
        facts={"compute_capability": capability, "mig": mig}
        | {key: value for key, value in facts.items() if value is not None},
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
