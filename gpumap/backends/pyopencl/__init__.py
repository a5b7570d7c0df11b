"""The OpenCL devices of this machine, and the parts of those that can be divided.

A driver that is installed may have no device, and a device is known by its place alone: platform
and number, for most drivers tell no identity. PoCL, which runs OpenCL on processors, puts its
workers on cores only when asked before its first platform is.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.backends import ICD_FOLDER, ICD_VARIABLE
from gpumap.backends.probe import ProbedBackend, run_child
from gpumap.backends.third_party import third_party_errors
from gpumap.errors import AbsentError
from gpumap.extras import has_wheels, install
from gpumap.model import Device, DeviceRef, Kind, Lack, Probe, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Clock, Feature, Host
    from gpumap.backends.pyopencl.session import PyopenclSession

NAME = "pyopencl"
_OWN = "install your device's own driver (processors, Debian: apt-get install pocl-opencl-icd)"
_PLATFORM_NOT_FOUND = -1001
_POCL = "Portable Computing Language"
# Below /usr, of a C compiler: one of each.
_LINKED: tuple[tuple[str, ...], ...] = (
    ("lib*/gcc/*/*/libgcc.a",),
    ("lib*/libc.so", "lib/*/libc.so"),
)
# of a device's version: clang has no x86 processor of the name that LLVM has for new ones
_UNKNOWN = re.compile(r"-x86_64-.*-generic$")
_NEW = "knows no processor like this one, and builds no kernel"
_UNLINKED = "cannot link its kernels: no ld in PATH, or no C library"
# why PoCL has no kernels, and what of the system's mends it
_MENDED = {_NEW: "apt-get install pocl-opencl-icd", _UNLINKED: "apt-get install gcc libc6-dev"}
_TRIAL = f"""
import pyopencl as cl
for pocl in (one for one in cl.get_platforms() if one.name.strip() == "{_POCL}"):
    context = cl.Context(pocl.get_devices()[:1])
    program = cl.Program(context, "__kernel void one(__global int *to) {{ *to = 1; }}").build()
    queue, buffer = cl.CommandQueue(context), cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    program.one(queue, (1,), None, buffer).wait()
"""


class PyopenclBackend(ProbedBackend):
    """PyOpenCL on every platform of this machine."""

    name = NAME
    kinds = frozenset({Kind.OPENCL})

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._contexts: dict[tuple[Any, ...], tuple[Any, list[Any]]] = {}

    def install(self) -> str:
        """Return the line that installs PyOpenCL, with a driver where the system has none."""
        known = any(ICD_FOLDER.glob("*.icd"))
        return install("opencl") if known else _with_driver(self._host)

    def found(self) -> Probe:
        """Return the devices of all drivers, or why there are none."""
        import pyopencl as cl

        host, version = self._host, cl.VERSION_TEXT
        try:
            platforms = cl.get_platforms()
        except cl.Error as error:
            missing = error.code == _PLATFORM_NOT_FOUND
            reason = "no OpenCL driver is installed" if missing else str(error)
            fix = f"{_with_driver(host)}; or {_OWN}" if has_wheels("opencl-cpu") else _OWN
            fix = f"unset {ICD_VARIABLE}" if ICD_VARIABLE in host.env else fix
            lack: Lack | None = "no-driver" if missing else None
            return Probe(NAME, usable=False, version=version, reason=reason, fix=fix, lack=lack)
        found, notes = _listed(platforms, host)
        if found:
            return Probe(NAME, usable=True, version=version, devices=found, notes=notes)
        reason = "; ".join(notes) or "no platform has a device"
        fix = "check POCL_DEVICES, and that HOME or POCL_CACHE_DIR can be written"
        for why, mended in _MENDED.items():
            if why in reason:
                fix = f"{mended}; or {install('opencl-intel')}"
        return Probe(NAME, usable=False, version=version, reason=reason, fix=fix)

    def open(self, device: Device, clock: Clock) -> PyopenclSession:
        """Open a device, or a part of one; parts of one device share a context.

        Raises:
            AbsentError: the device that was probed is no longer there.
        """
        import pyopencl as cl

        from gpumap.backends.pyopencl.session import PyopenclSession

        ref = device.ref
        key = (ref.platform, ref.index, ref.part is not None)
        with third_party_errors(device):
            if key not in self._contexts:
                found = natives(ref, self._host)
                self._contexts[key] = cl.Context(found), found
            context, devices = self._contexts[key]
            return PyopenclSession(device, clock, context, devices[ref.part or 0])

    def features(self, device: Device) -> frozenset[Feature]:
        """Return what its driver lists."""
        listed: Any = str(device.facts.get("features", "")).split()
        return frozenset(listed)


def _with_driver(host: Host) -> str:
    """Return the line that installs PyOpenCL and the smallest driver that works here."""
    return install("opencl-cpu") if _links(host) else install("opencl-intel")


def _links(host: Host) -> bool:
    """Return whether all that PoCL links a kernel with is where compilers have it."""
    linker = shutil.which("ld", path=host.env.get("PATH"))
    usr = Path("/usr")
    there = (any(any(usr.glob(place)) for place in places) for places in _LINKED)
    return linker is not None and all(there)


def _useless(platform: Any, devices: Sequence[Any], host: Host) -> str | None:
    """Return why a platform that is PoCL has no kernels; one that cannot link ends a process."""
    if platform.name.strip() != _POCL:
        return None
    if any(_UNKNOWN.search(native.version) for native in devices):
        return _NEW
    return None if _links(host) or _tried(host) else _UNLINKED


def _tried(host: Host) -> bool:
    """Return whether a child process lives that links a kernel; its place may be another one."""
    trial = (sys.executable, "-P", "-c", _TRIAL)
    return run_child(trial, host.env, host.patience / 3).code == 0


def natives(ref: DeviceRef, host: Host) -> list[Any]:
    """Return PyOpenCL's device for `ref`; every part of it where `ref` is one of them.

    Raises:
        AbsentError: the device that was probed is no longer there.
    """
    import pyopencl as cl

    if _may_pin(host):
        # Read by PoCL at the first platform query: without it two parts may sit on one core.
        os.environ.setdefault("POCL_AFFINITY", "1")
    try:
        native = cl.get_platforms()[ref.platform].get_devices()[ref.index]
    except IndexError:
        raise AbsentError(f"{ref} is no longer there", "`gpumap devices` looks again") from None
    if ref.part is None:
        return [native]
    parts: list[Any] = native.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    return parts


def _may_pin(host: Host) -> bool:
    """PoCL pins worker i to core i of the machine, also out of a narrower mask: not there."""
    if host.env.get("POCL_AFFINITY", "1") != "1":
        return False  # the user says no
    workers = host.env.get("POCL_MAX_PTHREAD_COUNT", "1")
    if not workers.isdigit() or int(workers) > host.topology.online:
        return False  # PoCL aborts when there is no core for a worker
    return host.topology.pinnable and len(host.topology.cpus) == host.topology.online


def _listed(platforms: Sequence[Any], host: Host) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """Return every device that can be used, and why a platform has none."""
    import pyopencl as cl

    found: list[Device] = []
    notes: list[str] = []
    for p, platform in enumerate(platforms):
        reason = "has no device"
        try:
            devices = platform.get_devices()
            if devices and (why := _useless(platform, devices, host)):
                devices, reason = [], why
        except cl.Error as error:
            devices, reason = [], str(error)
        if not devices:
            notes.append(f'platform {p} "{platform.name.strip()}" {reason}')
        for i, native in enumerate(devices):
            whole = DeviceRef(Kind.OPENCL, i, p)
            refs = [whole, *(replace(whole, part=part) for part in range(_parts(native)))]
            found += [_device(ref, platform, native, host) for ref in refs]
    return tuple(found), tuple(notes)


def _parts(native: Any) -> int:
    """Return how many parts of one compute unit a device can be divided into."""
    import pyopencl as cl

    equally = cl.device_partition_property.EQUALLY
    try:
        divisible = equally in native.partition_properties
        units = native.max_compute_units if divisible else 0
        return min(units, native.partition_max_sub_devices) if units > 1 else 0
    except cl.Error:  # OpenCL 1.1 has no parts
        return 0


def _device(ref: DeviceRef, platform: Any, native: Any, host: Host) -> Device:
    """Return a device, or a part of one, as PyOpenCL tells it."""
    import pyopencl as cl

    from gpumap.backends.pyopencl.launch import features

    pci = _pci(native)
    id_ = f"opencl:{ref.platform}:{ref.index}" + ("" if ref.part is None else f".{ref.part}")
    cpu = bool(native.type & cl.device_type.CPU)
    cores = _cores(platform, native, ref.part, host) if cpu else ()
    hardware = {thread.hardware for thread in host.topology.cpus if thread.index in cores}
    if ref.part is not None and len(cores) > 1:
        hardware = set()  # on one of them, not known on which
    return Device(
        id=id_,
        kind=Kind.OPENCL,
        ref=ref,
        name=native.name.strip(),
        backend=NAME,
        pci=pci,
        memory_total=native.global_mem_size,
        units=native.max_compute_units if ref.part is None else 1,
        cores=cores,
        hardware=frozenset(hardware or {f"pci:{pci}" if pci else id_}),
        driver=f"{platform.name.strip()} {native.driver_version.strip()}",
        facts={
            # what says that it is everything, as Oclgrind does, runs on the processor
            "type": "gpu" if native.type & cl.device_type.GPU and not cpu else "other",
            "features": " ".join(sorted(features(native))),
            "largest_buffer": native.max_mem_alloc_size,
        },
    )


def _cores(platform: Any, native: Any, part: int | None, host: Host) -> tuple[int, ...]:
    """Return the cores that a CPU device runs on; none where only the driver knows."""
    if native.name.startswith("basic"):
        return ()  # PoCL's basic device runs on whichever thread calls it
    every = tuple(cpu.index for cpu in host.topology.cpus)
    if part is None or not _may_pin(host) or platform.name.strip() != _POCL:
        return every  # Intel's runtime puts the work of a part on whichever core
    return (part,) if part in every else every


def _pci(native: Any) -> str | None:
    """Return the PCI address of a device, by what its vendor's driver has for it."""
    import pyopencl as cl

    with suppress(cl.Error, AttributeError):  # another vendor's query
        # its slot is the device alone: that of an H100 at 00:06.0 is 6, and a GPU is function 0
        slot = native.pci_slot_id_nv
        return f"{native.pci_domain_id_nv:04x}:{native.pci_bus_id_nv:02x}:{slot:02x}.0"
    with suppress(cl.Error, AttributeError):
        place = native.topology_amd
        return f"0000:{place.bus & 0xFF:02x}:{place.device:02x}.{place.function}"
    return None
