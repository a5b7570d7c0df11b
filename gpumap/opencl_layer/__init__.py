"""Count what any OpenCL program does, from inside it: kernels, bytes each way, waits, per device.

A layer in C (layer.c) is built with the system's compiler into gpumap's cache, and loaded into the
program by its own OpenCL loader (OPENCL_LAYERS). It counts into one mapped file per process, which
is whole also when the program crashes or is killed. To count the processes of a command:

    found = layer.environment(folder, env)    # variables to add, or a NoLayer: why not
    ...                                       # run it; now and then, for each process:
    how = sight(pid, folder)                  # a code: counted, or what hides it (MEANING)
    reading = layer.read(folder)              # during the run or after it

A process with a file is counted (`CountedProcess`): a device that it lists with no kernel, or does
not list, was not used, if `complete`. A process without a file used no OpenCL where its last sight
is in UNUSED. In every other case whether it used a device cannot be told: never "not used".

`Inside` does so for the devices of a map.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from struct import iter_unpack
from typing import TYPE_CHECKING, Literal, Self

from gpumap.errors import Diagnostic
from gpumap.model import Kind
from gpumap.opencl_layer.layer import FOLDER, PREFIX, NoLayer, environment, no_layer, read

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpumap.model import Device
    from gpumap.opencl_layer.layer import CountedDevice, CountedProcess, Counts


Sight = Literal[
    "counted", "no-opencl", "no-call",
    "old-loader", "no-loader", "privileges", "environment", "container", "not-loaded",
    "unreadable", "gone",
]  # fmt: skip
# What is known of a program that left no file: in these it used no OpenCL. In all others its use
# of a device cannot be told.
UNUSED: frozenset[Sight] = frozenset({"no-opencl", "no-call", "counted"})  # it is a fork
MEANING: dict[Sight, str] = {
    "counted": "its OpenCL calls are counted",
    "no-opencl": "it has loaded no OpenCL library",
    "no-call": "it has loaded OpenCL's loader, and no driver",
    "old-loader": "its OpenCL loader knows no layers (ocl-icd before 2.3)",
    "no-loader": "it uses an OpenCL driver without a loader that knows layers",
    "privileges": "it runs with other rights than gpumap (setuid, capabilities, another user)",
    "environment": "it was started without gpumap's variables",
    "container": "it runs in another container",
    "not-loaded": "its OpenCL loader has not loaded the layer",
    "unreadable": "the system does not show what it has loaded",
    "gone": "it ended before gpumap looked at it",
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
        return _sight(place, proc / "self", folder, mapped) if lines else "gone"
    except PermissionError:
        with suppress(OSError):
            return "unreadable" if place.stat().st_uid == os.geteuid() else "privileges"
    except OSError:  # ProcessLookupError, too: it ended while it was read
        pass
    return "gone"


def _sight(place: Path, own: Path, folder: Path, mapped: set[str]) -> Sight:
    """Return what the files of which a process has executable pages tell, with its variables."""
    loaders = [path for path in mapped if _LOADER.search(path)]
    drivers = any(_DRIVER.search(path) for path in mapped)
    layer = any(_LAYER.search(path) for path in mapped)
    variables = (place / "environ").read_bytes().split(b"\0")
    aux = (place / "auxv").read_bytes()
    if not any(aux):  # in the middle of an exec: its variables are not there yet
        return "gone"
    pairs = iter_unpack("@LL", aux[: len(aux) // 16 * 16])
    hides: dict[Sight, bool] = {  # the first that holds
        "old-loader": any(not _knows_layers(f"{place}/root{path}") for path in loaders),
        "privileges": any(key == _AT_SECURE and value for key, value in pairs),
        "environment": f"{FOLDER}={folder}".encode() not in variables,
        "counted": layer,
        "container": (place / "ns/mnt").readlink() != (own / "ns/mnt").readlink(),
        "no-opencl": not loaders and not drivers,  # and what it loads later is counted
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


_EVERY = 1.0  # seconds between two sights of a process, once it has loaded its libraries
_OFTEN = 10  # sights before that, one at each look: a short program loads them late in its life
_NANO = 1e-9
_PREFIX = "gpumap-counts-"  # of folders
_OLD = 60.0  # seconds: a younger one may not be locked yet
_TMPDIR = "let TMPDIR name a folder that you can write to"


def _locked(folder: str | Path) -> int | None:
    """Return a descriptor that locks a folder for as long as it is open; None: another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sweep(place: Path) -> None:
    """Remove the folders of runs that were killed: what they had locked is not locked any more."""
    for path in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            state = path.lstat()
            if state.st_uid != os.geteuid() or time.time() - state.st_mtime < _OLD:
                continue
            if (lock := _locked(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


class Inside:
    """A layer for one run of a program; as a context it has a folder for the counts."""

    def __init__(self, devices: Sequence[Device], *, times: bool) -> None:
        """Prepare for the OpenCL devices of a map."""
        self.refused: NoLayer | None = None
        self._devices = tuple(d for d in devices if d.kind is Kind.OPENCL)
        self._times = times
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # a lone map of cores has none
        self._lock: int | None = None
        self._sights: dict[int, tuple[int, float, Sight]] = {}  # how many, the last one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the folder."""
        if self._folder:
            self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return what to add to the program's environment; nothing where there is no layer."""
        if not self._devices:
            return {}
        try:
            _sweep(Path(tempfile.gettempdir()))
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
            self._lock = _locked(self._folder.name)
        except OSError as error:
            self.refused = no_layer("folder", f"no place for the counts: {error.strerror}", _TMPDIR)
            return {}
        found = environment(Path(self._folder.name), env, times=self._times)
        if isinstance(found, NoLayer):
            self.refused = found
            return {}
        return found

    def look(self, processes: Collection[int]) -> None:
        """Look at each process: whether its calls are counted."""
        if not self._folder or self.refused:
            return
        now = time.monotonic()
        for pid in processes:
            many, last, how = self._sights.get(pid, (0, now, "gone"))
            if how != "counted" and (many < _OFTEN or now - last >= _EVERY):
                seen = sight(pid, Path(self._folder.name))
                self._sights[pid] = many + 1, now, how if seen == "gone" else seen

    def counted(
        self, *, blind: bool = False
    ) -> tuple[dict[str, dict[str, float]], bool, tuple[Diagnostic, ...]]:
        """Return what was counted of all processes; `blind`: some may have run unseen.

        That is by the device's id kernels, bytes_to_device, bytes_to_host, waits, and with times
        computing and copying, in seconds; whether no process ran without the layer, and each device
        is known; and what could not be counted, and why.
        """
        if self.refused:
            return {}, False, (_note(self.refused.message, self.refused.hint),)
        if not self._folder:
            return {}, False, ()
        found = read(Path(self._folder.name))
        refused = (each._replace(severity="warning") for each in found.refused)
        counted = {process.pid for process in found.processes}
        hows = {how for pid, (*_, how) in self._sights.items() if pid not in counted} - UNUSED
        notes = [*refused, *(_missed(how) for how in sorted(hows - {"gone"}))]
        sums: dict[str, Counter[str]] = {}
        complete = not notes
        for process in found.processes:
            complete &= self._add(process, sums) and process.complete
        used = {id_ for id_, sum_ in sums.items() if sum_["kernels"]}
        if complete and blind and {device.id for device in self._devices} - used:
            notes, complete = [_missed("gone")], False
        return {id_: dict(sum_) for id_, sum_ in sums.items()}, complete, tuple(notes)

    def _add(self, process: CountedProcess, sums: dict[str, Counter[str]]) -> bool:
        """Add what a process did; return whether each device that it used has its place."""
        placed = True
        for each in process.devices:
            like = [device for device in self._devices if _same(device, each)]
            ours = [device for device in like if _part(device) == each.part]
            if len(ours) == 1:
                sums.setdefault(ours[0].id, Counter()).update(_summed(each.counts, self._times))
            else:
                placed &= not (like and any(each.counts))
        return placed


def _missed(how: Sight) -> Diagnostic:
    return _note(f"OpenCL calls of a process may be missing: {MEANING[how]}")


def _note(message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("opencl-layer", message, hint=hint, severity="warning")


def _same(device: Device, other: CountedDevice) -> bool:
    """Return whether a program's device, or the whole that it is a part of, is a map's."""
    if device.pci and other.pci:
        return device.pci.lower() == other.pci
    index = int(device.id.split(":")[2].partition(".")[0])
    driver = (device.driver or "").startswith(other.platform_name)
    return device.name == other.name and driver and other.device in (index, None)


def _part(device: Device) -> int | None:
    _, dot, part = device.id.rpartition(":")[2].partition(".")
    return int(part) if dot else None


def _summed(counts: Counts, times: bool) -> dict[str, float]:  # noqa: FBT001 - of an option
    found: dict[str, float] = {
        "kernels": counts.kernels,
        "bytes_to_device": counts.bytes_up,
        "bytes_to_host": counts.bytes_down,
        # PyOpenCL waits for the event of a copy that was blocking already
        "waits": max(counts.finishes + counts.blocking_calls, counts.event_waits),
    }
    if times:
        found |= {"computing": counts.kernel_ns * _NANO, "copying": counts.copy_ns * _NANO}
    return found
