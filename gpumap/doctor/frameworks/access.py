"""Causes between the build and the device: driver, variables, containers, permissions, others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.doctor.frameworks.facts import dotted, line, prints, version
from gpumap.doctor.frameworks.found import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.doctor.frameworks.facts import Facts

_HIDING = ("", "-1", "none", "void", "nodevfiles", "no_dev_files")
_HIP = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_DSO = r"kernel version ([\d.]+) does not match DSO version ([\d.]+)"
_FULL = 0.5  # of the memory: so much of others' is the cause of what does not fit


def driver(facts: Facts) -> Iterator[Found]:
    """Find a driver that is too old for the build, or that is of two versions."""
    module, library = facts.number("kernel_module_version"), facts.number("library_version")
    if module and library and module[: len(library)] != library[: len(module)]:
        what = f"the kernel module is {dotted(module)}, the library {dotted(library)}"
        yield Found("GM513", what, certain=True)
    if found := re.search(_DSO, facts.lines):
        what = f"the library is of driver {found[2]}, the kernel module of {found[1]}"
        foreign = facts.container and version(found[2])[:1] != version(found[1])[:1]
        yield Found("GM508" if foreign else "GM513", what, rank=-1)
    yield from _compatibility(facts)
    build, offers = facts.built_cuda, facts.driver_cuda
    wanted = build or facts.cuda
    if not offers or not wanted or facts.vendor == "amd":
        return
    # from CUDA 11 on a driver serves every release of its major version, but for PTX
    least = (wanted[0],) if wanted[0] >= 11 else wanted[:2]  # noqa: PLR2004 - as above
    if offers[: len(least)] < least:
        what = f"the build needs CUDA {dotted(wanted)}, the driver offers {dotted(offers)}"
        certain = bool(build) and facts.raw.get("is_available") is not True
        yield Found("GM507", what, certain and not facts.raw.get("container"), rank=0)


def _compatibility(facts: Facts) -> Iterator[Found]:
    """Find libraries for forward compatibility that a container loads over an older driver."""
    native, offers = facts.native_cuda, facts.number("driver_cuda")
    printed, image = line(facts, "compat"), re.search(r"cuda:?(\d+\.\d+)", facts.text("image"))
    if mixed := line(facts, "mismatch"):
        yield Found("GM508" if facts.container else "GM513", f"printed: {mixed}", rank=0)
    if image and native and native < version(image[1]) and facts.blind:
        what = f"the image has libraries of CUDA {image[1]}, the driver is of CUDA {dotted(native)}"
        yield Found("GM508", what, rank=0)
    if facts.container and native and offers > native:
        what = f"the driver comes with CUDA {dotted(native)}, and CUDA {dotted(offers)} is loaded"
        yield Found("GM508", what, certain=bool(printed), rank=-1)
    elif printed and facts.cuda and native and native < facts.cuda:
        what = f"the image wants CUDA {dotted(facts.cuda)}, the driver has {dotted(native)}"
        yield Found("GM507", what, rank=-1)
    elif printed:
        yield Found("GM508" if facts.container else "GM507", f"printed: {printed}", rank=0)


def hidden(facts: Facts) -> Iterator[Found]:
    """Find variables that hide every device, or name one that is not there."""
    text = facts.visible
    if facts.vendor == "amd" or any(name in facts.env for name in _HIP):
        yield from _hip(facts)
    elif text is not None and text.strip().lower() in _HIDING:
        shown = f'CUDA_VISIBLE_DEVICES="{text}" hides every device'
        yield Found("GM518", shown, certain=not facts.raw.get("scheduler"))
    elif text is not None:
        yield from _named(facts, text)


def _named(facts: Facts, text: str) -> Iterator[Found]:
    entries = [part.strip() for part in text.split(",") if part.strip()]
    numbers = [int(part) for part in entries if part.isdecimal() and part.isascii()]
    there = facts.count("gpu_count")
    words = [p for p in entries if not re.match(r"\d+$|(GPU|MIG)-", p, re.IGNORECASE)]
    if any(part.upper().startswith("MIG-") for part in entries):
        yield Found("GM521", f"CUDA_VISIBLE_DEVICES names a MIG instance: {text}", rank=0)
    elif words:
        yield Found("GM518", f'CUDA_VISIBLE_DEVICES: "{words[0]}" names no device', certain=True)
    elif there is not None and numbers and max(numbers) >= there:
        what = f"CUDA_VISIBLE_DEVICES={text} ends at the first that is not there; {there} are"
        yield Found("GM518", what, certain=numbers[0] >= there, rank=0)
    elif len(set(numbers)) < len(numbers):
        yield Found("GM518", f"CUDA_VISIBLE_DEVICES={text} names a device twice", certain=True)
    elif numbers and there is None:
        failing = prints(facts, "no-device") or prints(facts, "GM519")
        what = f"CUDA_VISIBLE_DEVICES={text} may name a device that is not there"
        yield Found("GM518", what, rank=0 if failing else 2)
    elif numbers and prints(facts, "GM519"):
        what = f"devices are numbered again behind CUDA_VISIBLE_DEVICES={text}"
        yield Found("GM519", what, rank=0)


def _hip(facts: Facts) -> Iterator[Found]:
    """Judge the variables of ROCm: HIP counts what ROCR left over, and reads CUDA's variable."""
    given = {n: facts.env[n] for n in (*_HIP, "GPU_DEVICE_ORDINAL") if n in facts.env}
    if facts.visible is not None and facts.vendor == "amd":
        given["CUDA_VISIBLE_DEVICES"] = facts.visible
    shown = ", ".join(f'{name}="{value}"' for name, value in given.items())
    there = facts.count("gpu_count")
    numbers = [int(n) for v in given.values() for n in v.split(",") if n.strip().isdecimal()]
    if any(value.strip().lower() in _HIDING for value in given.values()):
        yield Found("GM520", f"{shown} hides every device", certain=True)
    elif there is not None and any(number >= there for number in numbers):
        yield Found("GM520", f"{shown}, and there are {there} devices", certain=True)
    elif all(name in given for name in _HIP):
        what = f"{shown}: HIP counts anew what ROCR left, so one of two filters may hide all"
        yield Found("GM520", what, certain=any(numbers), rank=0)
    elif given:
        yield Found("GM520", shown, rank=1 if prints(facts, "no-device") else 2)


def index(facts: Facts) -> Iterator[Found]:
    """Find a program that names a device by an index that does not exist."""
    used = re.search(r"(?:cuda|gpu|dml)?:?(\d+)$", facts.text("device_used", "device", "device_id"))
    there = facts.count("visible_count")
    there = facts.count("gpu_count") if there is None else there
    if used and there is not None and int(used[1]) >= there:
        yield Found("GM519", f"{used[0]} is used, and there are {there} devices", certain=True)
    elif used and int(used[1]) > 0:
        yield Found("GM519", f"{used[0]} is used, and it may not be there", rank=1)


def interpreter(facts: Facts) -> Iterator[Found]:
    """Find a library that is loaded from elsewhere than the environment that was looked at."""
    path, prefix = facts.text("module_path"), facts.text("prefix", "conda_prefix")
    if path and prefix and not path.startswith(prefix.rstrip("/") + "/"):
        certain = bool(facts.raw.get("packages_complete")) and bool(facts.raw.get("shadows"))
        yield Found("GM528", f"the library is loaded from {path}, outside of {prefix}", certain)


def memory(facts: Facts) -> Iterator[Found]:
    """Find memory that other processes hold."""
    used, total = facts.count("memory_used_mib"), facts.count("memory_total_mib")
    if used is not None and total and used > _FULL * total:
        yield Found("GM529", f"{used} of {total} MiB are held by other processes", rank=0)
