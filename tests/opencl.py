"""The one OpenCL driver that a run of the tests has: opencl0 is the same wherever it runs."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "OCL_ICD_VENDORS"
CHOICE = "GPUMAP_TEST_OPENCL"  # wheel (PoCL's), intel, or system; without it the first that is here
FOLDER = Path(__file__).parents[1] / ".pytest_cache"


def libraries():
    """Return the drivers that pip has installed: their names, and the libraries."""
    found = {"intel": Path(sys.prefix, "lib", "libintelocl.so")}
    if (spec := find_spec("pyopencl")) is not None and spec.origin:
        wheels = Path(spec.origin).parent.glob(".libs/libpocl-*.so")
        found |= {"wheel": wheel for wheel in wheels}  # noqa: B035 - there is one
    return {name: path for name, path in found.items() if path.exists()}


def choose():
    here = libraries()
    choice = os.environ.get(CHOICE) or ("wheel" if "wheel" in here else "system")
    if choice == "system" or VARIABLE in os.environ:
        return
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{choice}.icd"
    file.write_text(f"{here[choice]}\n")  # a file, not a folder: it hides every other driver
    os.environ[VARIABLE] = str(file)
