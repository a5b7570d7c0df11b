"""Rules of why a framework uses no GPU: packages and builds, drivers, devices.

Every rule is tried on the facts; what is certain comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.doctor.facts import Match, dotted, matching, printed, row, signs, tables, version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.doctor.facts import Facts, Version

    Rule = Callable[[Facts], Iterator[Match]]

_HIDING = ("", "-1", "none", "void", "nodevfiles", "no_dev_files")
_HIP = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_DSO = r"kernel version ([\d.]+) does not match DSO version ([\d.]+)"
_FULL = 0.5  # of the memory: if others use as much, they are the cause
_PLUGIN = re.compile(r"jax-cuda\d*-(plugin|pjrt)$")
_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "cupy": "CuPy"}
_ERROR = "GM534"  # of the library's own


def driver(facts: Facts) -> Iterator[Match]:
    """Find a driver that is too old for the build, or that is of two versions."""
    if match := re.search(_DSO, facts.lines):
        what = f"the library is of driver {match[2]}, the kernel module of {match[1]}"
        other = facts.container and version(match[2])[:1] != version(match[1])[:1]
        yield Match("GM508" if other else "GM513", what, rank=-1)
    yield from _compatibility(facts)
    build, offers = facts.built_cuda, facts.driver_cuda
    needed = build or facts.cuda
    if not offers or not needed or facts.vendor == "amd":
        return
    # from CUDA 11 on a driver serves every release of its major version, but for PTX
    least = (needed[0],) if needed[0] >= 11 else needed[:2]  # noqa: PLR2004 - as above
    if offers[: len(least)] < least:
        what = f"the build needs CUDA {dotted(needed)}, the driver offers {dotted(offers)}"
        certain = bool(build) and facts.raw.get("is_available") is not True
        yield Match("GM507", what, certain and not facts.raw.get("container"), rank=0)


def _compatibility(facts: Facts) -> Iterator[Match]:
    """Find libraries for forward compatibility that a container loads over an older driver."""
    native, offers = facts.native_cuda, facts.number("driver_cuda")
    printed, image = facts.line("compat"), re.search(r"cuda:?(\d+\.\d+)", facts.text("image"))
    if mixed := facts.line("mismatch"):
        yield Match("GM508" if facts.container else "GM513", f"printed: {mixed}", rank=0)
    if image and native and native < version(image[1]) and facts.blind:
        what = f"the image has libraries of CUDA {image[1]}, the driver is of CUDA {dotted(native)}"
        yield Match("GM508", what, rank=0)
    if facts.container and native and offers > native:
        what = f"the driver comes with CUDA {dotted(native)}, and CUDA {dotted(offers)} is loaded"
        yield Match("GM508", what, certain=bool(printed), rank=-1)
    elif printed and facts.cuda and native and native < facts.cuda:
        what = f"the image wants CUDA {dotted(facts.cuda)}, the driver has {dotted(native)}"
        yield Match("GM507", what, rank=-1)
    elif printed:
        yield Match("GM508" if facts.container else "GM507", f"printed: {printed}", rank=0)


def hidden(facts: Facts) -> Iterator[Match]:
    """Find variables that hide every device, or name one that is not there."""
    text = facts.env.get("CUDA_VISIBLE_DEVICES")
    if facts.vendor == "amd" or any(name in facts.env for name in _HIP):
        yield from _hip(facts)
    elif text is not None and text.strip().lower() in _HIDING:
        shown = f'CUDA_VISIBLE_DEVICES="{text}" hides every device'
        yield Match("GM518", shown, certain=not facts.raw.get("scheduler"))
    elif text is not None:
        yield from _visible(facts, text)


def _visible(facts: Facts, text: str) -> Iterator[Match]:
    entries = [part.strip() for part in text.split(",") if part.strip()]
    numbers = [int(part) for part in entries if part.isdecimal() and part.isascii()]
    there = facts.count("gpu_count")
    texts = [p for p in entries if not re.match(r"\d+$|(GPU|MIG)-", p, re.IGNORECASE)]
    if any(part.upper().startswith("MIG-") for part in entries):
        yield Match("GM521", f"CUDA_VISIBLE_DEVICES names a MIG instance: {text}", rank=0)
    elif texts:
        yield Match("GM518", f'CUDA_VISIBLE_DEVICES: "{texts[0]}" names no device', certain=True)
    elif there is not None and numbers and max(numbers) >= there:
        what = f"CUDA_VISIBLE_DEVICES={text} ends at the first that is not there; {there} are"
        yield Match("GM518", what, certain=numbers[0] >= there, rank=0)
    elif len(set(numbers)) < len(numbers):
        yield Match("GM518", f"CUDA_VISIBLE_DEVICES={text} names a device twice", certain=True)
    elif numbers and there is None:
        failing = facts.prints("no-device") or facts.prints("GM519")
        what = f"CUDA_VISIBLE_DEVICES={text} may name a device that is not there"
        yield Match("GM518", what, rank=0 if failing else 2)
    elif numbers and facts.prints("GM519"):
        what = f"devices are numbered again behind CUDA_VISIBLE_DEVICES={text}"
        yield Match("GM519", what, rank=0)


def _hip(facts: Facts) -> Iterator[Match]:
    """Judge the variables of ROCm: HIP counts what ROCR left over, and reads CUDA's variable."""
    of_amd = ("CUDA_VISIBLE_DEVICES",) if facts.vendor == "amd" else ()
    read = (*_HIP, "GPU_DEVICE_ORDINAL", *of_amd)
    given = {name: facts.env[name] for name in read if name in facts.env}
    shown = ", ".join(f'{name}="{value}"' for name, value in given.items())
    there = facts.count("gpu_count")
    numbers = [int(n) for v in given.values() for n in v.split(",") if n.strip().isdecimal()]
    if any(value.strip().lower() in _HIDING for value in given.values()):
        yield Match("GM520", f"{shown} hides every device", certain=True)
    elif there is not None and any(number >= there for number in numbers):
        yield Match("GM520", f"{shown}, and there are {there} devices", certain=True)
    elif all(name in given for name in _HIP):
        what = f"{shown}: HIP counts anew what ROCR left, so one of two filters may hide all"
        yield Match("GM520", what, certain=any(numbers), rank=0)
    elif given:
        yield Match("GM520", shown, rank=1 if facts.prints("no-device") else 2)


def index(facts: Facts) -> Iterator[Match]:
    """Find a program that names a device by an index that does not exist."""
    used = re.search(r"(?:cuda|gpu|dml)?:?(\d+)$", facts.text("device_used", "device", "device_id"))
    there = facts.count("gpu_count")
    if used and there is not None and int(used[1]) >= there:
        yield Match("GM519", f"{used[0]} is used, and there are {there} devices", certain=True)
    elif used and int(used[1]) > 0:
        yield Match("GM519", f"{used[0]} is used, and it may not be there", rank=1)


def interpreter(facts: Facts) -> Iterator[Match]:
    """Find a library that is loaded from outside of the examined environment."""
    path, prefix = facts.text("module_path"), facts.text("prefix", "conda_prefix")
    if path and prefix and not path.startswith(prefix.rstrip("/") + "/"):
        certain = bool(facts.raw.get("packages_complete")) and bool(facts.raw.get("shadows"))
        yield Match("GM528", f"the library is loaded from {path}, outside of {prefix}", certain)


def memory(facts: Facts) -> Iterator[Match]:
    """Find memory that other processes use."""
    used, total = facts.count("memory_used_mib"), facts.count("memory_total_mib")
    if used is not None and total and used > _FULL * total:
        yield Match("GM529", f"{used} of {total} MiB are held by other processes", rank=0)


def missing_library(facts: Facts) -> Iterator[Match]:
    """Find CUDA and cuDNN of another release than the build loads."""
    name = facts.package[0]
    yield from _other_major(facts)
    known = row(tables()["loads"].get(facts.framework, {}), facts.release)
    runtime, cudnn = facts.number("runtime_cuda"), facts.number("cudnn")
    if known is None or facts.raw.get("torch_version_cuda"):
        return
    needed, needed_cudnn = version(known[0]), version(known[1])
    exact = 1 if needed[0] >= 11 else 2  # noqa: PLR2004 - CUDA 11 brought minor version compatibility
    loads = f"{name} {dotted(facts.release)} loads CUDA {known[0]} and cuDNN {known[1]}"
    if runtime and runtime[:exact] != needed[:exact]:
        yield Match("GM504", f"{loads}; CUDA {dotted(runtime)} is installed", rank=-1)
    elif cudnn and cudnn[:1] != needed_cudnn[:1]:
        yield Match("GM504", f"{loads}; cuDNN {dotted(cudnn)} is installed", rank=-1)


def _other_major(facts: Facts) -> Iterator[Match]:
    """Find CuPy's wheel for another major release of CUDA than is installed."""
    runtime = facts.number("runtime_cuda")
    if facts.framework == "cupy" and runtime and facts.built_cuda[:1] not in ((), runtime[:1]):
        what = f"{facts.package[0]} loads CUDA {dotted(facts.built_cuda)}"
        yield Match("GM504", f"{what}; CUDA {dotted(runtime)} is installed", rank=0)


def library_path(facts: Facts) -> Iterator[Match]:
    """Find folders that make the loader prefer other copies of CUDA's libraries."""
    every = re.split(r"[:;]", facts.env.get("LD_LIBRARY_PATH", ""))
    path = ":".join(p for p in every if re.search(r"cuda|cudnn|nccl|nvidia", p.lower()))
    wheels = any(name.startswith("nvidia-") for name in facts.packages)
    loading = facts.prints("GM505") or facts.prints("GM504") or facts.prints("GM506")
    bundled = facts.framework in ("torch", "jax", "tensorflow") or wheels
    if path and (loading or bundled):
        what = f"LD_LIBRARY_PATH is searched before the wheels' own folders: {path}"
        yield Match("GM505", what, certain=facts.prints("GM505"), rank=-1 if loading else 3)


def cudnn_mismatch(facts: Facts) -> Iterator[Match]:
    """Find a cuDNN that is older than the one that the framework was built with."""
    loaded, built = facts.number("cudnn"), facts.number("built_cudnn")
    if loaded and built and (loaded[0] != built[0] or loaded < built):
        what = f"cuDNN {dotted(loaded)} is loaded, and {dotted(built)} was built with"
        yield Match("GM506", what, certain=True)


def kernels(facts: Facts) -> Iterator[Match]:
    """Find a device whose architecture the build has no code for."""
    card, built = facts.capability, facts.architectures
    if facts.vendor == "amd" or facts.gfx:
        yield from _gfx(facts)
    elif card and built:
        yield from _listed_kernels(card, built, facts)
    elif card:
        yield from _by_release(card, facts)
    elif facts.prints("no-kernel"):
        yield Match("GM509", "the build has no kernel for this device; its capability is not known")


def _listed_kernels(card: Version, built: tuple[Version, ...], facts: Facts) -> Iterator[Match]:
    """Compare a device with the list of a build: code runs within one major, and PTX on newer."""
    listed = ", ".join(map(dotted, built))
    what = f"the device has capability {dotted(card)}, the build has code for {listed}"
    ptx = (version(each[8:]) for each in facts.strings("arch_list") if each[:8] == "compute_")
    newest = max((divmod(n[0], 10) for n in ptx if n), default=())
    compiled = newest and newest <= card and not facts.prints("no-kernel")  # at the first use
    if not any(b[0] == card[0] and b <= card for b in built):
        code = "GM509" if card > max(built) else "GM510"
        yield Match(code, what, certain=not compiled)


def _by_release(card: Version, facts: Facts) -> Iterator[Match]:
    """Compare a device with what CUDA's compiler of the build, and the project, support."""
    name = _NAMES.get(facts.framework, facts.framework)
    oldest = row(tables()["oldest"].get(facts.framework, {}), facts.release or (999,))
    known = row(tables()["cuda"], facts.cuda)
    failing = facts.prints("no-kernel") or facts.prints("GM510") or facts.prints("GM509")
    this, built = dotted(card), bool(facts.built_cuda)
    if known and not version(known[0]) <= card <= version(known[1]):
        cuda, span = dotted(facts.cuda), " to ".join(known)
        what = f"CUDA {cuda} knows devices of {span}, this is {this}"
        yield Match("GM509" if card > version(known[1]) else "GM510", what, certain=built)
    elif oldest and card < version(oldest):
        what = f"builds of {name} start at capability {oldest}, this device has {this}"
        yield Match("GM510", what, rank=0 if failing else 1)
    elif failing:
        code = "GM509" if card[0] >= 8 else "GM510"  # noqa: PLR2004 - what builds lack most
        yield Match(code, f"the build has no kernel for capability {this}")


def _gfx(facts: Facts) -> Iterator[Match]:
    """Find an AMD architecture that is not in the build."""
    listed = [entry.partition(":")[0] for entry in facts.strings("arch_list") if "gfx" in entry]
    if facts.gfx and listed and facts.gfx not in listed:
        what = f"the device is {facts.gfx}, the build has code for {', '.join(listed)}"
        yield Match("GM511", what, certain=True)
    elif facts.prints("no-kernel"):
        yield Match("GM511", f"the build has no code for {facts.gfx or facts.gpu}", rank=-1)
    elif facts.gfx and not listed and facts.gfx not in tables()["gfx"]["built"].split():
        yield Match("GM511", f"the projects' own builds have no code for {facts.gfx}", rank=2)


def conflicts(facts: Facts) -> Iterator[Match]:
    """Find packages that write the same files, of which one hides the other."""
    for group, patterns in tables()["conflicts"].items():
        names = [name for pattern in patterns.split() for name in matching(pattern, facts.packages)]
        if len(names) > 1:
            what = f"{' and '.join(names)} write the same files; the one installed last wins"
            mixed = group in ("cudnn", "tensorflow") and not _differs(facts, names)
            certain = not mixed and group != "cudnn"
            yield Match("GM512", what, certain, rank=-1, names=tuple(names))
    tags = {m[0] for name in ("torch", "torchvision", "torchaudio")
            if (m := re.search(r"\+\w+", facts.packages.get(name, "")))}  # fmt: skip
    if len(tags) > 1:
        what = f"torch and its companions are of different builds: {', '.join(sorted(tags))}"
        yield Match("GM512", what)


def _differs(facts: Facts, names: list[str]) -> bool:
    """Return whether one of the packages has no code for GPUs, or is of another version."""
    versions = {version(facts.packages[name])[:2] for name in names}
    plain = version(facts.packages.get("tensorflow")) < (2, 1)
    return plain or len(versions) > 1 or any("cpu" in name or "intel" in name for name in names)


def jax(facts: Facts) -> Iterator[Match]:
    """Find incompatible versions of JAX's parts, or a missing part."""
    parts = {n: version(v) for n, v in facts.packages.items() if _PLUGIN.match(n)}
    main, lib = (version(facts.packages.get(name)) for name in ("jax", "jaxlib"))
    least = facts.number("jaxlib_least")
    if main and lib and lib[:3] > main[:3]:
        yield Match("GM516", f"jaxlib {dotted(lib)} is newer than jax {dotted(main)}", certain=True)
    elif lib and lib < least:
        what = f"jax {dotted(main)} needs jaxlib {dotted(least)} or newer; this is {dotted(lib)}"
        yield Match("GM516", what, certain=True)
    base = lib or main
    for name, number in parts.items():
        if base and number and number != base:
            what = f"{name} {dotted(number)} does not fit jaxlib {dotted(base)}"
            yield Match("GM516", what, certain=number[:3] != base[:3] or bool(lib))
        elif re.search(r"older|newer", facts.packages.get("jax", "")):
            yield Match("GM516", f"{name} is {facts.packages[name]}, jax {facts.packages['jax']}")
    built = facts.packages.get("jaxlib", "+")  # a local version is that of old builds with CUDA
    if facts.framework == "jax" and not parts and not re.search("[+]|cuda", built):
        whole = bool(facts.raw.get("packages_complete"))
        what = f"jaxlib {built} is there, and no plugin for CUDA"
        yield Match("GM517", what, certain=whole, rank=0 if whole else 2)


# In the order of causes of one rank.
RULES: tuple[Rule, ...] = (
    driver, conflicts, jax,
    signs, missing_library, library_path, cudnn_mismatch, kernels,
    hidden, index, memory, interpreter, printed,
)  # fmt: skip


def causes(facts: Facts) -> tuple[Match, ...]:
    """Return the causes that the facts show, the most probable first, each code once.

    With one that is certain, others count only if they are certain too; an error of the
    library only if it cannot be imported, or nothing else is known.
    """
    every = [match for rule in RULES for match in rule(facts)]
    every.sort(key=lambda match: (not match.certain, match.rank))
    firsts = {match.code: match for match in reversed(every)}  # of a code the first one
    chosen = [m for m in every if m is firsts[m.code] and (m.certain or not every[0].certain)]
    return tuple(m for m in chosen if m.code != _ERROR or m.certain or len(chosen) == 1)
