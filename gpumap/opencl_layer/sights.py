"""Whether a running program's OpenCL calls are counted, and if not, what hides them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from struct import iter_unpack
from typing import Literal

from gpumap.opencl_layer.build import FOLDER, PREFIX

Sight = Literal[
    "counted", "no-opencl", "no-call",
    "old-loader", "no-loader", "privileges", "environment", "container", "not-loaded",
    "unreadable", "gone",
]  # fmt: skip
# What is known of a program that left no file: in these it used no OpenCL. In all others but
# "counted" its use of a device cannot be told.
UNUSED: frozenset[Sight] = frozenset({"no-opencl", "no-call"})
MEANING: dict[Sight, str] = {
    "counted": "its OpenCL calls are counted",
    "no-opencl": "it has loaded no OpenCL library",
    "no-call": "it has loaded OpenCL's loader, and no driver",
    "old-loader": "its OpenCL loader knows no layers (ocl-icd before 2.3)",
    "no-loader": "it uses an OpenCL driver without a loader that knows layers",
    "privileges": "it runs with more rights than its user",
    "environment": "it was started without gpumap's variables",
    "container": "it runs in another container",
    "not-loaded": "its OpenCL loader has not loaded the layer",
    "unreadable": "the system does not show what it has loaded",
    "gone": "it ended before it was looked at",
}
_LOADER = re.compile(r"/libOpenCL[^/]*\.so[^/]*$")
_LAYER = re.compile(rf"/{PREFIX}[^/]*$")
_DRIVER = re.compile(
    r"/lib(pocl-|pocl\.|intelocl|igdrcl|nvidia-opencl|amdocl|MesaOpenCL|RusticlOpenCL|mali"
    r"|oclgrind-rt)[^/]*$"
)
_EXECUTABLE = re.compile(r"\S+ ..x. .*/")
_ENOUGH = 8 * 2**20  # bytes of a loader: the largest known has 2 MiB
_AT_SECURE = 23  # a key of the auxiliary vector


def sight(pid: int, folder: Path, proc: Path = Path("/proc")) -> Sight:
    """Return whether a process is counted into `folder`, as it is at this moment.

    A loader loads drivers before layers, so ask again before the answer is believed; a file of the
    process in the folder says more than this.
    """
    place = proc / str(pid)
    try:
        lines = (place / "maps").read_text(errors="replace").splitlines()
        # the files of executable pages (proc_pid_maps(5))
        mapped = {line[line.index("/") :] for line in lines if _EXECUTABLE.match(line)}
        return _told(place, proc / "self", folder, mapped)
    except PermissionError:
        return "unreadable"
    except OSError:  # ProcessLookupError, too: it ended while it was read
        return "gone"


def _told(place: Path, own: Path, folder: Path, mapped: set[str]) -> Sight:
    """Return what the files of which a process has executable pages tell, with its variables."""
    loaders = [path for path in mapped if _LOADER.search(path)]
    drivers = any(_DRIVER.search(path) for path in mapped)
    layer = any(_LAYER.search(path) for path in mapped)
    if not loaders and not drivers and not layer:
        return "no-opencl"
    variables = (place / "environ").read_bytes().split(b"\0")
    aux = (place / "auxv").read_bytes()
    pairs = iter_unpack("@LL", aux[: len(aux) // 16 * 16])
    hides: dict[Sight, bool] = {  # the first that holds
        "old-loader": any(not _knows_layers(f"{place}/root{path}") for path in loaders),
        "privileges": any(key == _AT_SECURE and value for key, value in pairs),
        "environment": f"{FOLDER}={folder}".encode() not in variables,
        "counted": layer,
        "container": (place / "ns/mnt").readlink() != (own / "ns/mnt").readlink(),
        "no-loader": not loaders,
        "not-loaded": drivers,
    }
    return next((code for code, holds in hides.items() if holds), "no-call")


@lru_cache(maxsize=64)
def _knows_layers(path: str) -> bool:
    """Return whether a loader has the name of the variable in it."""
    try:
        with Path(path).open("rb") as file:
            return b"OPENCL_LAYERS" in file.read(_ENOUGH)
    except OSError:
        return False
