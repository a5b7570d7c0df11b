"""`python3 -m benchmarks.gpu.seen LIBRARY...`: the GPUs that libraries themselves show a process.

gpumap has no part in it: it is what gpumap's answers are compared with. It prints one line of JSON:
the variables of the process, and for each library its GPUs, or why it shows none.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLES = ("GPUMAP_NAME", "CUDA_VISIBLE_DEVICES")
_REASON = 200  # characters of what a library says


class NoGpuError(Exception):
    """A library shows no GPU, and why."""


def main() -> int:
    """Print what the libraries show."""
    found: dict[str, Any] = {name: os.environ.get(name) for name in VARIABLES}
    found |= {name: shown(name) for name in sys.argv[1:]}
    print(json.dumps(found), flush=True)
    return 0


def shown(library: str) -> dict[str, Any]:
    """Return the GPUs that a library shows, each with its UUID where it tells one; or why none."""
    if find_spec(library) is None:
        return {"gpus": [], "why": "not installed"}
    try:
        gpus = list(LIBRARIES[library]())
    except Exception as error:  # noqa: BLE001 - whatever a library raises
        why = " ".join(f"{error or type(error).__name__}".split())[:_REASON]
        return {"gpus": [], "why": why}
    return {"gpus": gpus, "why": "" if gpus else "it shows no GPU"}


def _cupy() -> Iterator[dict[str, Any]]:
    import cupy

    runtime = cupy.cuda.runtime
    for ordinal in range(runtime.getDeviceCount()):
        about = runtime.getDeviceProperties(ordinal)
        yield {"name": about["name"].decode(), "uuid": f"GPU-{UUID(bytes=about['uuid'])}"}


def _torch() -> Iterator[dict[str, Any]]:
    import torch

    count = torch.cuda.device_count()
    if not count and torch.version.cuda is None:
        raise NoGpuError(f"PyTorch {torch.__version__} is not built for CUDA")
    for ordinal in range(count):
        about = torch.cuda.get_device_properties(ordinal)
        yield {"name": about.name, "uuid": f"GPU-{about.uuid}"}


def _jax() -> Iterator[dict[str, Any]]:
    import jax

    for device in jax.devices("gpu"):  # it raises where there is none
        yield {"name": device.device_kind, "uuid": None}


def _pyopencl() -> Iterator[dict[str, Any]]:
    import pyopencl as cl

    for platform in cl.get_platforms():
        for device in platform.get_devices(cl.device_type.GPU):
            yield {"name": device.name, "uuid": None}


LIBRARIES: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "cupy": _cupy, "torch": _torch, "jax": _jax, "pyopencl": _pyopencl,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
