"""The CUDA devices of this process, as CuPy and NVML tell them: none is opened for it.

NCCL's own allreduce between the CUDA devices of one process, by CuPy.

NCCL has run on one device (docs/measured); between two it follows its documentation alone.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.accelerators import accelerator, listed
from gpumap.backends.probe import ProbedBackend
from gpumap.backends.third_party import TOO_OLD, Cuda, third_party_errors, too_old
from gpumap.dtypes import has_bfloat16
from gpumap.errors import AbsentError, QuestionError
from gpumap.extras import install, pip
from gpumap.machine.cuda import NO_GPU, no_driver, uuid_text
from gpumap.model import Device, DeviceRef, Kind, Probe, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Clock, Feature, Host, Library
    from gpumap.backends.cupy.session import CupySession
    from gpumap.model import Param


_AMPERE = 8  # major compute capability: the first with bfloat16 and TF32
NAME = "cupy"
INSTALL = f"{install('cuda13')} # a driver below 580: cupy-cuda12x"
_STAND_IN = "+simulated"  # in the version of what stands in for CuPy: nothing it says is measured


class CupyBackend(ProbedBackend):
    """CuPy on every CUDA device that this process may see."""

    name = NAME
    kinds = frozenset({Kind.CUDA})

    def probe(self) -> Probe:
        """Ask a child process what is there; where there is no GPU, CuPy alone is no help."""
        found, why = super().probe(), no_driver()
        if found.lack != "no-library" or why is not NO_GPU:
            return found
        return replace(found, reason=f"{found.reason}, and {why.reason}", fix=why.fix)

    def install(self) -> str:
        """Return the line that installs CuPy."""
        return INSTALL

    def found(self) -> Probe:
        """Return the devices, or why the driver shows none."""
        import cupy

        version, cuda = str(cupy.__version__), Cuda(self._host.env)
        runtime, none = cupy.cuda.runtime, partial(Probe, NAME, usable=False, version=version)
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            offers = runtime.driverGetVersion()  # none: status 35 is said of a missing driver too
            old = bool(offers) and error.status == TOO_OLD
            why = too_old(offers, runtime.runtimeGetVersion()) if old else None
            why = why or cuda.none(error.status, offers, str(error))
            return none(reason=why.reason, fix=why.fix, lack=why.lack)
        every = {f"cuda{n}": partial(_device, n, runtime, self._host, cuda) for n in range(count)}
        devices, notes = listed(every)
        notes += (
            f"cuda: NVML's GPU {gpu.index}: {gpu.problem}" for gpu in cuda.gpus if gpu.problem
        )
        if _STAND_IN in version:
            devices = [replace(d, facts={**d.facts, "simulated": True}) for d in devices]
        if not devices:
            why = cuda.none(0, runtime.driverGetVersion())
            return none(reason="; ".join(notes) or why.reason, fix=why.fix)
        if hidden := cuda.hidden(count):
            notes.insert(0, hidden.reason)
        found = Probe(NAME, usable=True, version=version, fix=hidden.fix if hidden else None)
        return replace(found, devices=tuple(devices), notes=tuple(notes))

    def open(self, device: Device, clock: Clock) -> CupySession:
        """Open a device with a stream of its own."""
        from gpumap.backends.cupy.session import CupySession

        return CupySession(device, clock, self.features(device))

    def features(self, device: Device) -> frozenset[Feature]:
        """Return what devices of its compute capability have."""
        major = int(str(device.facts.get("compute_capability", "0")).partition(".")[0] or 0)
        found: set[Feature] = {"events", "kernels", "pinned", "float16", "float64"}
        if major >= _AMPERE:
            found |= {"bfloat16", "tf32"} if has_bfloat16() else {"tf32"}
        return frozenset(found)


def _device(ordinal: int, runtime: Any, host: Host, cuda: Cuda) -> Device:
    properties = runtime.getDeviceProperties(ordinal)
    told = Device(
        f"cuda:{ordinal}",
        Kind.CUDA,
        DeviceRef(Kind.CUDA, ordinal),
        properties["name"].decode(errors="replace"),
        NAME,
        pci=runtime.deviceGetPCIBusId(ordinal),
        uuid=uuid_text(properties.get("uuid")),
        memory_total=properties["totalGlobalMem"],
        units=properties["multiProcessorCount"],
    )
    found = accelerator(told, host, cuda, "{major}.{minor}".format_map(properties))
    return replace(found, facts={**found.facts, **_host_memory(ordinal, runtime)})


def _host_memory(ordinal: int, runtime: Any) -> dict[str, Param]:
    """Return that the host's memory is reached by another way than PCIe, where it is.

    On Grace a device shares the host's page tables, over NVLink-C2C.
    """
    ways = (
        runtime.cudaDevAttrPageableMemoryAccessUsesHostPageTables,
        runtime.cudaDevAttrHostNativeAtomicSupported,
    )
    shared = any(runtime.deviceGetAttribute(way, ordinal) for way in ways)
    return {"host_page_tables": True} if shared else {}


_LIBRARY = (
    f"{pip('install', 'nvidia-nccl-cu13')} (nvidia-nccl-cu12 with CUDA 12), "
    "or apt-get install libnccl2"
)
_DEVICES = "map every name to a CUDA device of its own, driven by cupy"


def nccl(sessions: Sequence[Any]) -> Library:
    """Connect the devices of several sessions of CuPy; return what exchanges a buffer of each.

    Raises:
        AbsentError: CuPy or NCCL is not there.
        QuestionError: a device is no CUDA device of CuPy's, or is listed twice, where
            NCCL would hang.
        DeviceError: NCCL cannot connect them.
    """
    _check(sessions)
    module = library()
    with third_party_errors(sessions[0].device):
        comms = module.NcclCommunicator.initAll([session.ordinal for session in sessions])
    return lambda buffers: partial(
        _exchange, module, list(zip(comms, sessions, buffers, strict=True))
    )


def _exchange(nccl: Any, ends: list[tuple[Any, Any, Any]], iterations: int) -> frozenset[Any]:
    """Queue the sum of float32 buffers on every device, in its session's stream."""
    with third_party_errors(ends[0][1].device):
        for _ in range(iterations):
            nccl.groupStart()  # or the first call would wait for the others
            for comm, session, buffer in ends:
                place, size = buffer.address, buffer.shape[0]
                comm.allReduce(place, place, size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, session.stream)
            nccl.groupEnd()
    return frozenset()


def library() -> Any:
    """Return CuPy's module of NCCL.

    Raises:
        AbsentError: CuPy is not installed, or finds no NCCL.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns where it finds none: we say so ourselves
            from cupy.cuda import nccl
    except ImportError as error:
        raise AbsentError("NCCL is used by CuPy, which is not installed", INSTALL) from error
    if not nccl.available:
        raise AbsentError("CuPy finds no NCCL: libnccl.so.2 cannot be loaded", _LIBRARY)
    return nccl


def _check(sessions: Sequence[Any]) -> None:
    others = [s.device for s in sessions if s.device.backend != NAME]
    if others:
        message = f"NCCL is for CUDA devices of cupy, and {others[0].ref} is driven by"
        raise QuestionError(f"{message} {others[0].backend}", _DEVICES)
    ids = [session.device.id for session in sessions]
    twice = next((id_ for n, id_ in enumerate(ids) if id_ in ids[:n]), None)
    if twice is not None:
        raise QuestionError(f"{twice} has two names, and NCCL takes a device once", _DEVICES)
