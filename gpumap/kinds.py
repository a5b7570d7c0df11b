"""The kinds of devices as a table: what differs between two kinds is in its row, and nowhere else.

A row is plain data, which `gpumap check --syntax-only` loads: it imports nothing of gpumap.

Lines of installation: pytorch.org/get-started/locally, docs.jax.dev/en/latest/installation.html.
Variables: NVIDIA, CUDA Programming Guide, "CUDA Environment Variables"; AMD, HIP documentation,
"GPU isolation variables"; Level Zero, Core Programming Guide, "Affinity Mask"; PyTorch/XLA,
`torch_xla/core/xla_env_vars.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple


class Kind(StrEnum):
    """The family of a device."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    MPS = "mps"
    TPU = "tpu"
    OPENCL = "opencl"
    CPU = "cpu"

    @property
    def row(self) -> Row:
        """Return its row of the table."""
        return KINDS[self]


class Row(NamedTuple):
    """What one kind is.

    Attributes:
        maker: Who makes its devices; empty where anybody may.
        noun: What people call one of them.
        example: A device of it, as a map writes it.
        forms: What may follow its word: nothing, index, identity, platform (and device and part).
        taken: What may follow its word where no name may read so, as a regular expression.
        spellings: Of other programs: a regular expression, what to write, and whose it is.
        backends: What drives it unless --backend says otherwise, by preference, which is also the
            order of what they take to install: CuPy brings cuBLAS and its kin, PyTorch and JAX
            cuDNN and NCCL too; JAX's wheels for ROCm need a ROCm that is installed.
        pip: The words of pip by backend, where they depend on the kind.
        seen: How its use by another program is seen: CPU time, NVML, the kernel's DRM; or not.
        default: Its turn in the map of who gave none; equal turns are taken together.
        hides: Variables that hide and renumber its devices, in the order in which they apply.
        reads: Other variables that its drivers read when they start.
        alone: What a process needs to have one of its devices only, beside those that hide.
        vendor: Of its devices on the PCI bus.
        alias: What PyTorch calls it.
    """

    maker: str
    noun: str
    example: str
    forms: tuple[str, ...]
    taken: str
    spellings: tuple[tuple[str, str, str], ...]
    backends: tuple[str, ...]
    pip: dict[str, str]
    seen: Literal["cpu", "nvml", "drm", ""]
    default: int
    hides: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    alone: tuple[tuple[str, str], ...] = ()
    vendor: int | None = None
    alias: str | None = None

    @property
    def cores(self) -> bool:
        """Return whether its devices are the host's own cores."""
        return self.seen == "cpu"

    @property
    def accelerators(self) -> bool:
        """Return whether all its devices are accelerators; a driver of OpenCL has others too."""
        return bool(self.maker)


_TORCH = "torch --index-url https://download.pytorch.org/whl/"
_CUDA = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_INDEX = "(?:0|[1-9][0-9]*)?"

KINDS: dict[Kind, Row] = {
    Kind.CUDA: Row(
        "NVIDIA", "GPU", "cuda0", ("", "index", "identity"), ".*",
        ((r"gpu([0-9]+)", "cuda{}", "gpu0 is the name in Theano's old back-end"),
         (r"/?(?:device:)?(?:xla_)?gpu:([0-9]+)", "cuda{}", "gpu:0 is TensorFlow's spelling"),
         (r"gpu|nvidia|/gpu", "cuda0", "an NVIDIA GPU is cuda and its index"),
         (r"([0-9]+)", "cuda{}", "a bare number names no kind")),
        ("cupy", "torch", "jax", "pygpu"), {"torch": f"{_TORCH}cu130", "jax": "jax[cuda13]"},
        "nvml", 0, hides=_CUDA[:1], reads=(*_CUDA[1:], "CUDA_LAUNCH_BLOCKING"),
        vendor=0x10DE, alias="cuda"),
    Kind.ROCM: Row(
        "AMD", "GPU", "rocm0", ("", "index"), _INDEX,
        ((r"(?:hip|amd|amdgpu|radeon)[: ]?([0-9]*)", "rocm{}", "a GPU of AMD is rocm"),),
        ("torch", "jax"), {"torch": f"{_TORCH}rocm7.2", "jax": "jax[rocm7-local]"},
        "drm", 1, hides=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), reads=_CUDA[:1],
        vendor=0x1002, alias="cuda"),
    Kind.XPU: Row(
        "Intel", "GPU", "xpu0", ("", "index"), _INDEX,
        ((r"(?:sycl|intel|level_zero)(?::gpu)?[: ]?([0-9]*)", "xpu{}", "a GPU of Intel is xpu"),),
        ("torch",), {"torch": f"{_TORCH}xpu"}, "drm", 1, hides=("ZE_AFFINITY_MASK",),
        vendor=0x8086, alias="xpu"),
    Kind.MPS: Row(
        "Apple", "GPU", "mps", ("",), "",
        ((r"(?:mps|metal|apple)[: ]?[0-9]*", "mps", "a Mac has one GPU, without index"),),
        ("torch",), {"torch": "torch"}, "", 1, alias="mps"),
    Kind.TPU: Row(
        "Google", "TPU", "tpu0", ("", "index"), _INDEX,
        ((r"xla:([0-9]+)", "tpu{}", "xla:0 is PyTorch/XLA's spelling"),),
        ("jax",), {"jax": "jax[tpu]"}, "", 1, hides=("TPU_VISIBLE_CHIPS",),
        alone=(("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"), ("TPU_PROCESS_BOUNDS", "1,1,1"))),
    Kind.OPENCL: Row(
        "", "OpenCL device", "opencl0:0", ("platform",), ".*",
        ((r"(?:opencl|ocl|cl)[: ]?([0-9]+)[:,. ]([0-9]+)", "opencl{}:{}", "platform:device"),
         (r"(?:opencl|ocl|cl):?([0-9]+)", "opencl{}:0", "OpenCL needs platform:device"),
         (r"opencl|ocl|cl", "opencl0:0", "OpenCL needs platform:device")),
        ("pyopencl", "pygpu"), {}, "drm", 2, reads=(*_CUDA, "POCL_AFFINITY")),
    Kind.CPU: Row("", "core", "cpu0", ("", "index"), "[0-9]*", (), ("numpy",), {}, "cpu", 3),
}  # fmt: skip
