"""Build the OpenCL layer with the system's C compiler, once, and show it to a program."""

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
from typing import TYPE_CHECKING, Literal

from gpumap.errors import SourceError
from gpumap.files import cache_folder, others

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
        raise SourceError(f"{folder!s}: OPENCL_LAYERS separates paths by colons")
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        fix = "let GPUMAP_CACHE_DIR name a folder on a file system without noexec"
        raise SourceError(f"{folder!s}: nothing can be executed there (noexec)", fix)
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
