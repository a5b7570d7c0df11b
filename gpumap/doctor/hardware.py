"""GM2 and GM3: the device, its driver or its library; and the machine around it.

GM2..: it is not there, not the right one, or fails. GM3..: the machine gives less than the device
could take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.doctor.evidence import BUSY, Rule, failed, limited, problem
from gpumap.errors import Exit
from gpumap.machine.cuda import VARIABLE, explain, no_driver
from gpumap.machine.nvml import NO_PERMISSION, nameable
from gpumap.model import Kind

if TYPE_CHECKING:
    from gpumap.doctor.evidence import Evidence, MapName, Signs
    from gpumap.model import Lack, Probe, ProbeCode

NO_DEVICE = 100  # cuInit's status of a driver without devices
_LITTLE = 75e6  # bytes below which Theano refuses cuDNN, too
_FULL = ("out-of-memory", "no-host-memory")
# failures with a cause of their own
_NAMED = (*_FULL, "hangs", "crashes", "wrong-data", "no-time", "replayed")
_GPU_BUSY = 0.1  # share of a GPU's time that others have
_NO_LIBRARY: tuple[Lack, ...] = ("no-library", "no-module")
_NOT_LOADED: tuple[Lack, ...] = ("no-module", "unloadable")
_UNSEEN = "processes that are not visible from here"
_CRASHED = "remove or update the driver: /etc/OpenCL/vendors, OCL_ICD_VENDORS, LD_LIBRARY_PATH"


def _driving(known: Evidence, kind: Kind) -> list[Probe]:
    """Return the probes of the backends that drive a kind, by preference; else the requested."""
    by_name = {probe.name: probe for probe in known.probes}
    return [by_name[name] for name in kind.row.backends if name in by_name] or [*known.probes]


def _failed(known: Evidence, named: MapName, *codes: ProbeCode | Lack) -> Probe | None:
    """Return the first unusable backend of a name without device, by code or lack."""
    every = [] if named.absent is None else _driving(known, named.ref.kind)
    unusable = (probe for probe in every if not probe.usable)
    return next((p for p in unusable if p.code in codes or p.lack in codes), None)


def _cuda_without(known: Evidence, named: MapName) -> bool:
    """Return whether a CUDA name has no device because CUDA shows none; of a script none is."""
    driver = known.nvidia.driver
    shows = driver is not None and not driver.status and driver.devices
    return named.absent is not None and _is_cuda(named) and not shows and not known.fake()


def _is_cuda(named: MapName) -> bool:
    """Return whether a name is of the kind that NVIDIA's driver and NVML are asked of."""
    return named.ref.kind is Kind.CUDA


def _no_permission(known: Evidence, named: MapName) -> Signs:
    without = named.absent is not None and named.ref.kind.row.seen == "drm"
    if without or _cuda_without(known, named):
        if known.denied:
            yield {"what": ", ".join(known.denied[:3])}
        elif known.nvidia.code == NO_PERMISSION and not without:
            yield {"what": "/dev/nvidiactl (says NVML)"}


def _hangs(known: Evidence, named: MapName) -> Signs:
    if named.absent is not None and _is_cuda(named) and known.nvidia.hangs:
        yield {"what": f"NVIDIA's driver: {known.nvidia.silent}"}
    yield from _ended(known, named, "hangs", "no-answer")


def _ended(known: Evidence, named: MapName, probing: str, asking: ProbeCode) -> Signs:
    """Yield how the subprocess of a name's probes or of a backend's devices ended."""
    for sign in failed(named, probing):
        yield {"what": f"{named.ref}: {sign['what']}", "fix": _CRASHED}
    yield from _library(_failed(known, named, asking), otherwise=_CRASHED)


def _hidden(known: Evidence, named: MapName) -> Signs:
    if not _is_cuda(named):
        yield from _renumbered(known, named)
        return
    text, gpus, driver = known.variables.get(VARIABLE), known.nvidia.gpus, known.nvidia.driver
    if named.absent is None or text is None or driver is None:
        return
    there = None if gpus is None else [each.gpu for each in gpus]
    mask = explain(text, nameable(there), len(driver.devices))
    if mask is not None:
        yield {"what": mask.reason, "fix": mask.fix}
    elif gpus is not None and len(gpus) > len(driver.devices):
        shown = f"CUDA shows {len(driver.devices)} of {len(gpus)} GPUs"
        yield {"what": f"{VARIABLE}={text[:72]}: {shown}", "fix": "unset it"}


def _renumbered(known: Evidence, named: MapName) -> Signs:
    """Yield the variables that hide devices with numbers alone, where a library was asked."""
    from gpumap.remedies import hiding

    kind = named.ref.kind
    found = hiding(kind, _driving(known, kind), known.variables)
    if named.absent is not None and found:
        yield {"what": found[0], "fix": "unset what is set of them, or name a device that is left"}


def _no_driver(known: Evidence, named: MapName) -> Signs:
    if not _is_cuda(named) and (probe := _failed(known, named, "no-driver")):
        yield {"what": probe.reason or "", "fix": probe.fix or "install one"}
    if _cuda_without(known, named) and known.nvidia.driver is None and not known.nvidia.silent:
        why = no_driver()
        yield {"what": why.reason, "fix": why.fix}


def _driver_old(known: Evidence, named: MapName) -> Signs:
    if _is_cuda(named) and (probe := _failed(known, named, "old-driver")):
        yield {"what": probe.reason or "", "fix": probe.fix or "update it"}


def _driver_fails(known: Evidence, named: MapName) -> Signs:
    driver, answer = known.nvidia.driver, known.nvidia.nvml
    if not _cuda_without(known, named) or driver is None:
        return
    if driver.status not in (0, NO_DEVICE):
        answer = f"cuInit answers {driver.status}"
    probe = next((p for p in _driving(known, named.ref.kind) if p.reason and p.fix), None)
    if answer and (probe is None or probe.lack == "no-library"):
        yield {"what": answer, "fix": "see `nvidia-smi` and `dmesg`; restart"}
    elif answer and probe is not None:
        yield {"what": probe.reason or "", "fix": probe.fix or ""}


def _shows_none(known: Evidence, named: MapName) -> Signs:
    driver = known.nvidia.driver
    if _cuda_without(known, named) and driver is not None and driver.status in (0, NO_DEVICE):
        yield {}


def _broken(known: Evidence, named: MapName) -> Signs:
    """A library is installed, and cannot be loaded."""
    if _without(known, named):
        yield from _library(_failed(known, named, *_NOT_LOADED))


def _without(known: Evidence, named: MapName) -> bool:
    """Return whether no library of the kind can be loaded at all."""
    every = _driving(known, named.ref.kind)
    return all(probe.lack in (*_NO_LIBRARY, *_NOT_LOADED) for probe in every)


def _missing(known: Evidence, named: MapName) -> Signs:
    """No library of the kind is installed with what it needs."""
    broken = _failed(known, named, *_NOT_LOADED)
    if _without(known, named) and not (broken and broken.lack == "unloadable"):
        advice = named.absent.hint if named.absent else None  # it knows what else is there
        yield from _library(_failed(known, named, *_NO_LIBRARY), advice)


def _library(
    probe: Probe | None, advice: str | None = None, otherwise: str = "install it again"
) -> Signs:
    if probe is not None:
        fix = advice or probe.fix or otherwise
        yield {"what": f"{probe.name}: {probe.reason or ''}", "fix": fix}


def _mig(known: Evidence, named: MapName) -> Signs:
    split = any(gpu.gpu.mig for gpu in known.nvidia.gpus or ())
    instances = any(d.facts.get("mig") for d in known.of_kind(named.ref.kind))
    if named.absent is not None and _is_cuda(named) and named.ref.index and (split or instances):
        yield {}


def _not_there(known: Evidence, named: MapName) -> Signs:
    if named.absent is not None and (known.fake() or not _masked(known, named)):
        yield problem(named.absent, "`gpumap devices`")


def _other_failure(_: Evidence, named: MapName) -> Signs:
    """A failure without a specific cause: none may pass."""
    if named.failure is not None and named.failure.code not in _NAMED:
        yield {"what": named.failure.text}


def _memory_full(_: Evidence, named: MapName) -> Signs:
    yield from failed(named, *_FULL)
    device = named.device
    if device is not None and device.memory_free is not None and device.memory_free < _LITTLE:
        free, total = map(units.memory, (device.memory_free, device.memory_total))
        yield {"what": f"{free} of {total} are free"}


def _gpu_busy(known: Evidence, named: MapName) -> Signs:
    gpu = known.nvidia.of(named.device) if named.device and _is_cuda(named) else None
    if gpu is not None and gpu.busy is not None and gpu.busy > _GPU_BUSY:
        who = ", ".join(known.nvidia.users(gpu)[:3]) or _UNSEEN
        yield {"who": who, "share": f"{gpu.busy:.0%}"}


def _order(known: Evidence, named: MapName) -> Signs:
    """Compare CUDA's numbers with the order of PCI addresses, which nvidia-smi counts by."""
    device = named.device
    if device is None or device.pci is None or named.ref.index is None or not _is_cuda(named):
        return
    every = {device.pci} | {gpu.gpu.pci for gpu in known.nvidia.gpus or () if gpu.gpu.pci}
    every |= {d.pci for d in known.of_kind(named.ref.kind) if d.pci}
    place = sorted(every).index(device.pci)
    chosen = known.variables.get(VARIABLE, "").strip()  # then the numbers are the user's own
    if place != named.ref.index and not chosen:
        yield {"device": str(named.ref), "place": str(place), "pci": device.pci}


def _wrong_device(known: Evidence, named: MapName) -> Signs:
    device = named.device
    others = (d for probe in known.probes for d in probe.devices if d.accelerator)
    better = next((str(d.ref) for d in others), None)
    if device is not None and device.facts.get("type") == "other" and better is not None:
        yield {
            "device": str(named.ref), "what": device.name, "better": better, "name": named.name,
        }  # fmt: skip


def _masked(known: Evidence, named: MapName) -> bool:
    """Return whether a name is of a core that is on, and not for this process."""
    if not named.ref.kind.row.cores or named.ref.index is None:
        return False
    return len(known.topology.cpus) <= named.ref.index < known.topology.online


def _affinity(known: Evidence, named: MapName) -> Signs:
    if named.absent is not None and _masked(known, named):
        allowed, online = len(known.topology.cpus), known.topology.online
        yield {"device": str(named.ref), "allowed": str(allowed), "online": str(online)}


def _quota(known: Evidence, named: MapName) -> Signs:
    quota = known.topology.quota
    if quota is None or named.device is None or not named.device.in_host_memory or known.fake():
        return
    on_host = [n.device for n in known.names if n.device and n.device.in_host_memory]
    cores = {element for device in on_host for element in device.hardware}
    if quota < len(cores):
        yield {"quota": f"{quota:g}", "cores": str(len(cores))}


def _shared(known: Evidence, named: MapName) -> Signs:
    device = named.device
    if device is None:
        return
    for one in known.names:
        other = one.device if one.name != named.name else None
        if other and other.id != device.id and (shared := other.hardware & device.hardware):
            yield {"who": one.name, "what": min(shared)}
    yield from limited(known, named, "shared-hardware")


def _busy(known: Evidence, named: MapName) -> Signs:
    load = known.others
    on_host = named.device is not None and named.device.in_host_memory
    if load is not None and on_host and load.cores >= BUSY:
        who = ", ".join(f"pid {one.pid} ({one.name})" for one in load.processes)
        yield {"cores": f"{load.cores:.2f}", "of": str(load.of), "who": who or _UNSEEN}


def _numa(known: Evidence, named: MapName) -> Signs:
    link = known.links.get(named.device.id) if named.device else None
    if link is not None and link.node is not None and link.nodes and link.node not in link.nodes:
        here = ", ".join(map(str, link.nodes))
        yield {"device": str(named.ref), "node": str(link.node), "here": here}


def _narrow(known: Evidence, named: MapName) -> Signs:
    link = known.links.get(named.device.id) if named.device else None
    if link is not None and link.width and link.width < (link.max_width or 0):
        yield {"device": str(named.ref), "what": f"{link.width} of {link.max_width} lanes"}


RULES = {
    "GM201": Rule("not used", _no_permission, Exit.ABSENT),
    "GM202": Rule("not used", _hangs, Exit.ABSENT),
    "GM203": Rule("not used", lambda k, n: _ended(k, n, "crashes", "crashed"), Exit.ABSENT),
    "GM204": Rule("not used", _hidden, Exit.ABSENT),
    "GM205": Rule("not used", _no_driver, Exit.ABSENT),
    "GM206": Rule("not used", _driver_old, Exit.ABSENT),
    "GM207": Rule("not used", _driver_fails, Exit.ABSENT),
    "GM208": Rule("not used", _shows_none, Exit.ABSENT),
    "GM209": Rule("not used", _missing, Exit.ABSENT),
    "GM210": Rule("not used", _broken, Exit.ABSENT),
    "GM211": Rule("not used", _mig, Exit.ABSENT),
    "GM212": Rule("not used", lambda _, named: failed(named, "wrong-data"), Exit.WRONG_DATA),
    "GM213": Rule("not used", _memory_full, Exit.ABSENT),
    "GM214": Rule("not used", _other_failure, Exit.ABSENT),
    "GM215": Rule("partly", _gpu_busy),
    "GM216": Rule("used", _order),
    "GM217": Rule("partly", _wrong_device),
    "GM219": Rule("not used", _not_there, Exit.ABSENT, last=True),
    "GM301": Rule("not used", _affinity, Exit.ABSENT),
    "GM302": Rule("partly", _quota),
    "GM303": Rule("partly", _busy),
    "GM304": Rule("partly", _shared),
    "GM305": Rule("partly", _numa),
    "GM306": Rule("partly", _narrow),
}
