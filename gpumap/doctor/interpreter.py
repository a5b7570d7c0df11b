"""Facts of the user's interpreter, of its packages and libraries, and of the machine.

Nothing of it is imported into gpumap. Metadata is read from the folders that the interpreter names;
a library may sleep, crash, print without end or fork: its process group ends at a time limit.
Drivers are queried elsewhere, in subprocesses; here their answers become facts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap import extras
from gpumap.backends.probe import run_child
from gpumap.doctor.facts import FRAMEWORKS, Facts, tables
from gpumap.errors import SourceError
from gpumap.machine import fingerprint
from gpumap.machine.cuda import version_text
from gpumap.machine.topology import pci_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import Distribution

    from gpumap.doctor.evidence import Health
    from gpumap.machine.nvml import GpuHealth
    from gpumap.machine.topology import Tree

STARTING = 5.0  # seconds for an interpreter to describe itself
_ANSWER = 1 << 18  # characters of an answer that are read
_PRINTED = 40  # lines of a library's output in the facts, at its beginning and at its end
_LEAST = re.compile(r"jaxlib\b.*>= *([\d.]+)")
_KINDS = {"text": str | None, "flag": bool | None, "list": list | None}
_QUIET = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
VARIABLES = (*fingerprint.VARIABLES, "LD_LIBRARY_PATH", "TF_FORCE_GPU_ALLOW_GROWTH")
_PCI = "sys/bus/pci/devices"
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_CONTAINERS = (".dockerenv", "run/.containerenv", ".singularity.d")
_GROUPS = ("render", "video")
_OTHERS = ("nouveau", "nova", "nvidiafb")  # drivers of NVIDIA's cards that are not NVIDIA's
# nvml.h, nvmlComputeMode_t, but the default.
_MODES = {1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}


class Package(NamedTuple):
    """An installed package, by its metadata."""

    name: str
    version: str
    folder: str
    requires: tuple[str, ...] = ()


class Interpreter(NamedTuple):
    """A Python of the user's, and what is installed for it."""

    path: str
    about: Mapping[str, Any]
    packages: Mapping[str, Package] = {}
    shadowed: tuple[str, ...] = ()  # installed twice, of which the first is used

    def commands(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the commands of fixes: its python, its pip, and what installs a framework."""
        python = shlex.quote(self.path)
        pip = installer = extras.pip(python=self.path)
        if self.about.get("managed"):  # by a distribution, whose pip installs nothing
            installer = f"{python} -m venv .venv && {extras.pip(python='.venv/bin/python')}"
        elif not self.about.get("has_pip"):
            pip = installer = f"{python} -m ensurepip && {pip}"
            if shutil.which("uv", path=env.get("PATH")):
                pip = installer = f"UV_PYTHON={python} uv pip"
        return {"python": python, "pip": pip, "installer": installer}


def interpreter(python: str, env: Mapping[str, str], cwd: str) -> Interpreter:
    """Return a Python and its packages.

    Raises:
        SourceError: there is none, or it does not answer as one.
    """
    path = shutil.which(python, path=env.get("PATH")) if os.sep not in python else python
    full = Path(cwd) / (path or python)
    try:
        child = run_child((str(full), "-I", "-c", _program(), "about"), env, STARTING)
    except (OSError, ValueError) as error:
        why = "it is a folder" if full.is_dir() else getattr(error, "strerror", None) or "no path"
        raise _unusable(python, env, why) from error
    about = _facts(child.answer)
    if child.code is None:
        raise _unusable(python, env, f"it did not answer within {STARTING:g} s")
    if "paths" not in about:
        raise _unusable(python, env, "it is no Python 3.7 or newer")
    paths = dict.fromkeys(path for path in about["paths"] or () if isinstance(path, str))
    every = list(installed(paths))
    packages: dict[str, Package] = {}
    for each in every:
        packages.setdefault(each.name, each)
    twice = (each.name for each in every if each.folder != packages[each.name].folder)
    return Interpreter(str(full), about, packages, tuple(twice))


def _unusable(python: str, env: Mapping[str, str], why: str) -> SourceError:
    other = shutil.which("python3", path=env.get("PATH"))
    fix = f"name another one: --python {other}" if other not in (None, python) else "install one"
    return SourceError(f"cannot use the interpreter {python}: {why}", fix)


def installed(paths: Iterable[str]) -> Iterator[Package]:
    """Yield the packages of folders by their metadata; the first of a name is imported."""
    for path in paths:
        with suppress(OSError, ValueError):
            for found in distributions(path=[path]):
                yield from _package(found, path)


def _package(found: Distribution, folder: str) -> Iterator[Package]:
    """Yield a package by its metadata, if that can be read and has a name.

    An interrupted pip leaves what is none any more: ``~orch-2.0.dist-info``.
    """
    with suppress(OSError, ValueError, KeyError):
        if found.name and not getattr(found, "_path", Path()).name.startswith("~"):
            name = re.sub(r"[-_.]+", "-", found.name).lower()
            yield Package(name, found.version or "", folder, tuple(found.requires or ()))


def frameworks(python: Interpreter) -> tuple[str, ...]:
    """Return the frameworks that are installed."""
    raw = {"packages": {each.name: each.version for each in python.packages.values()}}
    return tuple(name for name in FRAMEWORKS if Facts(raw, name).package[0])


def metadata(python: Interpreter, framework: str) -> dict[str, Any]:
    """Return the facts that packages' metadata holds."""
    names = {name for name in tables()["packages"][framework].split() if name in python.packages}
    required = {r for name in names for r in _required(python.packages[name].requires)}
    jax = python.packages["jax"].requires if "jax" in python.packages else ()
    return {
        "framework": framework,
        "packages": {each.name: each.version for each in python.packages.values()},
        "packages_complete": True,
        "python": python.about.get("python"),
        "prefix": python.about.get("prefix"),
        "shadows": [name for name in python.shadowed if name in names],
        "requires_missing": sorted(required - set(python.packages)),
        "jaxlib_least": next((m[1] for r in jax if (m := _LEAST.match(r))), None),
    }


def _required(lines: Iterable[str]) -> Iterator[str]:
    """Yield the wheels with CUDA's libraries that a package needs on Linux."""
    for line in lines:
        requirement, _, marker = line.partition(";")
        name = re.match(r"(nvidia|cuda)[\w.-]*", requirement.strip().lower())
        if name and not re.search(r"extra|win32|Windows|aarch64|Darwin", marker):
            yield re.sub(r"[-_.]+", "-", name[0])


def answers(
    python: Interpreter, names: Sequence[str], env: Mapping[str, str], limit: float
) -> Mapping[str, dict[str, Any]]:
    """Return the facts of each library, each queried in a subprocess of the interpreter."""
    with ThreadPoolExecutor(len(names)) as pool:
        every = pool.map(partial(_answer, python, env, limit), names)
        return dict(zip(names, every, strict=True))


def _answer(python: Interpreter, env: Mapping[str, str], limit: float, name: str) -> dict[str, Any]:
    command = (python.path, "-c", _program(), name)
    try:
        child = run_child(command, {**_QUIET, **env}, limit)
    except OSError as error:
        return {"ended": f"it could not be started: {error.strerror}"}
    facts = _facts(child.answer)
    lines = [line[:400] for line in child.errors.splitlines() if line.strip()]
    facts["stderr"] = lines[:_PRINTED] + lines[_PRINTED:][-_PRINTED:]
    if child.code is None:
        facts["ended"] = f"{name} did not answer within {limit:.0f} s"
    elif not facts.pop("done", False):
        how = f"signal {-child.code}" if child.code < 0 else f"exit {child.code}"
        facts["ended"] = f"{name} ended the process that asked ({how})"
    return facts


def _facts(answer: str) -> dict[str, Any]:
    """Return the facts of complete lines; those of unknown kind are ignored."""
    every = tables()["answers"].items()
    kinds = {key: _KINDS[kind] for kind, keys in every for key in keys.split()}
    result: dict[str, Any] = {}
    for line in answer[:_ANSWER].splitlines():
        with suppress(ValueError, RecursionError, AttributeError):
            facts = json.loads(line).items()
            result |= {key: it for key, it in facts if isinstance(it, kinds.get(key, ()))}
    return result


def _program() -> str:
    return files("gpumap.doctor").joinpath("interpreter_child.py").read_text(encoding="utf-8")


def facts(tree: Tree, env: Mapping[str, str], denied: Iterable[str]) -> dict[str, Any]:
    """Return the facts of the machine's files and the environment."""
    cards = _cards(tree)
    module = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", tree.text("proc/driver/nvidia/version") or "")
    release = tree.text("proc/sys/kernel/osrelease") or ""
    loaded = tree.text("proc/driver/nvidia/version") is not None
    wsl = "microsoft" in release.lower()
    files = [n for n in tree.names("dev") if re.match(r"nvidia(\d+|ctl)$|kfd$|dxg$", n)]
    scheduler = next((word for name, word in tables()["schedulers"].items() if env.get(name)), None)
    return {
        "env": {name: env[name][: fingerprint.VALUE_MAX] for name in VARIABLES if name in env},
        "pci_gpus": [p for p, v, _ in cards if v != "intel"] if tree.names(_PCI) else None,
        "vendor": next((v for _, v, _ in cards if v in ("nvidia", "amd")), None),
        "loaded_driver": next((d for _, v, d in cards if v == "nvidia" and d in _OTHERS), None),
        "driver_loaded": loaded or (wsl and "dxg" in files),
        "kernel_module_version": module[1] if module else None,
        "secure_boot": _secure_boot(tree) if not loaded else None,
        "container": any((tree.root / name).exists() for name in _CONTAINERS)
        or bool(re.search(r"docker|kubepods|libpod|lxc", tree.text("proc/1/cgroup") or "")),
        "device_files": files,
        "wsl": wsl,
        "os": f"linux {release}",
        "scheduler": scheduler,
        "denied": list(denied),
        "groups": _groups() if any(v == "amd" for _, v, _ in cards) else None,
    }


def _cards(tree: Tree) -> list[tuple[str, str, str]]:
    """Return address, vendor and driver of each GPU on the PCI bus."""
    vendors = tables()["vendors"]
    return [
        (
            card.address,
            vendors.get(f"{card.vendor or 0:#06x}", "intel"),
            (tree.root / _PCI / card.address / "driver").resolve().name,
        )
        for card in pci_devices(tree)
    ]


def _secure_boot(tree: Tree) -> bool | None:
    """Return whether Secure Boot is on: the fifth byte of its variable; None without one."""
    try:
        with (tree.root / _SECURE_BOOT).open("rb") as file:
            return file.read(5)[4:] == b"\1"
    except OSError:
        return None


def _groups() -> list[str]:
    """Return those of ROCm's groups that this process is in."""
    import grp

    mine, groups = os.getgroups(), []
    for name in _GROUPS:
        with suppress(KeyError):  # there is none of that name
            if os.geteuid() == 0 or grp.getgrnam(name).gr_gid in mine:
                groups.append(name)
    return groups


def _of_nvml(gpus: Sequence[GpuHealth]) -> dict[str, Any]:
    """Return the answers of NVML, of the first device where devices may differ."""
    first = gpus[0].gpu
    facts: dict[str, Any] = {
        "driver": first.driver,
        "gpu": ", ".join(each.gpu.name or "" for each in gpus),
        "gpu_count": sum(len(each.gpu.instances) or 1 for each in gpus),
        "mig": any(each.gpu.mig for each in gpus),
        "compute_mode": _MODES.get(gpus[0].facts.get("compute_mode", 0)),
    }
    if first.memory_total is not None and first.memory_free is not None:
        facts["memory_total_mib"] = first.memory_total >> 20
        facts["memory_used_mib"] = (first.memory_total - first.memory_free) >> 20
    return facts


def of_driver(nvidia: Health) -> dict[str, Any]:
    """Return the answers of NVIDIA's driver and NVML as facts."""
    result: dict[str, Any] = {}
    if nvidia.driver is not None and nvidia.driver.version:
        result["driver_cuda"] = version_text(nvidia.driver.version).partition(" ")[2]
        result["cuinit"] = tables()["cuinit"].get(str(nvidia.driver.status))
        if not nvidia.driver.status:
            result["gpu"] = ", ".join(each.name for each in nvidia.driver.devices)
    if nvidia.gpus:
        result |= _of_nvml(nvidia.gpus)
    if nvidia.code is not None:
        result["nvml"] = tables()["nvml"].get(str(nvidia.code))
    return {key: value for key, value in result.items() if value not in (None, "")}
