"""What to do about a device that no backend can drive: what needs the least comes first."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.extras import pip
from gpumap.kinds import KINDS, Kind
from gpumap.machine.topology import Tree, has_gpu, no_gpu
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.model import Probe

_BUILDS = {"cpu": "cores", "cu": "CUDA", "rocm": "ROCm", "xpu": "XPU"}  # of PyTorch's wheels
_OTHER = "map a device that `gpumap devices` lists"


def remedy(
    kind: Kind, probes: Sequence[Probe], root: Path = Path("/"), system: str = sys.platform
) -> str | None:
    """Return how to get a device of a kind; None where nothing is known to help.

    Args:
        kind: of the device that was requested.
        probes: of the backends that may drive it, by preference; none found a device of the kind.
        root: the folder with the system's files.
        system: the platform, as `sys` has it.
    """
    scripted = any(probe.name == "fake" for probe in probes)
    fixes = [probe.fix for probe in probes if probe.fix and probe.lack != "no-library"]
    ways = (
        _by_its_name(kind, probes, None if scripted else Tree(root)),
        next((fix for fix in fixes if pip("install") not in fix), None),  # a driver that is there
        None if scripted else _elsewhere(kind, Tree(root), system),
        next(iter(fixes), None),
        next(filter(None, (_rebuilt(kind, probe) for probe in probes)), None),
        next(filter(None, (_line(kind, probe) for probe in probes)), None),
        None if probes else _OTHER,
    )
    return next(filter(None, ways), None)


def hiding(kind: Kind, probes: Sequence[Probe], env: Mapping[str, str]) -> list[str]:
    """Return which variables hide devices of a kind from the libraries that were asked.

    Not of CUDA: its driver tells which entry hides what.
    """
    asked = any(probe.usable and probe.name != "fake" for probe in probes)
    texts = [f"{name}={cut(env[name])}" for name in kind.row.hides if name in env]
    if not asked or not texts or "identity" in kind.row.forms:
        return []
    return [f"{' and '.join(texts)}: what is left is counted anew"]


def _by_its_name(kind: Kind, probes: Sequence[Probe], tree: Tree | None) -> str | None:
    """Return the kind that is there instead and that PyTorch calls the same, as AMD's is cuda."""
    row = kind.row
    found = {device.kind for probe in probes for device in probe.devices}
    for other, its in KINDS.items():
        if other is kind or row.alias is None or its.alias != row.alias:
            continue
        alone = tree and row.vendor and no_gpu(tree, row.vendor)
        if other in found or (tree and its.vendor and alone and has_gpu(tree, its.vendor)):
            return f"PyTorch calls a GPU of {its.maker} {its.alias}, too: write {its.example}"
    return None


def _elsewhere(kind: Kind, tree: Tree, system: str) -> str | None:
    """Return where there is such a device, if this machine cannot have one."""
    if kind is Kind.MPS and system != "darwin":
        return f"{_OTHER}, or use a Mac"
    vendor = kind.row.vendor
    return f"{_OTHER}, or use a machine with a GPU" if vendor and no_gpu(tree, vendor) else None


def _rebuilt(kind: Kind, probe: Probe) -> str | None:
    """Return the line that makes a library drive a kind, which is installed for other kinds.

    Wheels of PyTorch have what they are built for in their version, as in 2.12.0+cpu.
    """
    words = kind.row.pip.get(probe.name)
    if words is None or not probe.usable:
        return None
    tag, built = _tag(kind, probe), (probe.version or "").partition("+")[2]
    if tag and built.startswith(tag):
        return None  # it is built for the kind, and sees no device
    again = ("--force-reinstall",) if tag else ()
    return pip("install", *again, *words.split())


def other_build(kind: Kind, probe: Probe) -> str | None:
    """Return that PyTorch is built for other kinds, if its version says so, as 2.13.0+cpu does."""
    tag, built = _tag(kind, probe), re.match("[a-z]*", (probe.version or "").partition("+")[2])
    if not tag or built is None or built[0] not in _BUILDS or built[0] == tag:
        return None
    return f"PyTorch {probe.version} is not built for {_BUILDS[tag]}"


def _tag(kind: Kind, probe: Probe) -> str:
    """Return what the versions of a library's wheels for a kind begin with behind their plus."""
    found = re.search("/whl/([a-z]*)", kind.row.pip.get(probe.name, ""))
    return found[1] if found else ""


def _line(kind: Kind, probe: Probe) -> str | None:
    """Return the line that installs the library of a backend for a kind."""
    if probe.lack == "no-library" and (words := kind.row.pip.get(probe.name)):
        return pip("install", *words.split())
    return probe.fix
