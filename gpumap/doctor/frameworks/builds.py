"""Causes in packages and builds: which kernels, libraries and versions a framework came with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap.doctor.frameworks.facts import dotted, matching, prints, row, tables, version
from gpumap.doctor.frameworks.found import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumap.doctor.frameworks.facts import Facts

_PLUGIN = re.compile(r"jax-cuda\d*-(plugin|pjrt)$")
_BEHIND = 6  # releases that jaxlib may be behind jax at most
_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "cupy": "CuPy"}


def python_without_build(facts: Facts) -> Iterator[Found]:
    """Find a Python that no GPU build of this release is for."""
    python, known = facts.number("python")[:2], facts.pythons()
    built = facts.built_cuda or any("cuda" in text for text in facts.packages.values())
    if known and not built and not version(known[0]) <= python <= version(known[1]):
        what = f"{facts.framework} {dotted(facts.release)} has builds for Python {known[0]} to"
        yield Found("GM502", f"{what} {known[1]}; this is {dotted(python)}", rank=0)
    elif python and prints(facts, "GM502"):
        yield Found("GM502", f"pip finds no release for Python {dotted(python)}", rank=0)
    elif facts.newest_python() and not built and facts.release[:2] == version(known[2])[:2]:
        what = f"{facts.framework} {known[2]} is the first release for Python {dotted(python)}"
        yield Found("GM502", f"{what}: not every installer has its GPU build", rank=0)


def missing_library(facts: Facts) -> Iterator[Found]:
    """Find CUDA and cuDNN of another release than the build loads."""
    name = facts.package[0]
    yield from _other_major(facts)
    known = row(tables()["loads"].get(facts.framework, {}), facts.release)
    runtime, cudnn = facts.number("runtime_cuda"), facts.number("cudnn")
    if known is None or facts.raw.get("torch_version_cuda"):
        return
    wanted, wanted_cudnn = version(known[0]), version(known[1])
    exact = 1 if wanted[0] >= 11 else 2  # noqa: PLR2004 - CUDA 11 brought minor version compatibility
    loads = f"{name} {dotted(facts.release)} loads CUDA {known[0]} and cuDNN {known[1]}"
    if runtime and runtime[:exact] != wanted[:exact]:
        yield Found("GM504", f"{loads}; CUDA {dotted(runtime)} is installed", rank=-1)
    elif cudnn and cudnn[:1] != wanted_cudnn[:1]:
        yield Found("GM504", f"{loads}; cuDNN {dotted(cudnn)} is installed", rank=-1)


def _other_major(facts: Facts) -> Iterator[Found]:
    """Find CuPy's wheel for another major release of CUDA than is installed."""
    runtime = facts.number("runtime_cuda")
    if facts.framework == "cupy" and runtime and facts.built_cuda[:1] not in ((), runtime[:1]):
        what = f"{facts.package[0]} loads CUDA {dotted(facts.built_cuda)}"
        yield Found("GM504", f"{what}; CUDA {dotted(runtime)} is installed", rank=0)


def library_path(facts: Facts) -> Iterator[Found]:
    """Find folders that make the loader prefer other copies of CUDA's libraries."""
    path = facts.path()
    if not path:
        return
    wheels = any(name.startswith("nvidia-") for name in facts.packages)
    loading = prints(facts, "GM505") or prints(facts, "GM504") or prints(facts, "GM506")
    own = facts.framework in ("torch", "jax", "tensorflow") or wheels
    if loading or own:
        what = f"LD_LIBRARY_PATH is searched before the wheels' own folders: {path}"
        yield Found("GM505", what, certain=prints(facts, "GM505"), rank=-1 if loading else 3)


def cudnn_mismatch(facts: Facts) -> Iterator[Found]:
    """Find a cuDNN that is older than the one that the framework was built with."""
    loaded, built = facts.number("cudnn"), facts.number("built_cudnn")
    if loaded and built and (loaded[0] != built[0] or loaded < built):
        what = f"cuDNN {dotted(loaded)} is loaded, and {dotted(built)} was built with"
        yield Found("GM506", what, certain=True)


def kernels(facts: Facts) -> Iterator[Found]:
    """Find a device whose architecture the build has no code for."""
    card, built = facts.capability, facts.architectures
    if facts.vendor == "amd" or facts.gfx:
        yield from _gfx(facts)
    elif card and built:
        yield from _listed_kernels(card, built, facts)
    elif card:
        yield from _by_release(card, facts)
    if facts.vendor != "amd" and not facts.gfx and not card and prints(facts, "no-kernel"):
        yield Found("GM509", "the build has no kernel for this device; its capability is not known")


def _listed_kernels(
    card: tuple[int, ...], built: tuple[tuple[int, ...], ...], facts: Facts
) -> Iterator[Found]:
    """Compare a device with the list of a build: code runs within one major, and PTX on newer."""
    listed = ", ".join(map(dotted, built))
    what = f"the device has capability {dotted(card)}, the build has code for {listed}"
    if any(b[0] == card[0] and b <= card for b in built):
        return
    ptx = [version(w.replace("compute_", "")) for w in facts.words("arch_list") if "compute_" in w]
    newest = max((divmod(n[0], 10) for n in ptx if n), default=())
    code = "GM509" if card > max(built) else "GM510"
    compiled = newest and newest <= card and not prints(facts, "no-kernel")  # at the first use
    yield Found(code, what, certain=not compiled)


def _by_release(card: tuple[int, ...], facts: Facts) -> Iterator[Found]:
    """Compare a device with what CUDA's compiler of the build, and the project, support."""
    name = _NAMES.get(facts.framework, facts.framework)
    least = facts.number("minimum_capability")
    oldest = row(tables()["oldest"].get(facts.framework, {}), facts.release or (999,))
    known = row(tables()["cuda"], facts.cuda)
    failing = prints(facts, "no-kernel") or prints(facts, "GM510") or prints(facts, "GM509")
    this, built = dotted(card), bool(facts.built_cuda)
    if least and card < least:
        what = f"the device has capability {this}, and {dotted(least)} is needed"
        yield Found("GM510", what, certain=True)
    elif known and not version(known[0]) <= card <= version(known[1]):
        what = (
            f"CUDA {dotted(facts.cuda)} knows devices of {known[0]} to {known[1]}, this is {this}"
        )
        yield Found("GM509" if card > version(known[1]) else "GM510", what, certain=built)
    elif oldest and card < version(oldest):
        what = f"builds of {name} start at capability {oldest}, this device has {this}"
        yield Found("GM510", what, rank=0 if failing else 1)
    elif failing:
        code = "GM509" if card[0] >= 8 else "GM510"  # noqa: PLR2004 - what builds lack most
        yield Found(code, f"the build has no kernel for capability {this}")


def _gfx(facts: Facts) -> Iterator[Found]:
    """Find an AMD architecture that is not in the build."""
    listed = [word.partition(":")[0] for word in facts.words("arch_list") if "gfx" in word]
    if facts.gfx and listed and facts.gfx not in listed:
        what = f"the device is {facts.gfx}, the build has code for {', '.join(listed)}"
        yield Found("GM511", what, certain=True)
    elif prints(facts, "no-kernel"):
        yield Found("GM511", f"the build has no code for {facts.gfx or facts.gpu}", rank=-1)
    elif facts.gfx and not listed and facts.gfx not in tables()["gfx"]["built"].split():
        yield Found("GM511", f"the projects' own builds have no code for {facts.gfx}", rank=2)


def conflicts(facts: Facts) -> Iterator[Found]:
    """Find packages that write the same files, of which one hides the other."""
    for group, patterns in tables()["conflicts"].items():
        names = [name for pattern in patterns.split() for name in matching(pattern, facts.packages)]
        if len(names) < 2:  # noqa: PLR2004 - of two
            continue
        what = f"{' and '.join(names)} write the same files; the one installed last wins"
        mixed = group in ("cudnn", "tensorflow") and not _differs(facts, names)
        certain = not mixed and group != "cudnn"
        yield Found("GM512", what, certain, rank=-1, names=tuple(names))
    tags = {m[0] for name in ("torch", "torchvision", "torchaudio")
            if (m := re.search(r"\+\w+", facts.packages.get(name, "")))}  # fmt: skip
    if len(tags) > 1:
        what = f"torch and its companions are of different builds: {', '.join(sorted(tags))}"
        yield Found("GM512", what)


def _differs(facts: Facts, names: list[str]) -> bool:
    """Return whether one of the packages has no code for GPUs, or is of another version."""
    versions = {version(facts.packages[name])[:2] for name in names}
    plain = version(facts.packages.get("tensorflow")) < (2, 1)
    return plain or len(versions) > 1 or any("cpu" in name or "intel" in name for name in names)


def jax(facts: Facts) -> Iterator[Found]:
    """Find versions of JAX's parts that do not belong together, or a part that is missing."""
    parts = {n: version(v) for n, v in facts.packages.items() if _PLUGIN.match(n)}
    own, lib = (version(facts.packages.get(name)) for name in ("jax", "jaxlib"))
    apart = lib[:2] != own[:2] or sum(own[2:3]) - sum(lib[2:3]) > _BEHIND
    least = facts.number("jaxlib_least")
    if own and lib and lib[:3] > own[:3]:
        yield Found("GM516", f"jaxlib {dotted(lib)} is newer than jax {dotted(own)}", certain=True)
    elif lib and lib < least:
        what = f"jax {dotted(own)} needs jaxlib {dotted(least)} or newer; this is {dotted(lib)}"
        yield Found("GM516", what, certain=True)
    elif not least and own and lib and apart:
        yield Found("GM516", f"jaxlib {dotted(lib)} is too old for jax {dotted(own)}", rank=0)
    base = lib or own
    for name, number in parts.items():
        if base and number and number != base:
            what = f"{name} {dotted(number)} does not fit jaxlib {dotted(base)}"
            yield Found("GM516", what, certain=number[:3] != base[:3] or bool(lib))
        elif re.search(r"older|newer", facts.packages.get("jax", "")):
            yield Found("GM516", f"{name} is {facts.packages[name]}, jax {facts.packages['jax']}")
    built = facts.packages.get("jaxlib", "+")  # a local version is that of old builds with CUDA
    if facts.framework == "jax" and not parts and not re.search("[+]|cuda", built):
        whole = bool(facts.raw.get("packages_complete"))
        what = f"jaxlib {built} is there, and no plugin for CUDA"
        yield Found("GM517", what, certain=whole, rank=0 if whole else 2)
