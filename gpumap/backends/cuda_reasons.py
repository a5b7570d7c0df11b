"""Why there is no CUDA device, and the fix: one set of texts for every backend.

A library tells a status and no more. The driver's own version, NVML and CUDA_VISIBLE_DEVICES say
which of several causes it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

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
    from gpumap.machine.cuda import CudaDriver
    from gpumap.machine.nvml import NvmlGpu

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
