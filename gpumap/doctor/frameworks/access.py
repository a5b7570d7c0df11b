"""Causes between the build and the device: driver, variables, containers, permissions, others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.doctor.frameworks.facts import dotted, version
from gpumap.doctor.frameworks.found import Found, line, prints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.doctor.frameworks.facts import Facts

_RUN = re.compile(r"\b(docker|podman|nerdctl|singularity|apptainer|compose|kubectl)\b")
_GRANTS = re.compile(
    r"--gpus|--runtime[= ]nvidia|nvidia-docker|--nv\b|--rocm\b|--device|nvidia\.com/gpu"
    r"|capabilities:.{0,9}gpu"
)
_GRES = re.compile(
    r"--gres|--gpus|-G ?\d|--gpus-per|gpu[:=]\d|ngpus|num_gpus=[1-9.]|nvidia\.com/gpu"
)
_SUBMITS = re.compile(r"\b(srun|sbatch|salloc|qsub|bsub|ray)\b")
_HIDING = ("", "-1", "none", "void", "nodevfiles", "no_dev_files")
_HIP = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_FULL = 0.5  # of the memory: so much of others' is the cause of what does not fit


def driver(facts: Facts) -> Iterator[Found]:
    """Find a driver that is too old for the build, or that is of two versions."""
    module, library = facts.number("kernel_module_version"), facts.number("library_version")
    if module and library and module[: len(library)] != library[: len(module)]:
        what = f"the kernel module is {dotted(module)}, the library {dotted(library)}"
        yield Found("GM513", what, certain=True)
    if found := re.search(
        r"kernel version ([\d.]+) does not match DSO version ([\d.]+)", facts.lines
    ):
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


def not_loaded(facts: Facts) -> Iterator[Found]:
    """Find out why no driver answers."""
    silent = line(facts, "no-driver")
    smi = prints(facts, "GM514")
    if facts.raw.get("secure_boot") is True and (silent or smi or not facts.container):
        what = "Secure Boot is on, and no module of NVIDIA's is loaded: it may be unsigned"
        yield Found("GM514", what, certain=smi or bool(facts.text("loaded_driver")), rank=0)
    if loaded := facts.text("loaded_driver"):
        yield Found("GM514", f"{loaded} drives the GPU, not NVIDIA's module", certain=True)
    if facts.raw.get("driver_loaded") is False and facts.vendor in ("", "nvidia"):
        yield from _absent(facts)
    elif silent and facts.vendor in ("", "nvidia") and not facts.number("driver"):
        yield Found("GM514", f"printed: {silent}", rank=2)


def _absent(facts: Facts) -> Iterator[Found]:
    """Say that the machine has no driver: by its own files, so it is certain."""
    none = facts.raw.get("pci_gpus") == []
    if facts.wsl or facts.raw.get("scheduler") or (facts.container and not none):
        return
    if none:
        yield Found(
            "GM514", "no NVIDIA driver is loaded, and no GPU is on the PCI bus", certain=True
        )
    else:
        yield Found("GM514", "no NVIDIA driver is loaded (/proc/driver/nvidia)", certain=True)


def stale(facts: Facts) -> Iterator[Found]:
    """Find a driver whose state was lost, mostly by suspend."""
    if facts.raw.get("after_suspend") is True:
        what = "the machine was suspended; nvidia_uvm lost its state"
        yield Found("GM515", what, certain=prints(facts, "GM515"), rank=0)


def hidden(facts: Facts) -> Iterator[Found]:
    """Find variables that hide every device, or name one that is not there."""
    text = facts.visible
    if text is not None and re.search(r"after.{0,20}import", facts.text("set_in")):
        yield Found(
            "GM518", f"CUDA_VISIBLE_DEVICES is set {facts.text('set_in')}: too late", rank=0
        )
    if facts.vendor == "amd" or any(name in facts.env for name in _HIP):
        yield from _hip(facts)
    elif text is not None and text.strip().lower() in _HIDING:
        shown = f'CUDA_VISIBLE_DEVICES="{text}" hides every device'
        if facts.raw.get("scheduler"):
            yield Found("GM533", f"{shown}: the scheduler gave the job none", rank=0)
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
    elif there is not None and numbers and numbers[0] >= there:
        what = f"CUDA_VISIBLE_DEVICES={text}, and there are {there} devices"
        yield Found("GM518", what, certain=True)
    elif there is not None and numbers and max(numbers) >= there:
        what = f"CUDA_VISIBLE_DEVICES={text} ends at the first index that is not there"
        yield Found("GM518", what, rank=0)
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


def mig(facts: Facts) -> Iterator[Found]:
    """Find a card that is cut into instances, of which a process sees one."""
    cut = facts.raw.get("mig") is True or re.search(r"\bMIG\b|\d+g\.\d+gb", facts.gpu)
    if cut:
        what = "the card is cut into MIG instances; a process sees one, and by its UUID"
        yield Found("GM521", what, rank=0)


def permission(facts: Facts) -> Iterator[Found]:
    """Find device files that this user may not open."""
    if denied := facts.words("denied"):
        yield Found("GM522", f"this user may not open {', '.join(denied[:3])}", certain=True)
    elif facts.vendor == "amd" and "windows" not in facts.system and not facts.wsl:
        what = "/dev/kfd and /dev/dri belong to groups render and video: `groups` must list them"
        yield Found("GM522", what, rank=4)
    groups = facts.words("groups")
    missing = " and ".join(sorted({"render", "video"}.difference(groups)))
    if isinstance(facts.raw.get("groups"), list) and facts.vendor == "amd" and missing:
        what = f"the user is not in group {missing}, which owns /dev/kfd or /dev/dri"
        yield Found("GM522", what, rank=-1)


def container(facts: Facts) -> Iterator[Found]:
    """Find a container that was started without devices, or that lost them."""
    command = facts.text("run_command")
    visible = facts.env.get("NVIDIA_VISIBLE_DEVICES")
    runs = bool(_RUN.search(command))
    lost = prints(facts, "GM526")
    if lost:
        yield Found(
            "GM526", "NVML answers Unknown Error: the cgroup no longer allows the devices", rank=0
        )
    if facts.text("cgroup_devices"):
        what = f"the cgroup allows {facts.text('cgroup_devices')}"
        yield Found("GM526", what, certain=lost, rank=0)
    if visible is not None and visible.strip().lower() in ("", "none", "void"):
        yield Found("GM525", f'NVIDIA_VISIBLE_DEVICES="{visible}" gives the container none', rank=0)
    if runs and not _GRANTS.search(command):
        yield Found("GM525", f"it was started without a GPU option: {command}", rank=0)
    elif facts.container and facts.raw.get("device_files") == []:
        what = "there is no /dev/nvidia* and no /dev/kfd in this container"
        cards = facts.raw.get("pci_gpus")  # of the host: containers see its PCI bus
        if cards != []:
            yield Found("GM525", what, certain=bool(cards), rank=0)
    elif facts.container and not facts.wsl and facts.vendor in ("", "nvidia") and facts.blind:
        yield Found("GM525", "no driver is visible in the container", rank=1)


def wsl(facts: Facts) -> Iterator[Found]:
    """Find Linux on Windows whose driver is that of Windows."""
    if not facts.wsl:
        return
    named = re.search(r"named symbol not found|Error 500", facts.lines)
    if facts.raw.get("driver_loaded") is False:
        what = "no /dev/dxg, or no libcuda.so.1 of Windows' driver in /usr/lib/wsl/lib"
        yield Found("GM527", what, certain=True)
    else:
        failing = bool(named) or facts.blind or prints(facts, "GM527")
        what = "Linux runs on Windows: Windows' driver and Docker Desktop serve its GPU"
        yield Found("GM527", what, rank=0 if failing else 3)


def interpreter(facts: Facts) -> Iterator[Found]:
    """Find a library that is loaded from elsewhere than the environment that was looked at."""
    path, prefix = facts.text("module_path"), facts.text("prefix", "conda_prefix")
    if path and prefix and not path.startswith(prefix.rstrip("/") + "/"):
        certain = bool(facts.raw.get("packages_complete")) and bool(facts.raw.get("shadows"))
        yield Found("GM528", f"the library is loaded from {path}, outside of {prefix}", certain)
    pythons = {p for k, v in facts.raw.items() if re.search("interpreter|which_|executable|pip_", k)
               for p in re.findall(r"(/\S+?)/bin/(?:python|pip)", str(v))}  # fmt: skip
    if len(pythons) > 1:
        yield Found("GM528", f"there are several: {', '.join(sorted(pythons))}", rank=0)
    name = facts.package[0]
    if name and re.search(rf"No module named '?{re.escape(facts.framework)}\b", facts.lines):
        yield Found("GM528", f"{name} is installed, and this interpreter does not find it", rank=0)
    built = any("cuda" in text for text in facts.packages.values()) or "cudnn" in facts.packages
    conda = "conda" in facts.text("installer") or "py3" in facts.package[1]
    if conda and built:
        what = "the environment lists a GPU build that nothing speaks against: another one may run"
        yield Found("GM528", what, rank=4)


def memory(facts: Facts) -> Iterator[Found]:
    """Find memory that other processes hold."""
    used, total = facts.count("memory_used_mib"), facts.count("memory_total_mib")
    if (
        used is not None
        and total
        and used > _FULL * total
        and facts.raw.get("is_available") is not True
    ):
        yield Found("GM529", f"{used} of {total} MiB are held by other processes", rank=0)


def one_device(facts: Facts) -> Iterator[Found]:
    """Find several devices of which a program uses one, because it names no other."""
    there = facts.count("gpu_count")
    busy = facts.count("devices_used")
    if there is not None and there > 1:
        certain = busy == 1
        yield Found("GM530", f"there are {there} devices; a program uses the first by default",
                    certain, rank=1 if certain else 3)  # fmt: skip


def exclusive(facts: Facts) -> Iterator[Found]:
    """Find devices that one process alone may open."""
    mode = facts.text("compute_mode")
    if re.search("exclusive|prohibited", mode, re.IGNORECASE):
        busy = prints(facts, "GM532")
        yield Found(
            "GM532",
            f"the compute mode is {mode}: one process for each device",
            rank=-1 if busy else 0,
        )


def fabric(facts: Facts) -> Iterator[Found]:
    """Find an NVSwitch machine without its manager."""
    if re.search(
        r"not running|inactive|failed|in progress", facts.text("fabric_manager", "fabric")
    ):
        yield Found("GM531", f"fabric manager: {facts.text('fabric_manager', 'fabric')}", rank=0)


def scheduler(facts: Facts) -> Iterator[Found]:
    """Find a job that asked its scheduler for no GPU."""
    name = facts.text("scheduler")
    command = f"{facts.text('run_command')} {facts.text('job', 'job_script', 'request')}"
    silent = facts.blind or facts.raw.get("is_available") is False
    if _SUBMITS.search(command) and not _GRES.search(command):
        yield Found("GM533", f"the job asks for no GPU: {command.strip()}", rank=0)
    elif name and (
        silent or facts.raw.get("driver_loaded") is False or facts.count("visible_count") == 0
    ):
        yield Found("GM533", f"a job of {name} that sees no GPU", rank=0)
    elif name:
        yield Found("GM533", f"a job of {name}", rank=3)
    elif re.search(r"login node|no gres", str(dict(facts.raw)).lower()):
        yield Found("GM533", "this is a login node", rank=0)


def opencl(facts: Facts) -> Iterator[Found]:
    """Find OpenCL without a driver."""
    if (
        facts.count("platforms") == 0
        or facts.count("opencl_platforms") == 0
        or facts.raw.get("icd_files") == []
    ):
        yield Found(
            "GM524", "OpenCL has no platform: no driver is in /etc/OpenCL/vendors", certain=True
        )


def unusable(facts: Facts) -> Iterator[Found]:
    """Say what the library itself did in its child process: it ended no answer, or an error."""
    if how := facts.text("ended"):
        yield Found("GM535", how, certain=True, rank=5)
    if failed := facts.text("import_error"):
        yield Found("GM534", failed, certain="framework_version" not in facts.raw, rank=5)
