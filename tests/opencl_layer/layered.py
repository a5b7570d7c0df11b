"""Programs whose OpenCL calls are counted: how tests build and start them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import opencl
import pytest

from gpumap.opencl_layer.layer import FLAGS, NoLayer, environment, read

HERE = Path(__file__).parent
LAYER = Path(__file__).parents[2] / "gpumap" / "opencl_layer" / "layer.c"
KHRONOS = Path(sys.prefix, "lib", "libOpenCL.so.1")  # which Intel's wheel brings


def drivers():
    """Return every OpenCL driver of this machine by its name: the library."""
    found = {name: str(path) for name, path in opencl.libraries().items()}
    for file in Path("/etc/OpenCL/vendors").glob("pocl*.icd"):
        found["system"] = file.read_text().strip()
    return found


DRIVERS = drivers()
EVERY = [
    pytest.param(name, marks=pytest.mark.skipif(name not in DRIVERS, reason=f"no driver: {name}"))
    for name in ("system", "wheel", "intel")
]


def compiled(folder, source, *flags):
    """Return a program or library of a C file here, or skip where nothing can build it."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc): apt-get install gcc libc6-dev")
    if not Path("/usr/include/CL/cl_icd.h").exists():
        pytest.skip("no OpenCL headers: apt-get install ocl-icd-opencl-dev")
    target = folder / f"{source.stem}{'-'.join(['', *flags]).replace('/', '')}"
    command = ["cc", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", target, source, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return target


def layer(folder, *flags):
    """Return the layer, built strictly, with other flags than gpumap's own beside them."""
    return compiled(folder, LAYER, *FLAGS, *flags)


class Counting:
    """Runs programs with the layer in a folder of their own, and reads what it counted."""

    def __init__(self, folder, cache):
        self.folder = folder / "counts"
        self.folder.mkdir(mode=0o700)
        self.base = {**os.environ, "GPUMAP_CACHE_DIR": str(cache)}

    def env(self, driver=None, *, times=False, **more):
        if driver and driver not in DRIVERS:
            pytest.skip(f"no driver: {driver}")
        found = environment(self.folder, self.base, times=times)
        assert not isinstance(found, NoLayer), found
        chosen = {opencl.VARIABLE: DRIVERS[driver]} if driver else {}
        return {**self.base, **chosen, **more, **found}

    def run(self, command, driver=None, *, times=False, timeout=100, whole=True, **more):
        """Return what ended, and what was counted of it."""
        done = subprocess.run(
            [str(word) for word in command], env=self.env(driver, times=times, **more),
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return done, self.read() if whole else ()

    def read(self):
        reading = read(self.folder)
        assert reading.refused == ()
        return reading.processes
