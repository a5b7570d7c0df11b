"""The libraries that drive devices: one file each, loaded by name and only when requested.

Show Intel's OpenCL runtime to the loader, where pip installed it unknown to the loader.

The wheel's own .icd file names a folder of whoever built it. ocl-icd, PyOpenCL's loader, takes one
folder of .icd files by OCL_ICD_VENDORS and then looks into no other, but for the drivers that are
beside PyOpenCL. So a folder in gpumap's cache has the system's files and one for Intel's library.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.files import cache_folder, others, read_text, write_atomic
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.backends.base import Backend, Host


REGISTRY = {
    "numpy": "gpumap.backends.numpy:NumpyBackend",
    "pyopencl": "gpumap.backends.pyopencl:PyopenclBackend",
    "cupy": "gpumap.backends.cupy:CupyBackend",
    "torch": "gpumap.backends.torch:TorchBackend",
    "jax": "gpumap.backends.jax:JaxBackend",
    "pygpu": "gpumap.backends.pygpu:PygpuBackend",
    "fake": "gpumap.backends.fake:FakeBackend",
}


def load(name: str, host: Host) -> Backend:
    """Return the backend called `name`; loads its file, but not yet its library.

    Raises:
        QuestionError: there is no such backend.
    """
    if name not in REGISTRY:
        known = fix(name, REGISTRY, f"choose one of {', '.join(REGISTRY)}")
        if "," in name or name == "all":
            known = "name one; commands that measure take several, as `gpumap bench dot` does"
        raise QuestionError(f'no backend is called "{name}"', known)
    module, _, attribute = REGISTRY[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)(host)
    return backend


ICD_VARIABLE = "OCL_ICD_VENDORS"
_CHOSEN = (ICD_VARIABLE, "OPENCL_VENDOR_PATH")  # what a user tells ocl-icd
ICD_FOLDER = Path("/etc/OpenCL/vendors")
INTEL_LIBRARY = "libintelocl.so"
_LIMIT = 4096  # bytes of an .icd file, which is a line


def register(env: Mapping[str, str]) -> tuple[dict[str, str], tuple[Diagnostic, ...]]:
    """Return the variable that the loader needs, and a note of it; neither where it needs none.

    It needs none where the runtime is not installed beside this Python, where the system knows it,
    and where the user has chosen.
    """
    places = (Path(prefix, "lib", INTEL_LIBRARY) for prefix in _prefixes())
    library = next((path for path in places if path.exists()), None)
    if library is None or "\n" in str(library) or any(name in env for name in _CHOSEN):
        return {}, ()
    system = _system()
    if any(INTEL_LIBRARY in text for text in system.values()):
        return {}, ()
    try:
        folder = _kept({**system, "1-intel.icd": f"{library}\n"}, env)
    except (OSError, SourceError) as error:
        message = f"Intel's OpenCL runtime is not used: no folder for its .icd file: {error}"
        return {}, (_note(message, "let GPUMAP_CACHE_DIR name a folder of your own"),)
    message = f"for Intel's OpenCL runtime {ICD_VARIABLE} is {folder}"
    note = _note(message, f"set {ICD_VARIABLE} yourself for other drivers")
    return {ICD_VARIABLE: str(folder)}, (note,)


def _prefixes() -> tuple[str, ...]:
    """Return where pip puts files of wheels: of this environment, of the system, of the user."""
    import site

    return (sys.prefix, "/usr/local", site.getuserbase() if site.ENABLE_USER_SITE else sys.prefix)


def _system() -> dict[str, str]:
    """Return the system's files by their new names, which keep their order; of those readable."""
    found = {}
    for path in sorted(ICD_FOLDER.glob("*.icd")):
        with suppress(SourceError):  # the loader could not read it either
            found[f"0-{path.name}"] = read_text(path, "OpenCL driver file", _LIMIT)
    return found


def _kept(files: Mapping[str, str], env: Mapping[str, str]) -> Path:
    """Return a folder with these files, which no other user can write to.

    Its name is that of its content, so that it never changes while a process reads it.

    Raises:
        OSError, SourceError: there is no place for it.
    """
    from hashlib import sha256

    if (cache := cache_folder(env)) is None:
        raise SourceError("no variable names a folder")
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = sha256("\0".join(f"{n}\0{t}" for n, t in sorted(files.items())).encode()).hexdigest()
    place = cache / f"opencl-vendors-{digest[:16]}"
    place.mkdir(mode=0o700, exist_ok=True)
    for folder in (cache, place):
        if why := others(folder.stat()):
            raise SourceError(f"{folder}: {why}")
    for name, text in files.items():
        if not (place / name).exists():
            write_atomic(place / name, text)
    return place


def _note(message: str, hint: str) -> Diagnostic:
    return Diagnostic("opencl-vendors", message, hint=hint, severity="note")
