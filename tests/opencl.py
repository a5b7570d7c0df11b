"""The one OpenCL driver that a run of the tests has: opencl0 is the same wherever it runs."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "OCL_ICD_VENDORS"
CHOICE = "GPUMAP_TEST_OPENCL"  # wheel or debian (PoCL's), intel, or system; else the first one here
FOLDER = Path(__file__).parents[1] / ".pytest_cache"
DEBIAN = Path("/etc/OpenCL/vendors/pocl.icd")
BUILDS = """
import pyopencl as cl
cl.Program(cl.Context(cl.get_platforms()[0].get_devices()[:1]), "__kernel void one() {}").build()
"""


def libraries():
    """Return the drivers that are installed: their names, and the libraries."""
    found = {"intel": Path(sys.prefix, "lib", "libintelocl.so")}
    if (spec := find_spec("pyopencl")) is not None and spec.origin:
        wheels = Path(spec.origin).parent.glob(".libs/libpocl-*.so")
        found |= {"wheel": wheel for wheel in wheels}  # noqa: B035 - there is one
    found = {name: path for name, path in found.items() if path.exists()}
    return found | ({"debian": DEBIAN.read_text().strip()} if DEBIAN.exists() else {})


def choose():
    """Let this process and its children have one driver; PoCL's wheel where it builds a kernel.

    It knows no processors of 2024, and Debian's does.
    """
    choice, here = os.environ.get(CHOICE), libraries()
    if choice == "system" or VARIABLE in os.environ:
        return
    names = [choice] if choice else [name for name in ("wheel", "debian") if name in here]
    for name in names:
        FOLDER.mkdir(exist_ok=True)
        file = FOLDER / f"{name}.icd"
        file.write_text(f"{here[name]}\n")  # a file, not a folder: it hides every other driver
        os.environ[VARIABLE] = str(file)
        trial = [sys.executable, "-c", BUILDS]
        if name == names[-1] or subprocess.call(trial, stderr=subprocess.DEVNULL) == 0:
            return
