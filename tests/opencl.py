"""The one OpenCL driver that a run of the tests has: opencl0 is the same wherever it runs."""

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "OCL_ICD_VENDORS"
CHOICE = "GPUMAP_TEST_OPENCL"  # wheel or debian (PoCL's), intel, or system; else the first one here
FOLDER = Path(__file__).parents[1] / ".pytest_cache"
DEBIAN = Path("/etc/OpenCL/vendors/pocl.icd")
BUILDS = """
import pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
cl.Program(context, "__kernel void one(__global int *to) { *to = 1; }").build()
"""


def libraries():
    """Return the drivers that are installed: their names, and the libraries."""
    found = {"intel": Path(sys.prefix, "lib", "libintelocl.so")}
    if (spec := find_spec("pyopencl")) is not None and spec.origin:
        wheels = Path(spec.origin).parent.glob(".libs/libpocl-*.so")
        found |= {"wheel": wheel for wheel in wheels}  # noqa: B035 - there is one
    found = {name: path for name, path in found.items() if path.exists()}
    return found | ({"debian": DEBIAN.read_text().strip()} if DEBIAN.exists() else {})


@cache
def builds(file):
    """Return whether a driver builds a kernel: no wheel of PoCL knows processors of 2024."""
    command, env = (sys.executable, "-c", BUILDS), os.environ | {VARIABLE: str(file)}
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0


def written(choice, library):
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{choice}.icd"
    file.write_text(f"{library}\n")  # a file, not a folder: it hides every other driver
    return file


def choose():
    """Let this process and its children have that driver; a wheel's where it builds a kernel."""
    here, choice = libraries(), os.environ.get(CHOICE)
    if choice == "system" or VARIABLE in os.environ:
        return
    files = {name: written(name, path) for name, path in here.items()}
    if choice is None:
        choice = next((name for name in ("wheel", "debian") if name in files), "system")
        if choice == "wheel" and "debian" in files and not builds(files["wheel"]):
            choice = "debian"
    if choice != "system":
        os.environ[VARIABLE] = str(files[choice])
