"""Build the OpenCL layer with the system's C compiler, once, and show it to a program.

The files of the OpenCL layer: one per process, read into counts per device.

The layout is that of `struct file` in layer.c; a file of another layout is refused.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap.errors import Diagnostic, SourceError
from gpumap.files import cache_folder, others, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


VARIABLE = "OPENCL_LAYERS"
FOLDER = "GPUMAP_LAYER_FOLDER"
TIMES = "GPUMAP_LAYER_TIMES"
PREFIX = "gpumap-layer-"  # of the library's name
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-pthread")
_COMPILERS = ("cc", "gcc", "clang")
_INSTALL = "apt-get install gcc libc6-dev"
_SECONDS = 120  # of a compiler
_SHOWN = 300  # characters of what it says
_OWN = "let GPUMAP_CACHE_DIR name a folder of your own"
_ROOM = "free some space, or let GPUMAP_CACHE_DIR name a folder on another disk"
_HASH = 32  # bytes behind a library: its own hash, which a damaged file has not

Why = Literal["system", "cache", "folder", "no-compiler", "compiler"]


@dataclass(frozen=True, slots=True)
class NoLayer:
    """Why programs cannot be counted from inside: a code, a message and its fix."""

    why: Why
    message: str
    hint: str


def environment(
    folder: Path, env: Mapping[str, str], *, times: bool = False
) -> dict[str, str] | NoLayer:
    """Return the variables by which a program's OpenCL calls are counted into files of a folder.

    Args:
        folder: a folder of this user alone, one for each run.
        env: the environment of the program; the layers that it names are kept.
        times: whether to take device times by events, for which queues get profiling.
    """
    library = _library(env)
    if isinstance(library, NoLayer):
        return library
    # ours is first: ocl-icd cuts the variable after the first path, which a child then inherits
    layers = [str(library), *(each for each in env.get(VARIABLE, "").split(":") if each)]
    named = ":".join(dict.fromkeys(layers))
    return {VARIABLE: named, FOLDER: str(folder.absolute()), TIMES: "1" if times else "0"}


def _library(env: Mapping[str, str]) -> Path | NoLayer:
    """Return the layer, built if it is not in the cache."""
    if sys.platform != "linux":
        return no_layer("system", f"{sys.platform} has no layers of OpenCL", "run it on Linux")
    names = filter(None, (env.get("CC"), *_COMPILERS))
    found = (shutil.which(name, path=env.get("PATH")) for name in names)
    if (compiler := next(filter(None, found), None)) is None:
        return no_layer("no-compiler", "no C compiler (cc) builds the layer", _INSTALL)
    try:
        folder = _own_folder(env)
        source = files(__package__).joinpath("layer.c").read_bytes()
        target = folder / f"{PREFIX}{_digest(source, compiler)}.so"
        if target.is_symlink() or target.exists():
            _refuse_others(target, stat.S_ISREG)
            data = target.read_bytes()
            if data[-_HASH:] == sha256(data[:-_HASH]).digest():
                return target
        return _built(source, compiler, target, env)
    except SourceError as error:
        return no_layer(
            "cache", f"no place for the layer: {error}", error.diagnostics[0].hint or _OWN
        )
    except OSError as error:
        hint = _ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else _OWN
        why = ": ".join(str(each) for each in (error.filename, error.strerror) if each)
        return no_layer("cache", f"no place for the layer: {why}", hint)


def _own_folder(env: Mapping[str, str]) -> Path:
    """Return the folder for the layer: this user's alone, in a cache that no other can change."""
    if (cache := cache_folder(env)) is None:
        raise SourceError("no variable names a folder")
    folder = cache.absolute() / "opencl-layer"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_others(cache.resolve(), stat.S_ISDIR)
    _refuse_others(folder, stat.S_ISDIR)
    if ":" in str(folder):
        raise SourceError(f"{folder}: OPENCL_LAYERS separates paths by colons")
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        fix = "let GPUMAP_CACHE_DIR name a folder on a file system without noexec"
        raise SourceError(f"{folder}: nothing can be executed there (noexec)", fix)
    return folder


def _refuse_others(path: Path, right: Callable[[int], bool]) -> None:
    """Raise SourceError for what another user can have written, or what is of another kind."""
    state = path.lstat()
    if why := others(state) or ("" if right(state.st_mode) else "gpumap did not make it"):
        raise SourceError(f"{path}: {why}")


def _digest(source: bytes, compiler: str) -> str:
    """Return a name for what this compiler makes of the source: another one is built anew."""
    state = Path(compiler).stat()
    made_by = (os.path.realpath(compiler), state.st_size, state.st_mtime_ns, platform.machine())
    return sha256(source + repr((FLAGS, made_by)).encode("utf-8", "replace")).hexdigest()[:24]


def _built(source: bytes, compiler: str, target: Path, env: Mapping[str, str]) -> Path | NoLayer:
    """Compile beside the target and rename: another process sees all of it or nothing."""
    for left in target.parent.glob(".build-*"):  # by who was killed
        if time.time() - left.lstat().st_mtime > 2 * _SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as folder:
        text, made = Path(folder, "layer.c"), Path(folder, "layer.so")
        text.write_bytes(source)
        command = [compiler, *FLAGS, "-o", str(made), str(text)]
        try:
            done = subprocess.run(  # noqa: S603 - the system's compiler
                command, capture_output=True, text=True, errors="replace",
                stdin=subprocess.DEVNULL, env={**env, "LC_ALL": "C", "TMPDIR": folder},
                timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return no_layer("compiler", f"{compiler} took longer than {_SECONDS} s", "set CC")
        except OSError as error:
            return no_layer("compiler", f"{compiler} cannot run: {error.strerror}", "set CC")
        if done.returncode or not made.is_file():
            why = done.stderr.strip()[:_SHOWN] or f"exit code {done.returncode}"
            return no_layer("compiler", f"{compiler} fails: {why}", f"{_INSTALL}, or set CC")
        data = made.read_bytes()
        if _machine(data) != _machine(Path(sys.executable).read_bytes()):
            return no_layer("compiler", f"{compiler} makes no library of this machine", "set CC")
        made.write_bytes(data + sha256(data).digest())
        made.chmod(0o700)
        made.replace(target)
    return target


def _machine(data: bytes) -> bytes:
    """Return for which class of machine a file in ELF is, and whether it is one."""
    return data[:6] + data[18:20]


def no_layer(why: Why, message: str, hint: str) -> NoLayer:
    """Return why there is no layer."""
    return NoLayer(why, f"OpenCL programs are not counted: {message}", hint)


SUFFIX = ".opencl"
_MAGIC, _VERSION, _DEVICES = b"gpumapCL", 1, 64
_LAYOUT, _HEADER = Struct("=8s4I"), Struct("=2i2I3Q64s384s")
_SLOT = Struct("=32Q3i5I4I16s96s48s48s")
_START = _LAYOUT.size + _HEADER.size
_SIZE = _START + (_DEVICES + 1) * _SLOT.size
_COUNTERS = 32  # places for them in a slot
_KINDS = {2: "cpu", 4: "gpu", 8: "accelerator"}  # bits of CL_DEVICE_TYPE


class Counts(NamedTuple):
    """What succeeded on one device, in the order of `enum counter` in layer.c.

    Times are nanoseconds. `first_ns` and `last_ns` are when the first and the last command were
    queued, on the clock of `time.monotonic_ns()`, to some milliseconds; 0: never. Maps are counted
    by the direction that the program requested, whether or not the driver had to copy. `inits` are
    objects that were created with a copy of host data. `unknowns` are commands whose bytes or
    direction are unknown.
    """

    contexts: int
    queues: int
    kernels: int
    writes: int
    write_bytes: int
    reads: int
    read_bytes: int
    maps: int
    map_write_bytes: int
    map_read_bytes: int
    unmaps: int
    copies: int
    copy_bytes: int
    fills: int
    fill_bytes: int
    inits: int
    init_bytes: int
    unknowns: int
    unknown_bytes: int
    finishes: int
    event_waits: int
    blocking_calls: int
    wait_ns: int
    first_ns: int
    last_ns: int
    kernel_ns: int
    copy_ns: int
    timed: int
    untimed: int

    @property
    def bytes_up(self) -> int:
        """Bytes from the host to the device."""
        return self.write_bytes + self.map_write_bytes + self.init_bytes

    @property
    def bytes_down(self) -> int:
        """Bytes from the device to the host."""
        return self.read_bytes + self.map_read_bytes


class CountedDevice(NamedTuple):
    """A device that a program opened, as its OpenCL lists it, and what the program did with it.

    Attributes:
        platform: its index among the platforms; None: unknown.
        device: its own, or its parent's, among the devices of the platform; None: unknown.
        part: which sub-device of one partition it is; None: the device as a whole, or unknown.
        units: compute units, which tell a part of an unknown number from the whole.
    """

    platform: int | None
    device: int | None
    part: int | None
    units: int
    kind: str
    vendor_id: int
    pci: str | None
    uuid: str | None
    name: str
    vendor: str
    platform_name: str
    counts: Counts


class CountedProcess(NamedTuple):
    """One program in one process. A fork, and a program that replaces another, has its own.

    Attributes:
        opened_ns: when it first used OpenCL, on the clock of `time.monotonic_ns()`.
        times: whether device times were requested.
        devices: none where it looked for devices and opened none.
        unplaced: counts of no known device, or of memory shared by several.
        functions: functions that the driver handed out, and that are not counted.
        function: the name of the first of them.
        loaders: further OpenCL loaders in the process, and forks of it, that could not be counted.
    """

    pid: int
    parent: int
    program: str
    opened_ns: int
    times: bool
    devices: tuple[CountedDevice, ...]
    unplaced: Counts
    functions: int
    function: str
    loaders: int

    @property
    def complete(self) -> bool:
        """Whether all that it did is counted: otherwise zero kernels do not mean "not used"."""
        return not (self.functions or self.loaders or any(self.unplaced))


class Reading(NamedTuple):
    """Every process that left a file, in the order in which they began, and files refused."""

    processes: tuple[CountedProcess, ...]
    refused: tuple[Diagnostic, ...]


def read(folder: Path) -> Reading:
    """Read the files of a run, during it or after it; a file that is not the layer's is refused."""
    processes: list[CountedProcess] = []
    refused: list[Diagnostic] = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            processes.append(_process(path))
        except SourceError as error:
            refused += error.diagnostics
    processes.sort(key=lambda process: process.opened_ns)
    return Reading(tuple(processes), tuple(refused))


def _process(path: Path) -> CountedProcess:
    data = read_bytes(path, "counts of an OpenCL program", _SIZE, own=True)
    layout = _LAYOUT.unpack_from(data.ljust(_LAYOUT.size, b"\0"))
    if len(data) != _SIZE or layout != (_MAGIC, _VERSION, _SIZE, _SLOT.size, _DEVICES):
        place = f"cannot read the counts of an OpenCL program {path}"
        if not data:
            raise SourceError(f"{place}: there was no room for them", "free TMPDIR; see ulimit -f")
        message = f"{place}: the file is incomplete, or not the layer's (version {_VERSION})"
        raise SourceError(message, "run it again: what this process did is unknown")
    head = _HEADER.unpack_from(data, _LAYOUT.size)
    pid, parent, times, used, opened, functions, loaders, function, program = head
    values = list(_SLOT.iter_unpack(data[_START:]))
    return CountedProcess(
        pid, parent, _text(program), opened, bool(times),
        tuple(_device(each) for each in values[: min(used, _DEVICES)]), _counts(values[_DEVICES]),
        functions, _text(function), loaders,
    )  # fmt: skip


def _counts(values: tuple[Any, ...]) -> Counts:
    return Counts(*values[: len(Counts._fields)])


def _device(values: tuple[Any, ...]) -> CountedDevice:
    platform, index, part, bits, vendor_id, units, has_pci, has_uuid, *rest = values[_COUNTERS:]
    domain, bus, device, function, uuid, *texts = rest
    pci = f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}" if has_pci else None
    kind = next((kind for bit, kind in _KINDS.items() if bits & bit), "other")
    where: list[Any] = [number if number >= 0 else None for number in (platform, index, part)]
    named: list[Any] = [pci, uuid.hex() if has_uuid else None, *map(_text, texts)]
    return CountedDevice._make([*where, units, kind, vendor_id, *named, _counts(values)])


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace").strip()
