"""What the installed CuPy has under some names: `python real.py < NAMES > ANSWERS`, in JSON.

An answer is a constant, a list of parameters, or null for what has no parameters to tell; what
is not there is left out. Libraries of CUDA's that cannot be loaded here (cuBLAS, NCCL) are read as
files: Cython leaves the line of each function in them, as it does in the docstrings of others.
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


def written(names, text):
    """Return the parameters of the first line that is a function's of these names."""
    own = rf"(?:^|[\0\n])\s*(?:\w+\.)?(?:{'|'.join(map(re.escape, names))})"
    line = re.search(rf"{own}\(([^\0\n]*?)\)(?: ->[^\0\n]*)?(?=[\0\n]|$)", text)
    parts = [re.sub(r"=.*", "", part).split() for part in line[1].split(",")] if line else ()
    names = [part[-1].lstrip("*") for part in parts if part and part[0][0] != "*"]
    return [name for name in names if name not in ("self", "cls", "/")] if line else None


def signature(found, name):
    try:
        given = inspect.signature(found).parameters.values()
        if "kwargs" not in {p.name for p in given}:
            return [p.name for p in given if p.name != "self" and p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        pass
    docs = (getattr(each, "__doc__", None) for each in (found, getattr(found, "__init__", None)))
    return written((name, "__init__"), "\n".join(filter(None, docs)))


def answers(name):
    """Yield the answer for a name, if it is there."""
    for module in filter(name.startswith, UNLOADED):
        found = written([name.removeprefix(f"{module}.")], _text(module))
        yield found  # of a constant no text is left
        return
    place, _, own = name.rpartition(".")
    try:
        found = getattr(resolved(place), own)
    except (AttributeError, ImportError):
        return
    plain = isinstance(found, (int, str)) and not inspect.isclass(found)
    yield found if plain else signature(found, own)


@cache
def _text(module):
    (file,) = Path(importlib.import_module("cupy").__path__[0]).parent.glob(UNLOADED[module])
    return file.read_bytes().decode("latin-1")


def resolved(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        above, _, own = name.rpartition(".")
        return getattr(resolved(above), own)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump({n: found for n in json.load(sys.stdin) for found in answers(n)}, sys.stdout)
