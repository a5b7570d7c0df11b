"""What the installed CuPy has under some names: `python real.py < NAMES > ANSWERS`, in JSON.

An answer is a constant, a list of parameters, or null for what has no parameters to tell; what
is not there is left out. Libraries of CUDA's that cannot be loaded here (cuBLAS, NCCL) are read as
files: Cython leaves the line of each function in them.
"""

import importlib
import inspect
import json
import re
import sys
import warnings
from functools import cache
from pathlib import Path

UNLOADED = {
    "cupy_backends.cuda.libs.cublas": "cupy_backends/cuda/libs/cublas.*.so",
    "cupy.cuda.nccl": "cupy_backends/cuda/libs/nccl.*.so",
}


def parameters(line):
    inside = re.search(r"\((.*?)\)(?: ->.*)?$", line.strip())
    if inside is None:
        return None
    names = []
    for part in filter(None, (p.strip() for p in inside[1].split(","))):
        name = re.sub(r"=.*", "", part).split()[-1].lstrip("*")
        if name not in ("self", "cls", "/", "") and "*" not in re.sub(r"=.*", "", part)[:1]:
            names.append(name)
    return names


def signature(found, name):
    try:
        given = inspect.signature(found).parameters.values()
        if "kwargs" not in {p.name for p in given}:
            return [p.name for p in given if p.name != "self" and p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        pass
    lines = (getattr(found, "__doc__", None) or "").strip().splitlines()
    lines += (getattr(getattr(found, "__init__", None), "__doc__", None) or "").splitlines()
    pattern = rf"(\w+\.)?({re.escape(name)}|__init__)\("
    line = next((each.strip() for each in lines if re.match(pattern, each.strip())), "")
    return parameters(line) if line else None


def answer(name):
    module = next((m for m in UNLOADED if name.startswith(f"{m}.")), None)
    if module:
        own = name.removeprefix(f"{module}.").encode()
        line = re.search(rb"[\x00\n]" + re.escape(own) + rb"\([^\x00\n]*\)", _bytes(module))
        # of a constant no text is left
        return True, parameters(line[0][1:].decode(errors="replace")) if line else None
    place, _, own = name.rpartition(".")
    try:
        found = getattr(resolved(place), own)
    except (AttributeError, ImportError):
        return False, None
    plain = isinstance(found, (int, str)) and not inspect.isclass(found)
    return True, found if plain else signature(found, own)


@cache
def _bytes(module):
    (file,) = Path(importlib.import_module("cupy").__path__[0]).parent.glob(UNLOADED[module])
    return file.read_bytes()


def resolved(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        above, _, own = name.rpartition(".")
        return getattr(resolved(above), own)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told = {name: answer(name) for name in json.load(sys.stdin)}
    json.dump({name: what for name, (there, what) in told.items() if there}, sys.stdout)
