"""What the exceptions of other people's libraries mean: one table, and what reads it.

No library is imported for it. An exception is known by the full names of its class and of those
that it derives from, most specific first, and then by the status or the words that it carries.
Whatever is not in the table is no device's doing, and passes as it is.

The numbers have the names of their library, so that a test can compare both. They are from cl.h of
OpenCL 3.0, driver_types.h of CUDA 13 and nvml.h. A number without a line is a failing device; the
test knows the names of those too, so that a new status of a library is noticed.

Why there is no CUDA device, and the fix: one set of texts for every backend.

A library tells a status and no more. The driver's own version, NVML and CUDA_VISIBLE_DEVICES say
which of several causes it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpumap.errors import (
    AbsentError,
    DeviceError,
    DeviceLost,
    GpumapError,
    OutOfMemory,
    Unsupported,
)
from gpumap.extras import install, pip
from gpumap.machine.cuda import (
    MISMATCH,
    NO_DRIVER,
    VARIABLE,
    Known,
    Why,
    driver,
    explain,
    version_text,
)
from gpumap.machine.nvml import NvmlUnavailable, gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.machine.cuda import CudaDriver
    from gpumap.machine.nvml import NvmlGpu
    from gpumap.model import Device


@dataclass(frozen=True, slots=True)
class Outcome:
    """An error of ours, and its fix."""

    error: type[GpumapError]
    hint: str

    def of(self, _: BaseException) -> Outcome:
        """Return itself: the class alone says everything."""
        return self


FAILED = Outcome(DeviceError, "`gpumap devices` shows the driver and its memory")
DRIVER = Outcome(DeviceError, "install, update or reload the driver, as the message says")
FILES = Outcome(DeviceError, "compiled kernels are kept in files: check HOME and the disk")
LOST = Outcome(DeviceLost, "look at the system log (dmesg); `gpumap check` tells when it is back")
GONE = Outcome(AbsentError, "`gpumap devices` looks again")
FULL = Outcome(OutOfMemory, "choose a smaller size, or free the device's memory")
HOST_FULL = Outcome(OutOfMemory, "choose a smaller size, or free this machine's memory")
UNABLE = Outcome(Unsupported, "`gpumap devices` shows what this device can do")
LIBRARY = Outcome(Unsupported, f"install what it names; CUDA's own: {install('cuda13')}")
BLAS = Outcome(Unsupported, "install libclblast-dev (OpenCL) or CUDA's unversioned libcublas.so")


@dataclass(frozen=True, slots=True)
class Statuses:
    """Exceptions with a number; one that the library has no name for is a failing device."""

    attribute: str
    names: Mapping[Outcome, Mapping[int, str]]

    def of(self, error: BaseException) -> Outcome:
        """Return what the number of `error` stands for."""
        status = getattr(error, self.attribute, None)
        return next((outcome for outcome, names in self.names.items() if status in names), FAILED)


@dataclass(frozen=True, slots=True)
class Words:
    """Exceptions that say it in words: the first that are found decide."""

    groups: Mapping[Outcome, tuple[str, ...]]
    otherwise: Outcome | None = FAILED

    @property
    def signs(self) -> Iterator[tuple[str, Outcome]]:
        """Yield each sign with what it stands for."""
        yield from ((sign, outcome) for outcome, signs in self.groups.items() for sign in signs)

    def of(self, error: BaseException) -> Outcome | None:
        """Return what the words of `error` stand for."""
        said = words(error)
        return next((outcome for sign, outcome in self.signs if sign in said), self.otherwise)


# fmt: off
OPENCL = Statuses("code", {
    LOST: {-2: "DEVICE_NOT_AVAILABLE",
           -36: "INVALID_COMMAND_QUEUE"},  # the driver dropped it
    GONE: {-1: "DEVICE_NOT_FOUND", -1001: "PLATFORM_NOT_FOUND_KHR"},
    FULL: {-4: "MEM_OBJECT_ALLOCATION_FAILURE", -5: "OUT_OF_RESOURCES",
           -61: "INVALID_BUFFER_SIZE"},
    HOST_FULL: {-6: "OUT_OF_HOST_MEMORY"},
    UNABLE: {-3: "COMPILER_NOT_AVAILABLE", -10: "IMAGE_FORMAT_NOT_SUPPORTED",
             -16: "LINKER_NOT_AVAILABLE"},
})

# Without "cudaError". Of those that lose a device CUDA says that every later call in this process
# fails too; 46, 100, 101 and 999 are also what a device answers that fell off the bus.
CUDA = Statuses("status", {
    LOST: {
        4: "CudartUnloading", 46: "DevicesUnavailable", 53: "PriorLaunchFailure", 100: "NoDevice",
        101: "InvalidDevice", 214: "ECCUncorrectable", 220: "NvlinkUncorrectable",
        226: "Contained", 700: "IllegalAddress", 702: "LaunchTimeout", 709: "ContextIsDestroyed",
        710: "Assert", 714: "HardwareStackError", 715: "IllegalInstruction",
        716: "MisalignedAddress", 717: "InvalidAddressSpace", 718: "InvalidPc",
        719: "LaunchFailure", 721: "TensorMemoryLeak", 810: "MpsClientTerminated",
        911: "ExternalDevice", 999: "Unknown",
    },
    FULL: {2: "MemoryAllocation", 32: "MemoryValueTooLarge"},
    DRIVER: {
        3: "InitializationError", 10: "VersionTranslation", 34: "StubLibrary",
        35: "InsufficientDriver", 36: "CallRequiresNewerDriver", 49: "IncompatibleDriverContext",
        127: "StartupFailure", 222: "UnsupportedPtxVersion", 802: "SystemNotReady",
        803: "SystemDriverMismatch", 804: "CompatNotSupportedOnDevice",
    },
    UNABLE: {
        31: "NotYetImplemented", 209: "NoKernelImageForDevice", 215: "UnsupportedLimit",
        217: "PeerAccessUnsupported", 221: "JitCompilerNotFound", 223: "JitCompilationDisabled",
        224: "UnsupportedExecAffinity", 225: "UnsupportedDevSideSync", 801: "NotSupported",
        811: "CdpNotSupported", 812: "CdpVersionMismatch",
    },
})

NVML = Statuses("value", {
    LOST: {15: "GPU_IS_LOST", 16: "RESET_REQUIRED", 28: "GPU_NOT_FOUND"},
    HOST_FULL: {20: "MEMORY"},
    DRIVER: {9: "DRIVER_NOT_LOADED", 12: "LIBRARY_NOT_FOUND", 13: "FUNCTION_NOT_FOUND",
             18: "LIB_RM_VERSION_MISMATCH", 25: "ARGUMENT_VERSION_MISMATCH"},
    UNABLE: {3: "NOT_SUPPORTED", 22: "VGPU_ECC_NOT_SUPPORTED", 24: "FREQ_NOT_SUPPORTED",
             26: "DEPRECATED", 30: "RESET_TYPE_NOT_SUPPORTED"},
})
# fmt: on

# cuBLAS, cuFFT, cuRAND, NCCL, NVRTC and the like number alike things differently, and name them
# alike: CUBLAS_STATUS_ALLOC_FAILED, NVRTC_ERROR_OUT_OF_MEMORY.
TOOLKIT = Words({
    FULL: ("ALLOC", "OUT_OF_MEMORY", "INSUFFICIENT_RESOURCES"),
    DRIVER: ("INSUFFICIENT_DRIVER",),
    UNABLE: ("NOT_SUPPORTED", "NOT_IMPLEMENTED", "ARCH_MISMATCH"),
})  # fmt: skip

# Its codes do not come with every message. OpenCL's statuses it has in words of its own; the CUDA
# driver's come by name. "memory" alone is not enough: an illegal access says it too.
LIBGPUARRAY = Words({
    LOST: (
        "Device not available", "Invalid command queue", "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_CONTAINED", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ILLEGAL_",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_UNKNOWN", "No devices are available",
    ),
    FULL: (
        "CUDA_ERROR_OUT_OF_MEMORY", "Out of memory", "Out of resources",
        "Memory object allocation failure", "Invalid buffer size",
        "GPU resource allocation failed", "array size greater than addressable space",
    ),
    HOST_FULL: ("Out of host memory",),
    BLAS: ("Missing Blas library", "Blas operation not supported by device or missing library"),
    LIBRARY: ("Error loading library", "Could not load"),
    UNABLE: (
        "CUDA_ERROR_NOT_SUPPORTED", "not supported", "not support operation", "Unsupported",
        "Collectives unavailable",
    ),
})  # fmt: skip
# Raised by libgpuarray for a device that is out of the range of its counts; any other is ours.
_RANGE = Words({GONE: ("ID out of range",)}, otherwise=None)

# Full name of a class -> what it means; None where it is a caller's mistake.
TABLE: Mapping[str, Outcome | Statuses | Words | None] = {
    "pyopencl._cl.Error": OPENCL,
    "pyopencl.array.ArrayHasOffsetError": None,
    "pyopencl.compyte.dtypes.TypeNameNotKnown": None,
    "cupy_backends.cuda.api.runtime.CUDARuntimeError": CUDA,
    "cupy_backends.cuda.api.driver.CUDADriverError": CUDA,  # numbered as the runtime's
    "cupy_backends.cuda.libs.cublas.CUBLASError": TOOLKIT,
    "cupy_backends.cuda.libs.curand.CURANDError": TOOLKIT,
    "cupy_backends.cuda.libs.cusolver.CUSOLVERError": TOOLKIT,
    "cupy_backends.cuda.libs.cusparse.CuSparseError": TOOLKIT,
    "cupy_backends.cuda.libs.cutensor.CuTensorError": TOOLKIT,
    "cupy_backends.cuda.libs.nccl.NcclError": TOOLKIT,
    "cupy_backends.cuda.libs.nvrtc.NVRTCError": TOOLKIT,
    "cupy.cuda.cufft.CuFFTError": TOOLKIT,
    "cupy.cuda.memory.OutOfMemoryError": FULL,
    "cupy.cuda.compiler.CompileException": FAILED,
    "cupy.cuda.compiler.HIPCCException": FAILED,
    "cupy.cuda.compiler.JitifyException": FAILED,
    "cupy.cuda.compiler.NVCCException": FAILED,
    "cupy._core.syncdetect.DeviceSynchronized": None,
    "cupyx.jit._compile._JitCompileError": None,
    "cuda.pathfinder._dynamic_libs.load_dl_common.DynamicLibNotFoundError": LIBRARY,
    "pynvml.NVMLError": NVML,
    "pygpu.gpuarray.GpuArrayException": LIBGPUARRAY,
    "pygpu.gpuarray.UnsupportedException": UNABLE,
    # Python's own, as the libraries use them
    "builtins.MemoryError": HOST_FULL,
    "builtins.ImportError": LIBRARY,  # CuPy, where a part of CUDA is missing
    "builtins.NotImplementedError": UNABLE,
    "builtins.OSError": FILES,
    "builtins.RuntimeError": FAILED,
    "builtins.RecursionError": None,
    "builtins.ValueError": _RANGE,
}


def outcome(error: BaseException) -> Outcome | None:
    """Return what the table says of an exception; None where it is no device's doing."""
    for kind in type(error).__mro__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in TABLE:
            meaning = TABLE[name]
            return None if meaning is None else meaning.of(error)
    return None


def words(error: BaseException) -> str:
    """Return what an exception says, made safe to print; libgpuarray's messages are bytes."""
    first = error.args[0] if error.args else None
    said = first.decode(errors="replace") if isinstance(first, bytes) else str(error)
    return said or type(error).__name__


@contextmanager
def foreign(device: Device) -> Iterator[None]:
    """Turn what a library raises while it works on `device` into an error of ours.

    Raises:
        GpumapError: the class and the hint are the table's, the words are the library's.
    """
    try:
        yield
    except Exception as error:
        meaning = outcome(error)
        if meaning is None:
            raise
        message = f"{device.ref} ({device.name}): {words(error)}"
        raise meaning.error(message, meaning.hint) from error


NO_DEVICE = 100
TOO_OLD = 35


# CUDA status -> why; the numbers are the same in the driver's and in the runtime's interface.
_REASONS = {
    3: Why("the NVIDIA driver did not start", "restart the machine; look at `dmesg`"),
    34: Why(
        "libcuda.so.1 is the toolkit's stub, not a driver's",
        "take lib64/stubs out of LD_LIBRARY_PATH; install NVIDIA's driver",
    ),
    46: Why(
        "all devices are busy: another process holds them alone",
        "end that process; `nvidia-smi` shows it and the compute mode",
    ),
    103: Why(
        "CUDA's runtime does not take this driver for NVIDIA's: integrity checks failed",
        "install NVIDIA's driver again; LD_LIBRARY_PATH may lead to another libcuda.so.1",
    ),
    802: Why(
        "the NVIDIA driver is not ready: its fabric manager does not run",
        "start it: systemctl start nvidia-fabricmanager",
    ),
    803: MISMATCH,
    804: Why(
        "CUDA's compatibility library does not work with this device",
        "take the `compat` folder out of LD_LIBRARY_PATH",
    ),
    999: Why(
        "the NVIDIA driver answers with an unknown error",
        "look at `dmesg` for NVRM lines; restart the machine",
    ),
}

# What libgpuarray loads by a name without a number, which only development packages bring.
_UNVERSIONED = {
    "libcuda.so": Why(
        "there is a driver (libcuda.so.1), but it is loaded as libcuda.so",
        "link libcuda.so to libcuda.so.1, in a folder on LD_LIBRARY_PATH",
    ),
    "libnvrtc.so": Why(
        "there is a driver, but no libnvrtc.so",
        "install CUDA's toolkit; the folder of libnvrtc.so, without a number, must be on "
        "LD_LIBRARY_PATH",
    ),
}


@dataclass
class Cuda:
    """What surrounds a library that asks for CUDA devices: its environment, and NVML."""

    env: Mapping[str, str]

    @cached_property
    def _answer(self) -> tuple[tuple[NvmlGpu, ...] | None, str | None]:
        try:
            return gpus(), None
        except NvmlUnavailable as error:
            return None, None if error.status is None else error.reason

    @property
    def gpus(self) -> tuple[NvmlGpu, ...]:
        """Return what NVML knows; nothing where it does not answer."""
        return self._answer[0] or ()

    @cached_property
    def driver(self) -> CudaDriver | None:
        """Return what the driver itself answers; None where there is none."""
        return driver()

    def uuid(self, ordinal: int, pci: str) -> str | None:
        """Return a device's own UUID; CUDA's runtime gives a MIG instance its GPU's."""
        devices = self.driver.devices if self.driver else ()
        same = ordinal < len(devices) and devices[ordinal].pci == pci
        return devices[ordinal].uuid if same else None

    def hidden(self, shown: int) -> Why | None:
        """Return what CUDA_VISIBLE_DEVICES hides, if CUDA shows so many devices."""
        return explain(self.env.get(VARIABLE), _known(self._answer[0]), shown)

    def refused(self, words: str) -> Why:
        """Return why a library that loads CUDA's parts itself has no device.

        Args:
            words: what it says; empty where it counted none.
        """
        driver = self.driver
        if driver is None:
            return NO_DRIVER
        if driver.status or not driver.devices:
            return self.none(driver.status, driver.version, words)
        for file, why in _UNVERSIONED.items():
            if f'"{file}"' in words:
                return why
        return Why(words or "it finds no device", "see what `nvidia-smi -L` lists")

    def none(self, status: int, version: int, words: str = "") -> Why:
        """Return why CUDA shows no device.

        Args:
            status: what CUDA answered; 0 and no device is as good as its status 100.
            version: the CUDA version of the driver; 0: there is none.
            words: what the library says of a status that is in no table.
        """
        if version == 0:
            return NO_DRIVER
        if status in (0, NO_DEVICE):
            return self._no_device()
        said = words or "it gives no reason"
        driver = f"the NVIDIA driver ({version_text(version)}) fails with status {status}"
        return _REASONS.get(status, Why(f"{driver}: {said}", "see whether `nvidia-smi` works"))

    def _no_device(self) -> Why:
        if (why := self.hidden(0)) is not None:
            return why
        nvml = f" (NVML: {self._answer[1]})" if self._answer[1] else ""
        return Why(
            f"the NVIDIA driver is there, but it shows no device{nvml}",
            "see what `nvidia-smi -L` lists; start a container with --gpus all",
        )


def too_old(version: int, wanted: int) -> Why | None:
    """Return that a driver is for an older CUDA than a library wants; None if it is not.

    One driver runs what is built for any minor version of its CUDA. Only one CuPy can be
    installed, and each is built for one CUDA.
    """
    major, needed = version // 1000, wanted // 1000
    if major >= needed:
        return None
    reason = f"the NVIDIA driver is too old: it is for {version_text(version)}, this CuPy for CUDA "
    update = f"install a driver for CUDA {needed}"
    if needed in _DRIVERS:
        update += f" ({_DRIVERS[needed]} or newer)"
    if major in _DRIVERS:
        others = pip("uninstall", f"cupy-cuda{needed}x")
        update = f"{others} && {install(f'cuda{major}')}; or {update}"
    return Why(f"{reason}{needed}", update, "old-driver")


_DRIVERS = {12: 525, 13: 580}  # CUDA -> its first driver on Linux; each has an extra of its name


def _known(devices: tuple[NvmlGpu, ...] | None) -> Known:
    """Return what can be named; a device that does not answer could have any UUID."""
    if devices is None:
        return Known()
    named = [gpu.uuid for gpu in devices]
    named += [part.uuid for gpu in devices for part in gpu.instances]
    return Known(len(devices), None if None in named else frozenset(filter(None, named)))
