"""Every accelerator that PyTorch drives here, and the host's cores where it is requested by name.

PyTorch is imported in the child that is asked, and by the first session: never for a help text.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.accelerators import accelerator, listed
from gpumap.backends.numpy import cores
from gpumap.backends.probe import ProbedBackend
from gpumap.backends.third_party import Cuda
from gpumap.dtypes import has_bfloat16
from gpumap.kinds import KINDS, Kind
from gpumap.machine.topology import pci_address
from gpumap.model import Device, DeviceRef, Probe, replace

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Feature, Host, Session

NAME = "torch"
_AMPERE = 8  # major compute capability: the first with TF32
_STAND_IN = "simulated"  # in the version of what stands in for an accelerator
_FLOATS: frozenset[Feature] = frozenset({"float16", "float64", "bfloat16"})
_KERNELS: frozenset[Feature] = frozenset({"kernels", "operations"})
# What PyTorch calls a device, and what its sessions have.
_FEATURES: dict[str, frozenset[Feature]] = {
    "cuda": _FLOATS | _KERNELS | {"events", "pinned"},
    "xpu": _FLOATS | _KERNELS | {"events", "pinned"},
    "mps": _KERNELS | {"float16", "bfloat16"},
    "cpu": _FLOATS | _KERNELS,
}


class TorchBackend(ProbedBackend):
    """PyTorch on the accelerators that this process may see, and on its cores."""

    name = NAME
    framework = True
    kinds = frozenset(kind for kind, row in KINDS.items() if row.alias) | {Kind.CPU}

    def found(self) -> Probe:
        """Import PyTorch and return what it finds."""
        torch = self.library()

        from gpumap.backends.torch.arithmetic import settle, settled

        settle("ieee")
        facts = settled() | ({"simulated": True} if _STAND_IN in torch.__version__ else {})
        devices, notes = _accelerators(torch, self._host)
        devices += [_placed(each, "cpu") for each in cores(self._host.topology)]
        known = tuple(replace(each, facts={**each.facts, **facts}) for each in devices)
        return Probe(NAME, True, str(torch.__version__), devices=known, notes=tuple(notes))  # noqa: FBT003

    def open(self, device: Device, clock: Clock) -> Session:
        """Open a device: an accelerator with a stream of its own, cores with their threads."""
        if device.kind is Kind.CPU:
            from gpumap.backends.torch.host_session import TorchCores

            return TorchCores(device, clock, self.features(device))
        from gpumap.backends.torch.session import TorchSession

        return TorchSession(device, clock, self.features(device))

    def features(self, device: Device) -> frozenset[Feature]:
        """Return what a session on the device has."""
        found = _FEATURES[str(device.facts["torch_device"]).partition(":")[0]]
        if int(str(device.facts.get("compute_capability", "0")).partition(".")[0]) >= _AMPERE:
            found |= {"tf32"}
        return found if has_bfloat16() else found - {"bfloat16"}


def _accelerators(torch: Any, host: Host) -> tuple[list[Device], list[str]]:
    """Return the devices that answer, and what is to be said; a broken one hides no other."""
    cuda = Cuda(host.env)
    known = torch.accelerator.current_accelerator(check_available=True)
    if known is None or known.type not in _FEATURES:
        built = f"PyTorch {torch.__version__} is not built for CUDA"
        return [], [f"cuda: {cuda.refused('').reason if torch.version.cuda else built}"]
    kind = next(kind for kind, row in KINDS.items() if row.alias == known.type)
    kind = Kind.ROCM if torch.version.hip else kind  # which PyTorch calls cuda
    ask = getattr(torch.get_device_module(known.type), "get_device_properties", lambda _: None)

    def asked(ordinal: int) -> Device:
        told = ask(ordinal)
        capability = f"{getattr(told, 'major', 0)}.{getattr(told, 'minor', 0)}"
        found = accelerator(_told(told, kind, ordinal), host, cuda, capability)
        return _placed(found, f"{known.type}:{ordinal}")

    every = range(torch.accelerator.device_count())
    return listed({f"{kind}{ordinal}": partial(asked, ordinal) for ordinal in every})


def _placed(device: Device, place: str) -> Device:
    """Return a device that knows what PyTorch calls it."""
    return replace(device, backend=NAME, facts={**device.facts, "torch_device": place})


def _told(told: Any, kind: Kind, ordinal: int) -> Device:
    """Return what PyTorch tells of a device: of Apple's nothing."""
    return Device(
        f"{kind}:{ordinal}",
        kind,
        DeviceRef(kind, ordinal if "index" in kind.row.forms else None),
        str(getattr(told, "name", f"{kind.row.maker} {kind.row.noun}")),
        NAME,
        pci=_address(told),
        uuid=str(getattr(told, "uuid", "")) or None,
        memory_total=getattr(told, "total_memory", None),
        units=getattr(told, "multi_processor_count", None),
    )


def _address(told: Any) -> str | None:
    """Return the PCI address of a device: PyTorch tells its three numbers."""
    numbers = [getattr(told, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    known = [number for number in numbers if number is not None]
    return pci_address("{:04x}:{:02x}:{:02x}.0".format(*known)) if known == numbers else None
