"""GM2..: the device, its driver or its library is not there, not the right one, or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.doctor.causes.cause import Rule, Shown
from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.machine.cuda import VARIABLE, Known, explain
from gpumap.model import Estimate, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.doctor.evidence import Evidence, Named
    from gpumap.model import Device, Probe, ProbeCode

NO_DEVICE = 100  # cuInit's answer where the driver is there and shows none
_OLDEST = 12000  # CUDA 12 is the oldest that CuPy is built for
_LITTLE = 75e6  # bytes below which Theano refuses cuDNN, too
_FULL = ("out-of-memory", "no-host-memory")
_NAMED = (*_FULL, "hangs", "crashes", "wrong-data", "no-time")  # failures with a cause of their own
_BUSY = 0.1  # share of a GPU's time that others have
_NO_PERMISSION = "no permission"  # NVML's word for it, in gpumap.machine.nvml
# What backends say of the reasons that they give; a test holds each against their text.
NOT_INSTALLED, CANNOT_LOAD = "not installed", "cannot load: "
_NO_MODULE = "No module named"  # Python's own
NO_OPENCL, TOO_OLD = "no OpenCL driver is installed", "is too old"
REASONS = (NOT_INSTALLED, CANNOT_LOAD, NO_OPENCL, TOO_OLD)


def _driving(known: Evidence, kind: Kind) -> list[Probe]:
    """Return the probes of the backends that drive a kind."""
    from gpumap.backends import DEFAULTS

    return [probe for probe in known.probes if probe.name in DEFAULTS[kind]]


def _said(known: Evidence, named: Named, *words: str) -> Probe | None:
    """Return the first backend of a name without device whose reason has one of the words."""
    if named.absent is None:
        return None
    found = (p for p in _driving(known, named.kind) if not p.usable)
    return next((p for p in found if any(word in (p.reason or "") for word in words)), None)


def _coded(known: Evidence, named: Named, code: ProbeCode) -> Probe | None:
    """Return the first backend of a name without device that ended so."""
    if named.absent is None:
        return None
    return next((p for p in _driving(known, named.kind) if p.code == code), None)


def _working(known: Evidence, named: Named) -> Shown | None:
    return _library(_coded(known, named, "still-working"))


def _cuda_without(known: Evidence, named: Named) -> bool:
    """Return whether a CUDA name has no device because CUDA shows none."""
    driver = known.nvidia.driver
    shows = driver is not None and not driver.status and driver.devices
    return named.absent is not None and named.kind is Kind.CUDA and not shows


def _no_permission(known: Evidence, named: Named) -> Shown | None:
    nvml = known.nvidia.nvml or ""
    if not _cuda_without(known, named):
        if named.absent is None or named.kind is not Kind.OPENCL or not known.denied:
            return None
        return Shown({"what": printable(", ".join(known.denied[:3]))})
    if known.denied:
        return Shown({"what": printable(", ".join(known.denied[:3]))})
    return Shown({"what": "/dev/nvidiactl (says NVML)"}) if _NO_PERMISSION in nvml else None


def _hangs(known: Evidence, named: Named) -> Shown | None:
    failure = named.measured.failure
    if failure is not None and failure.code == "hangs":
        return Shown({"what": f"{named.asked}: {failure.text}"})
    silent = known.nvidia.silent or ""
    if named.absent is not None and named.kind is Kind.CUDA and "did not answer" in silent:
        return Shown({"what": f"NVIDIA's driver: {silent}"})
    if (probe := _coded(known, named, "no-answer")) is None:
        return None
    return Shown({"what": f"{probe.name}: {printable(probe.reason or '')}"})


def _crashes(known: Evidence, named: Named) -> Shown | None:
    failure = named.measured.failure
    if failure is not None and failure.code == "crashes":
        return Shown({"what": f"{named.asked}: {failure.text}"})
    if (probe := _coded(known, named, "crashed")) is None:
        return None
    return Shown({"what": f"{probe.name}: {printable(probe.reason or '')}"})


def _hidden(known: Evidence, named: Named) -> Shown | None:
    text = known.variables.get(VARIABLE)
    if named.kind is not Kind.CUDA or named.absent is None or text is None or known.fake():
        return None
    gpus, driver = known.nvidia.gpus, known.nvidia.driver
    if driver is None:
        return None
    uuids = None if gpus is None else [u for g in gpus for u in (g.uuid, *g.instances) if u]
    there = Known(None if gpus is None else len(gpus), None if uuids is None else frozenset(uuids))
    mask = explain(text, there, len(driver.devices))
    if mask is None:
        if gpus is None or len(gpus) <= len(driver.devices):
            return None
        shown = f"CUDA shows {len(driver.devices)} of {len(gpus)} GPUs"
        return Shown({"what": f"{VARIABLE}={printable(text[:72])}: {shown}", "fix": "unset it"})
    return Shown({"what": mask.reason, "fix": mask.fix})


def _no_driver(known: Evidence, named: Named) -> Shown | None:
    if named.kind is Kind.OPENCL and (probe := _said(known, named, NO_OPENCL)):
        return Shown({"what": NO_OPENCL, "fix": probe.fix or "install one"})
    if not _cuda_without(known, named) or known.nvidia.driver is not None or known.nvidia.silent:
        return None
    if known.fake():
        return None
    fix = "install NVIDIA's driver; start a container with --gpus all"
    return Shown({"what": "libcuda.so.1 cannot be loaded", "fix": fix})


def _driver_old(known: Evidence, named: Named) -> Shown | None:
    driver = known.nvidia.driver
    if named.kind is not Kind.CUDA or named.absent is None or driver is None:
        return None
    if 0 < driver.version < _OLDEST:
        from gpumap.machine.cuda import version_text

        what = f"it is for {version_text(driver.version)}, and CuPy needs CUDA 12 at least"
        return Shown({"what": what, "fix": "install NVIDIA's driver 525 or newer"})
    if (probe := _said(known, named, TOO_OLD)) is None:
        return None
    return Shown({"what": printable(probe.reason or ""), "fix": probe.fix or "update it"})


def _driver_fails(known: Evidence, named: Named) -> Shown | None:
    driver, nvml = known.nvidia.driver, known.nvidia.nvml
    if not _cuda_without(known, named) or driver is None:
        return None
    probe = next((p for p in _driving(known, Kind.CUDA) if p.reason and p.fix), None)
    own = f"cuInit answers {driver.status}" if driver.status not in (0, NO_DEVICE) else nvml or ""
    if not own:
        return None
    told = probe is not None and NOT_INSTALLED not in (probe.reason or "")
    reason = (probe.reason or "") if told and probe else own
    fix = (probe.fix or "") if told and probe else "see `nvidia-smi` and `dmesg`; restart"
    return Shown({"what": printable(reason), "fix": fix})


def _shows_none(known: Evidence, named: Named) -> Shown | None:
    driver = known.nvidia.driver
    if not _cuda_without(known, named) or driver is None or driver.status not in (0, NO_DEVICE):
        return None
    return Shown()


def _broken(known: Evidence, named: Named) -> Shown | None:
    """A library that is there, and cannot be loaded."""
    return _library(_said(known, named, CANNOT_LOAD)) if _without(known, named) else None


def _without(known: Evidence, named: Named) -> bool:
    """Return whether no library of the kind can be loaded at all."""
    reasons = [probe.reason or "" for probe in _driving(known, named.kind) if not probe.usable]
    return len(reasons) == len(_driving(known, named.kind)) and all(
        NOT_INSTALLED in reason or CANNOT_LOAD in reason for reason in reasons
    )


def _missing(known: Evidence, named: Named) -> Shown | None:
    """Every library of the kind is not there, or needs another that is not."""
    probe = _said(known, named, NOT_INSTALLED, _NO_MODULE)
    if probe is None or not _without(known, named):
        return None
    broken = _said(known, named, CANNOT_LOAD)
    return None if broken and _NO_MODULE not in (broken.reason or "") else _library(probe)


def _library(probe: Probe | None) -> Shown | None:
    if probe is None:
        return None
    what = f"{probe.name}: {printable(probe.reason or '')}"
    return Shown({"what": what, "fix": probe.fix or "install it again"})


def _mig(known: Evidence, named: Named) -> Shown | None:
    if named.absent is None or named.kind is not Kind.CUDA or not named.index:
        return None
    cut = [gpu for gpu in known.nvidia.gpus or () if gpu.mig]
    cut_devices = [d for d in known.of_kind(Kind.CUDA) if d.facts.get("mig")]
    return Shown() if cut or cut_devices else None


def _not_there(known: Evidence, named: Named) -> Shown | None:
    masked = named.kind is Kind.CPU and (named.index or 0) < known.topology.online
    if named.absent is None or (masked and not known.fake()):
        return None  # a processor that is on, and not for this process
    return Shown({"what": named.absent.message, "fix": named.absent.hint or "`gpumap devices`"})


def _wrong(_: Evidence, named: Named) -> Shown | None:
    failure = named.measured.failure
    if failure is None or failure.code != "wrong-data":
        return None
    return Shown({"what": printable(failure.text)})


def _lost(_: Evidence, named: Named) -> Shown | None:
    """Every failure that has no cause of its own: none may pass."""
    failure = named.measured.failure
    if failure is None or failure.code in _NAMED:
        return None
    return Shown({"what": printable(failure.text)})


def _memory_full(_: Evidence, named: Named) -> Shown | None:
    failure = named.measured.failure
    if failure is not None and failure.code in _FULL:
        return Shown({"what": printable(failure.text)})
    free = named.device.memory_free if named.device else None
    if free is None or free >= _LITTLE:
        return None
    total = named.device.memory_total if named.device else None
    figure = Estimate(float(free), float(free), float(free), "B")
    what = f"{units.memory(free)} of {units.memory(total)} are free"
    return Shown({"what": what}, {"free": figure})


def _busy(known: Evidence, named: Named) -> Shown | None:
    device = named.device
    if device is None or named.kind is not Kind.CUDA or known.fake():
        return None
    gpu = next((g for g in known.nvidia.gpus or () if _same(device, g.pci, g.uuid)), None)
    if gpu is None or not gpu.busy or gpu.busy <= _BUSY:
        return None
    who = printable(", ".join(gpu.processes[:3])) or "processes that cannot be seen from here"
    figure = Estimate(gpu.busy, gpu.busy, gpu.busy, "1")
    return Shown({"who": who, "share": f"{gpu.busy:.0%}"}, {"busy": figure})


def _same(device: Device, pci: str | None, uuid: str | None) -> bool:
    return (pci is not None and pci == device.pci) or (uuid is not None and uuid == device.uuid)


def _order(known: Evidence, named: Named) -> Shown | None:
    """Hold CUDA's numbers against the order of PCI addresses, which nvidia-smi counts by."""
    device = named.device
    if device is None or device.pci is None or named.index is None or named.kind is not Kind.CUDA:
        return None
    place = _places(known).index(device.pci)
    if place == named.index or _indexed(known.variables.get(VARIABLE, "")):
        return None
    setting = known.variables.get("CUDA_DEVICE_ORDER", "")
    by_address = setting == "PCI_BUS_ID"  # then the variable is no fix
    words = {
        "device": named.asked,
        "place": str(place),
        "pci": device.pci,
        "order": printable(setting[:40]) or "not set",
        "set": "" if by_address else "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or ",
    }
    return Shown(words)


def _places(known: Evidence) -> Sequence[str]:
    """Return the PCI addresses of all GPUs in nvidia-smi's order."""
    every = {gpu.pci for gpu in known.nvidia.gpus or () if gpu.pci}
    every |= {d.pci for d in known.of_kind(Kind.CUDA) if d.pci}
    every |= {named.device.pci for named in known.names if named.device and named.device.pci}
    return sorted(every)


def _indexed(text: str) -> bool:
    """Return whether CUDA_VISIBLE_DEVICES chooses devices: then the numbers are the user's own."""
    return bool(text.strip())


def _wrong_device(known: Evidence, named: Named) -> Shown | None:
    device = named.device
    if device is None or named.kind is not Kind.OPENCL or device.facts.get("type") != "other":
        return None
    gpus = [d for d in known.of_kind(Kind.OPENCL) if d.facts.get("type") == "gpu"]
    better = next((str(d.ref) for d in (*gpus, *known.of_kind(Kind.CUDA))), None)
    if better is None:
        return None
    words = {
        "device": named.asked,
        "what": printable(device.name),
        "better": better,
        "name": printable(named.name),
    }
    return Shown(words)


def _no_kernel(_: Evidence, named: Named) -> Shown | None:
    missing = named.measured.missing
    return Shown({"what": printable(missing)}) if missing else None


_ABSENT = Exit.ABSENT
RULES = {
    "GM201": Rule("not used", _no_permission, _ABSENT),
    "GM202": Rule("not used", _hangs, _ABSENT),
    "GM203": Rule("not used", _crashes, _ABSENT),
    "GM204": Rule("not used", _hidden, _ABSENT),
    "GM205": Rule("not used", _no_driver, _ABSENT),
    "GM206": Rule("not used", _driver_old, _ABSENT),
    "GM207": Rule("not used", _driver_fails, _ABSENT),
    "GM208": Rule("not used", _shows_none, _ABSENT),
    "GM209": Rule("not used", _missing, _ABSENT),
    "GM210": Rule("not used", _broken, _ABSENT),
    "GM211": Rule("not used", _mig, _ABSENT),
    "GM212": Rule("not used", _wrong, Exit.WRONG_DATA),
    "GM213": Rule("not used", _memory_full, _ABSENT),
    "GM214": Rule("not used", _lost, _ABSENT),
    "GM215": Rule("partly", _busy),
    "GM216": Rule("used", _order),
    "GM217": Rule("partly", _wrong_device),
    "GM218": Rule("partly", _no_kernel),
    "GM219": Rule("not used", _not_there, _ABSENT, last=True),
    "GM220": Rule("not used", _working, _ABSENT),
}
