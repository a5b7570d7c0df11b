"""What NVIDIA's driver and NVML answer, asked in a child process: a driver may hang or crash.

The child is ``python -m gpumap.doctor.asked FD``.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpumap.backends.probe import end_with_parent, in_child
from gpumap.doctor.evidence import Gpu, Nvidia
from gpumap.machine.cuda import CudaDevice, CudaDriver
from gpumap.machine.nvml import NvmlUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.machine.nvml import NvmlGpu


def ask(env: Mapping[str, str], time_limit: float) -> Nvidia:
    """Return what the driver says, or why it says nothing."""
    child = in_child("gpumap.doctor.asked", (), env, time_limit)
    if child.code is None:
        return Nvidia(silent=f"it did not answer within {time_limit:g} s")
    try:
        return _read(json.loads(child.answer))
    except (ValueError, KeyError, TypeError):
        return Nvidia(silent=f"it ended the process that asked (exit {child.code})")


def _read(tree: dict[str, Any]) -> Nvidia:
    driver, gpus = tree["driver"], tree["gpus"]
    return Nvidia(
        driver and CudaDriver(**{**driver, "devices": tuple(map(_device, driver["devices"]))}),
        None if gpus is None else tuple(map(_gpu, gpus)),
        tree["nvml"],
    )


def _device(fields: dict[str, Any]) -> CudaDevice:
    return CudaDevice(**fields)


def _gpu(fields: dict[str, Any]) -> Gpu:
    lists = {key: tuple(fields[key]) for key in ("instances", "processes")}
    return Gpu(**{**fields, **lists})


def _answer() -> dict[str, Any]:
    """Ask, in this process."""
    from gpumap.machine.cuda import driver
    from gpumap.machine.nvml import gpus

    found = driver()
    answer: dict[str, Any] = {"driver": found and asdict(found), "gpus": None, "nvml": None}
    try:
        answer["gpus"] = [asdict(gpu) for gpu in _gpus(gpus())]
    except NvmlUnavailable as error:
        answer["nvml"] = error.reason
    return answer


def _gpus(known: tuple[NvmlGpu, ...]) -> list[Gpu]:
    """Return each GPU with who else is on it."""
    from gpumap.machine.gpu_state import Gpus
    from gpumap.machine.others import name_of
    from gpumap.model import Device, DeviceRef, Kind

    refs = [DeviceRef(Kind.CUDA, gpu.index) for gpu in known]
    devices = [
        Device(str(ref), Kind.CUDA, ref, "", "nvml", gpu.pci, gpu.uuid)
        for gpu, ref in zip(known, refs, strict=True)
    ]
    with Gpus(devices) as opened:
        uses = list(opened.uses())
    return [
        Gpu(
            gpu.index,
            gpu.pci,
            gpu.uuid,
            tuple(part.uuid for part in gpu.instances if part.uuid),
            gpu.mig,
            use.busy,
            tuple(f"pid {one.pid} {name_of(one.pid)}".strip() for one in use.processes or ()),
        )
        for gpu, use in zip(known, uses, strict=True)
    ]


def _main(descriptor: int) -> None:
    """Be the child; end when the parent ends."""
    end_with_parent()
    answer = json.dumps(_answer())
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
