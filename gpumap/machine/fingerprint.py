"""What makes two reports comparable: the machine, its software, and the variables that steer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.machine.topology import Topology
    from gpumap.model import Device, Fingerprint

VALUE_MAX = 1000  # a longer value is an accident, and a report is not its place

# Names that decide placement or speed, and hold no secrets. Never a dump of the environment.
VARIABLES = (
    "CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_VISIBLE_DEVICES", "CUPY_TF32", "GOMP_CPU_AFFINITY", "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_NUM_CPU_DEVICES",
    "JAX_PLATFORMS", "KMP_AFFINITY", "LIBTPU_INIT_ARGS", "MKL_NUM_THREADS", "NCCL_ALGO",
    "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_PROTO", "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME", "NVIDIA_TF32_OVERRIDE", "NVIDIA_VISIBLE_DEVICES", "OCL_ICD_FILENAMES",
    "OCL_ICD_VENDORS", "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "OMP_THREAD_LIMIT",
    "ONEAPI_DEVICE_SELECTOR", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "POCL_AFFINITY",
    "POCL_DEVICES", "POCL_MAX_PTHREAD_COUNT", "PYTORCH_TUNABLEOP_ENABLED", "ROCR_VISIBLE_DEVICES",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS",
    "TPU_VISIBLE_CHIPS", "XLA_FLAGS", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE", "ZE_AFFINITY_MASK",
    "ZE_FLAT_DEVICE_HIERARCHY",
)  # fmt: skip


def fingerprint(
    topology: Topology, devices: tuple[Device, ...], libraries: Mapping[str, str]
) -> Fingerprint:
    """Return what identifies this machine and its software, with a hash over all of it.

    The order in which devices and libraries were found does not matter.
    """
    import platform

    from gpumap.model import Fingerprint, replace
    from gpumap.model.io import digest, plain

    bare = Fingerprint(
        hash="",
        cpu=topology.model,
        cores=len(topology.cpus),
        os=_system(platform.system(), platform.release()),
        python=platform.python_version(),
        libraries=dict(sorted(libraries.items())),
        devices=tuple(sorted(device.id for device in devices)),
        drivers={d.id: d.driver for d in sorted(devices, key=lambda d: d.id) if d.driver},
    )
    return replace(bare, hash=digest(plain(bare), "hash"))


def environment(env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that decide placement or speed; one that is not set is None."""
    return {name: env[name][:VALUE_MAX] if name in env else None for name in VARIABLES}


def _system(name: str, release: str) -> str:
    """Return "Linux 6.1": what comes behind the second number is a distribution's own."""
    numbers = release.partition("-")[0].split(".")[:2]
    return f"{name} {'.'.join(numbers)}".strip()


def blas() -> dict[str, str]:
    """Return the version of each BLAS that is loaded, and the processor it chose kernels for.

    NumPy's is among them: a report without a product is of the same machine as one with some.
    """
    import numpy  # noqa: F401, ICN001 - its BLAS is loaded with it, and not before
    from threadpoolctl import threadpool_info

    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    facts = {info["internal_api"]: str(info["version"]) for info in found}
    cores = {f"{i['internal_api']}_core": i["architecture"] for i in found if "architecture" in i}
    return facts | cores
