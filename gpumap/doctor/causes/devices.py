"""GM2..: the device, its driver or its library is not there, not the right one, or fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.doctor.causes.cause import Cause, Shown
from gpumap.errors import Exit
from gpumap.escape import printable
from gpumap.machine.visible import VARIABLE, Known, explain
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


_SMI = "see what `nvidia-smi -L` lists"
_ABSENT = Exit.ABSENT
CAUSES = (
    Cause(
        "GM201", "no-permission", "not used", _no_permission,
        "this process may not open the device: {what}",
        "put this user into the group of the file (video, render), or start the container with the "
        "device: --gpus all, --device /dev/kfd",
        "The driver is there, but the kernel lets only some users open its device files.",
        "The files of devices are looked at as this user, and NVML is asked.",
        "NVIDIA, Driver Installation Guide, Device Nodes; nvml.h, NVML_ERROR_NO_PERMISSION",
        _ABSENT,
    ),
    Cause(
        "GM202", "driver-hangs", "not used", _hangs,
        "the driver hangs: {what}",
        "look at `dmesg`; end what holds the device, load the driver again, or restart the machine",
        "A call into the driver does not come back. A program would wait for ever. Or it is slow: "
        "NVIDIA's takes one to three seconds for each GPU that no process holds. With many of them "
        "let nvidia-persistenced hold them, or raise --timeout: a driver has two sevenths of it.",
        "The driver is asked, and the device used, in processes of their own. A name hangs that "
        "has no answer 4 s after its probes should have ended; cut off before, it is GM409.",
        "gpumap.backends.probe",
        _ABSENT,
    ),
    Cause(
        "GM203", "driver-crashes", "not used", _crashes,
        "the driver crashes: {what}",
        "remove or update the driver: /etc/OpenCL/vendors, OCL_ICD_VENDORS, LD_LIBRARY_PATH",
        "A call into the driver ends the whole process.",
        "The driver is asked, and the device used, in processes of their own.",
        "gpumap.backends.probe",
        _ABSENT,
    ),
    Cause(
        "GM204", "device-hidden", "not used", _hidden,
        "the device is hidden: {what}",
        "{fix}",
        "CUDA shows a process only what CUDA_VISIBLE_DEVICES names; an entry that names nothing "
        "hides itself and all that follow, in silence.",
        "The variable is read by CUDA's rules and held against what the driver and NVML count.",
        "NVIDIA, CUDA Programming Guide, CUDA Environment Variables",
        _ABSENT,
        usual="unset CUDA_VISIBLE_DEVICES, or name what `nvidia-smi -L` lists",
    ),
    Cause(
        "GM205", "no-driver", "not used", _no_driver,
        "there is no driver: {what}",
        "{fix}",
        "Without its vendor's driver no library reaches a device. In a container the driver comes "
        "from outside.",
        "The driver's library is loaded in a child process; for OpenCL the loader is asked.",
        "NVIDIA, CUDA Driver API, cuInit; Khronos, OpenCL ICD loader",
        _ABSENT,
        usual="install NVIDIA's driver, or one for OpenCL (README, Install: the extra opencl-cpu); "
        "start a container with --gpus all",
    ),
    Cause(
        "GM206", "driver-too-old", "not used", _driver_old,
        "the driver is too old: {what}",
        "{fix}",
        "A library is built for one version of CUDA, and a driver runs what is built for its own "
        "or an older one.",
        "The driver is asked for its version, and the library for the one it needs.",
        "NVIDIA, CUDA Compatibility; docs.cupy.dev/en/stable/install.html",
        _ABSENT,
        usual="install NVIDIA's driver 525 or newer, or a library that is built for an older CUDA",
    ),
    Cause(
        "GM207", "driver-fails", "not used", _driver_fails,
        "the driver is there and fails: {what}",
        "{fix}",
        "The driver's library can be loaded, and its first call fails: it was updated while in "
        "use, is not loaded into the kernel, or a GPU has fallen off the bus.",
        "cuInit and NVML are called in a child process; their statuses tell.",
        "NVIDIA, cuda.h CUresult and nvml.h nvmlReturn_t",
        _ABSENT,
        usual="see `nvidia-smi` and `dmesg`; load the driver again, or restart the machine",
    ),
    Cause(
        "GM208", "no-device-shown", "not used", _shows_none,
        "the driver is there, and shows no device",
        f"{_SMI}; start a container with --gpus all",
        "The driver works, and finds no GPU that this process may use.",
        "The driver counts its devices in a child process.",
        "NVIDIA, CUDA Driver API, cuDeviceGetCount",
        _ABSENT,
    ),
    Cause(
        "GM209", "library-missing", "not used", _missing,
        "the library that drives it is not installed: {what}",
        "{fix}",
        "gpumap reaches a device by a library: CuPy for CUDA, PyOpenCL for OpenCL, pygpu for both. "
        "None for this device can be found by this Python.",
        "The library is looked for, and imported in a child process.",
        "docs/backends.md",
        _ABSENT,
        usual="install one: README, Install, has an extra for each kind of device",
    ),
    Cause(
        "GM210", "library-broken", "not used", _broken,
        "the library that drives it is too old, too new or broken: {what}",
        "{fix}",
        "It is installed and cannot be imported: most often it was built for another version of "
        "NumPy, Python or CUDA. pygpu needs NumPy 1.24 or older.",
        "It is imported in a child process; the error is its own.",
        "facts of pygpu 0.7.6: pygpu/dtypes.py; numpy.org, NumPy 2.0 migration guide",
        _ABSENT,
        usual="install it again for this Python, NumPy and CUDA, in an environment of its own",
    ),
    Cause(
        "GM211", "mig-instance", "not used", _mig,
        "the GPU is cut into MIG instances, and CUDA shows a process one of them",
        "map cuda0, one process for each instance: CUDA_VISIBLE_DEVICES=MIG-...",
        "With MIG a process sees a single instance, whatever CUDA_VISIBLE_DEVICES names.",
        "NVML tells that a GPU is cut up, and the map asks for another index than 0.",
        "NVIDIA, Multi-Instance GPU User Guide, CUDA Device Enumeration",
        _ABSENT,
    ),
    Cause(
        "GM212", "wrong-answer", "not used", _wrong,
        "the device gives wrong answers: {what}",
        "do not trust this device: check its memory, cable and driver",
        "A copy or a product was not what it must be.",
        "Every probe's result is compared with one of the host's, in float64.",
        "gpumap.bench.verify",
        Exit.WRONG_DATA,
    ),
    Cause(
        "GM213", "memory-full", "not used", _memory_full,
        "its memory is full: {what}",
        "end what holds it (nvidia-smi shows it), or lower Theano's gpuarray.preallocate",
        "There is no room for the smallest of problems. Another process, or a cache that was "
        "allocated in advance, has it.",
        "Buffers of a few MiB are asked for, and the driver tells what is free: 75 MB is little.",
        "Theano 1.0.5, gpuarray/__init__.py (75 MB)",
        _ABSENT,
    ),
    Cause(
        "GM214", "device-lost", "not used", _lost,
        "the device fails while it is used: {what}",
        "look at the system log (dmesg); `gpumap check` tells when it is back",
        "It was found, and did not survive its first copies and products.",
        "The probes are run on it in a process of their own.",
        "gpumap.backends.foreign",
        _ABSENT,
    ),
    Cause(
        "GM215", "device-busy", "partly", _busy,
        "others work on the device, {share} of the time: {who}",
        "end them, wait, or map another device",
        "What others compute on a device is time that it does not work for this program.",
        "NVML tells the share of time in which kernels ran, and which processes compute.",
        "nvml.h, nvmlDeviceGetUtilizationRates",
    ),
    Cause(
        "GM216", "order-differs", "used", _order,
        "{device} is the GPU that nvidia-smi calls {place} ({pci}): CUDA_DEVICE_ORDER is {order}",
        "{set}map by identity: cuda@{pci}",
        "CUDA numbers devices from the fastest on, nvidia-smi by PCI address: the same number may "
        "mean two devices. It is a note: the device is used, whatever it is called.",
        "PCI addresses of all GPUs are put in order and held against CUDA's numbers.",
        "NVIDIA, CUDA Programming Guide, CUDA_DEVICE_ORDER; github.com/Theano/Theano/issues/6023",
        usual="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or map by identity: cuda@0000:09:00.0",
    ),
    Cause(
        "GM217", "wrong-device", "partly", _wrong_device,
        "{device} is a processor ({what}), and there is a GPU: {better}",
        'map it: "{name}->{better}"',
        "An OpenCL platform may be a processor: its driver makes a device of the host's cores.",
        "The driver tells the type of its device; other platforms have a GPU.",
        "Khronos, OpenCL 3.0, CL_DEVICE_TYPE",
    ),
    Cause(
        "GM218", "no-kernel", "partly", _no_kernel,
        "the device has no kernel for an operation of the chain: {what}",
        "choose another backend (--backend), or keep these operations on the host",
        "An operation that the device cannot do is done on the host, with a copy there and back "
        "for each: the article's third example.",
        "The chain log(exp(relu(x.w + b))) is run by single kernels.",
        "the article Why is Theano rarely using the GPU?, example 3",
    ),
    Cause(
        "GM219", "no-such-device", "not used", _not_there,
        "{what}",
        "{fix}",
        "The library works, and has no device of this number or identity.",
        "The map is held against what every backend lists.",
        "docs/backends.md",
        _ABSENT,
        last=True,
        usual="map a device that `gpumap devices` lists",
    ),
    Cause(
        "GM220", "still-working", "not used", _working,
        "the library or driver was still working when its time was over: {what}",
        "{fix}",
        "It does not hang, for it uses CPU time: most often it compiles its kernels for the first "
        "time, as pygpu and CLBlast do on PoCL with an empty cache. A later call finds them there.",
        "The child process that asks is ended with its time limit, and its CPU time looked at: "
        "3 s at least, and a fifth of the limit.",
        "gpumap.backends.probe; man 2 wait4",
        _ABSENT,
        usual="try again: `gpumap devices`; keep the driver's cache (PoCL: POCL_CACHE_DIR)",
    ),
)  # fmt: skip
