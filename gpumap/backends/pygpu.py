"""CUDA and OpenCL devices, driven by pygpu: libgpuarray, the library of Theano itself.

No package index has it and NumPy 2 breaks it; Debian 12's python3-pygpu works. It has no events,
so a queue's marks have no time of their own, and its kernels are in a third dialect, so there are
none here. libgpuarray crashes when asked for a platform that is not there: ask only in range.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.accelerators import listed
from gpumap.backends.base import NativeBuffer, PlainMarks, Product, bytes_of, require
from gpumap.backends.probe import ProbedBackend
from gpumap.backends.third_party import NO_BLAS, Cuda, message_of, third_party_errors
from gpumap.dtypes import Array, np
from gpumap.machine.topology import pci_address
from gpumap.model import Device, DeviceRef, Kind, Probe, replace

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Feature, Route
    from gpumap.dtypes import Dtype
    from gpumap.machine.cuda import Why

INSTALL = (
    "on Debian 12: apt-get install python3-pygpu libclblast-dev, and a venv with "
    "--system-site-packages and 'numpy<2'"
)


class PygpuSession(PlainMarks):
    """One libgpuarray context, with the single queue that Theano used."""

    features: frozenset[Feature] = frozenset({"float64"})

    def __init__(self, device: Device, context: Any) -> None:
        self.device = device
        self._context = context
        self._written: dict[int, Any] = {}  # what is queued, by identity

    def empty(self, shape: tuple[int, ...], dtype: Dtype) -> NativeBuffer:
        """Return memory that no one has written yet.

        Raises:
            OutOfMemory: the device has no room.
        """
        from pygpu import gpuarray

        bytes_of(shape, dtype)  # what libgpuarray cannot count, it would wrap around
        with third_party_errors(self.device):
            return NativeBuffer(self, gpuarray.empty(shape, dtype=dtype, context=self._context))

    def _upload(self, source: Array, target: NativeBuffer, repeat: int) -> None:
        """Queue a copy from host memory."""
        with third_party_errors(self.device):
            whole = np.ascontiguousarray(source)
            for _ in range(repeat):
                target.native.write(whole)
        self._note(target)

    def _download(self, source: NativeBuffer, target: Array, repeat: int) -> None:
        """Copy to host memory; libgpuarray waits for what is queued before."""
        with third_party_errors(self.device):
            for _ in range(repeat):
                source.native.read(target)

    def _route(self, there: Any) -> Route:
        return "same" if there is self else "staged"

    def _copy(self, source: NativeBuffer, target: NativeBuffer, repeat: int) -> None:
        with third_party_errors(self.device):
            for _ in range(repeat):
                target.native[...] = source.native
        self._note(target)

    def _multiply(self, product: Product, repeat: int) -> None:
        """Queue a product with CLBlast or cuBLAS."""
        from pygpu import blas

        a, b, out, _, transpose, alpha, beta, _ = product
        if out.dtype != "float32":
            require(self, out.dtype.name, f"{out.dtype} products")
        with third_party_errors(self.device):
            scaled = (alpha, a.native, b.native, beta, out.native, *transpose)
            for _ in range(repeat):
                blas.gemm(*scaled, overwrite_c=True)
        self._note(out)

    def synchronize(self) -> None:
        """Wait for everything queued so far."""
        with third_party_errors(self.device):
            for native in self._written.values():
                native.sync()
        self._written.clear()

    def _close(self) -> None:
        """Let go of the context."""
        self.synchronize()
        self._context = None

    def _note(self, target: NativeBuffer) -> None:
        self._written[id(target.native)] = target.native


class PygpuBackend(ProbedBackend):
    """libgpuarray on every CUDA and OpenCL device that it finds."""

    name = "pygpu"
    kinds = frozenset({Kind.CUDA, Kind.OPENCL})

    def install(self) -> str:
        """Return what installs pygpu."""
        return INSTALL

    def found(self) -> Probe:
        """Return the devices that libgpuarray can multiply on."""
        import pygpu

        cuda = Cuda(self._host.env)
        refs, why = _refs(cuda)
        found, notes = listed({str(ref): partial(self._device, ref) for ref in refs})
        if why:
            notes.insert(0, f"cuda: {why.reason}")
        opencl = any(ref.kind is Kind.OPENCL for ref in refs)
        if not opencl:
            notes.append("opencl: it finds no device")
        version, fix = pygpu.__version__, why.fix if why else None
        if found:
            probe = Probe(self.name, usable=True, version=version, fix=fix)
            return replace(probe, devices=tuple(found), notes=tuple(notes))
        if opencl or fix is None:  # it counts devices, but cannot multiply on them
            fix = NO_BLAS
        return Probe(self.name, usable=False, version=version, reason="; ".join(notes), fix=fix)

    def open(self, device: Device, clock: Clock) -> PygpuSession:  # noqa: ARG002 - the contract's
        """Open a device in a context of its own."""
        import pygpu

        with third_party_errors(device):
            return PygpuSession(device, pygpu.init(str(device.ref), single_stream=True))

    def features(self, device: Device) -> frozenset[Feature]:  # noqa: ARG002 - the contract's
        """Return what its sessions have."""
        return PygpuSession.features

    def _device(self, ref: DeviceRef) -> Device:
        import pygpu

        context = pygpu.init(str(ref), single_stream=True)
        _try_product(context)
        identity = _identity(context) if ref.kind is Kind.CUDA else None
        numbers = [str(n) for n in (ref.platform, ref.index) if n is not None]
        id_ = ":".join([ref.kind, *numbers])
        name = _text(context.devname)
        cpus = self._host.topology.cpus if name.startswith("pthread") else ()
        hardware = {cpu.hardware for cpu in cpus} or {f"pci:{identity}" if identity else id_}
        return Device(
            id=id_,
            kind=ref.kind,
            ref=ref,
            name=name,
            backend=self.name,
            pci=identity,
            memory_total=context.total_gmem,
            units=context.numprocs,
            cores=tuple(cpu.index for cpu in cpus),
            hardware=frozenset(hardware),
            driver=_text(context.bin_id),
            facts={"largest_buffer": context.largest_memblock},
        )


def _refs(cuda: Cuda) -> tuple[list[DeviceRef], Why | None]:
    """Return what libgpuarray counts, and what there is to say of CUDA."""
    count, why = _count_cuda(cuda)
    refs = [DeviceRef(Kind.CUDA, index) for index in range(count)]
    for platform in range(_counted("platforms", "opencl")):
        every = range(_counted("devices", "opencl", platform))
        refs += [DeviceRef(Kind.OPENCL, index, platform) for index in every]
    return refs, why


def _count_cuda(cuda: Cuda) -> tuple[int, Why | None]:
    """Return the CUDA devices; libgpuarray counts one platform, with or without a driver."""
    from pygpu import gpuarray

    try:
        count = int(gpuarray.count_devices("cuda", 0))
    except gpuarray.GpuArrayException as error:
        return 0, cuda.refused(message_of(error))
    return count, cuda.hidden(count) if count else cuda.refused("")


def _counted(what: str, *place: str | int) -> int:
    """Return how many platforms or devices there are; without a driver none."""
    from pygpu import gpuarray

    try:
        return int(getattr(gpuarray, f"count_{what}")(*place))
    except gpuarray.GpuArrayException:
        return 0


def _try_product(context: Any) -> None:
    """Multiply once, as Theano did: a device without a BLAS library is of no use."""
    from pygpu import blas, gpuarray

    ones = gpuarray.zeros((2, 2), dtype="float32", context=context)
    blas.gemm(1.0, ones, ones, 0.0, overwrite_c=False).sync()


def _identity(context: Any) -> str | None:
    from pygpu import gpuarray

    try:
        return pci_address(_text(context.unique_id))
    except gpuarray.GpuArrayException:  # an id of more than 15 characters breaks its property
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
