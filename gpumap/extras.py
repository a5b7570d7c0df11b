"""The extras of this distribution, and the shell lines that install what they bring.

A line names libraries and the Python that runs gpumap. It never names gpumap: on a package index
that name is another project's, and `pip` alone may be another Python's.
"""

from __future__ import annotations

import os
import shlex
import sys

_X86_LINUX = 'sys_platform == "linux" and platform_machine == "x86_64"'  # what wheels are there for
_PYOPENCL = "pyopencl>=2024.1"
NVML = "nvidia-ml-py>=12.535"
_CUDA = ("ml-dtypes>=0.4", NVML)
# As pyproject.toml has them, without what only the tests need; a test holds the two equal.
EXTRAS: dict[str, tuple[str, ...]] = {
    "opencl": (_PYOPENCL,),
    "opencl-cpu": (_PYOPENCL, f"pocl-binary-distribution>=3; {_X86_LINUX}"),
    "opencl-intel": (
        _PYOPENCL,
        f"intel-opencl-rt>=2026; {_X86_LINUX}",
        f"intel-cmplr-lib-rt>=2026; {_X86_LINUX}",
    ),
    "cuda12": ("cupy-cuda12x[ctk]>=14", *_CUDA),
    "cuda13": ("cupy-cuda13x[ctk]>=14", *_CUDA),
    "torch": ("torch>=2.9", "ml-dtypes>=0.4", NVML),
    "jax": ("jax>=0.5", NVML),
    "mpi": ("mpi4py>=4",),
    "report": ("matplotlib>=3.8",),
}


def install(extra: str) -> str:
    """Return the shell line that installs what an extra brings on this machine."""
    parted = (requirement.partition(";") for requirement in EXTRAS[extra])
    return pip("install", *(name for name, _, marker in parted if not marker or _x86_linux()))


def pip(*words: str, python: str = "") -> str:
    """Return the shell line that calls pip with these words, of the Python that runs gpumap."""
    return shlex.join((python or sys.executable or "python3", "-m", "pip", *words))


def has_wheels(extra: str) -> bool:
    """Return whether the libraries of an extra have wheels for this machine."""
    return _x86_linux() or not any(";" in requirement for requirement in EXTRAS[extra])


def _x86_linux() -> bool:
    return sys.platform == "linux" and os.uname().machine == "x86_64"
