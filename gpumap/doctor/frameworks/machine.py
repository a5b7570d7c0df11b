"""Facts of this machine that decide whether a framework finds a GPU, from its own files.

What drivers answer is asked elsewhere, in child processes; here it is put into words of facts.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from gpumap.backends.probe import run_child
from gpumap.doctor.frameworks.facts import tables
from gpumap.machine.cuda import version_text
from gpumap.machine.fingerprint import VALUE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.doctor.evidence import Nvidia
    from gpumap.machine.tree import Tree

# Variables that decide what a framework sees; their values hold no secrets.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_OVERRIDE_GFX_VERSION", "LD_LIBRARY_PATH",
    "JAX_PLATFORMS", "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE",
)  # fmt: skip
_DISPLAY = "0x03"  # the class of GPUs on the PCI bus
_PCI = "sys/bus/pci/devices"
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_CONTAINERS = (".dockerenv", "run/.containerenv", ".singularity.d")
_GROUPS = ("render", "video")


def facts(tree: Tree, env: Mapping[str, str], denied: Iterable[str]) -> dict[str, Any]:
    """Return what the machine's files and the environment say."""
    cards = _cards(tree)
    module = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", tree.text("proc/driver/nvidia/version") or "")
    release = tree.text("proc/sys/kernel/osrelease") or ""
    loaded = tree.text("proc/driver/nvidia/version") is not None
    wsl = "microsoft" in release.lower()
    files = [n for n in tree.names("dev") if re.match(r"nvidia(\d+|ctl)$|kfd$|dxg$", n)]
    scheduler = next((word for name, word in tables()["schedulers"].items() if env.get(name)), None)
    return {
        "env": {name: env[name][:VALUE_MAX] for name in VARIABLES if name in env},
        "pci_gpus": [p for p, v, _ in cards if v != "intel"] if tree.names(_PCI) else None,
        "vendor": next((v for _, v, _ in cards if v in ("nvidia", "amd")), None),
        "loaded_driver": next(
            (d for _, v, d in cards if v == "nvidia" and d in ("nouveau", "nova", "nvidiafb")), None
        ),
        "driver_loaded": loaded or (wsl and "dxg" in files),
        "kernel_module_version": module[1] if module else None,
        "secure_boot": _secure_boot(tree) if not loaded else None,
        "container": _container(tree),
        "device_files": files,
        "wsl": wsl,
        "os": f"linux {release}",
        "scheduler": scheduler,
        "denied": list(denied),
        "groups": _groups() if any(v == "amd" for _, v, _ in cards) else None,
    }


def _cards(tree: Tree) -> list[tuple[str, str, str]]:
    """Return address, vendor and driver of each GPU on the PCI bus."""
    found = []
    for pci in sorted(tree.names(_PCI)):
        if (tree.text(f"{_PCI}/{pci}/class") or "").startswith(_DISPLAY):
            vendor = tables()["vendors"].get((tree.text(f"{_PCI}/{pci}/vendor") or "").strip())
            driver = (tree.root / _PCI / pci / "driver").resolve().name
            found.append((pci, vendor, driver) if vendor else (pci, "intel", driver))
    return found


def _secure_boot(tree: Tree) -> bool | None:
    """Return whether Secure Boot is on: the fifth byte of its variable; None without one."""
    try:
        with (tree.root / _SECURE_BOOT).open("rb") as file:
            return file.read(5)[4:] == b"\1"
    except OSError:
        return None


def _container(tree: Tree) -> bool:
    marks = any((tree.root / name).exists() for name in _CONTAINERS)
    return marks or bool(re.search(r"docker|kubepods|libpod|lxc", tree.text("proc/1/cgroup") or ""))


def _groups() -> list[str]:
    """Return those of ROCm's groups that this process is in."""
    import grp

    mine = set(os.getgroups())
    found = []
    for name in _GROUPS:
        try:
            if os.geteuid() == 0 or grp.getgrnam(name).gr_gid in mine:
                found.append(name)
        except KeyError:
            continue
    return found


def of_smi(env: Mapping[str, str], limit: float) -> dict[str, Any]:
    """Return what nvidia-smi says of the first device, or prints in its stead."""
    names = tables()["smi"]
    query = f"--query-gpu={','.join(names)}"
    line = f'exec nvidia-smi {query} --format=csv,noheader,nounits >"/dev/fd/$1" 2>&1'
    child = run_child(("/bin/sh", "-c", line, "sh"), env, limit)
    if child.code in (_NOT_FOUND, None):
        return {"nvidia_smi": "no answer"} if child.code is None else {}
    rows = [[part.strip() for part in row.split(",")] for row in child.answer.splitlines()]
    if child.code or not rows or any(len(row) < len(names) for row in rows):
        return {"nvidia_smi": child.answer[:VALUE_MAX]}
    pairs = zip(names.values(), rows[0], strict=False)
    first = {k: int(v) if k.startswith("memory") and v.isdecimal() else v for k, v in pairs}
    gpus = {"gpu": ", ".join(row[0] for row in rows), "gpu_count": len(rows)}
    return first | gpus | {"mig": first["mig"] == "Enabled"}


def of_driver(nvidia: Nvidia) -> dict[str, Any]:
    """Return what NVIDIA's driver and NVML answered, in the words of facts."""
    found: dict[str, Any] = {}
    if nvidia.driver is not None and nvidia.driver.version:
        found["driver_cuda"] = version_text(nvidia.driver.version).partition(" ")[2]
        found["cuinit"] = tables()["cuinit"].get(str(nvidia.driver.status))
        if not nvidia.driver.status:
            found["gpu"] = ", ".join(each.name for each in nvidia.driver.devices)
    if nvidia.gpus:
        found["gpu_count"] = sum(len(gpu.instances) or 1 for gpu in nvidia.gpus)
        found["mig"] = any(gpu.mig for gpu in nvidia.gpus)
    if nvidia.code is not None:
        found["nvml"] = tables()["nvml"].get(str(nvidia.code))
    return {key: value for key, value in found.items() if value not in (None, "")}


_NOT_FOUND = 127  # of a shell: there is no such program
