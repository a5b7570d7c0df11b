"""Drivers of our own for the tests of what gpumap says of drivers: see tests/drivers."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "drivers"
LINKS = {  # the name that is loaded -> what stands in for it
    "libcuda.so.1": "cuda",
    "libcuda.so": "cuda",
    "libnvrtc.so": "cuda",
    "libnvidia-ml.so.1": "nvml",
}


@dataclass(frozen=True)
class Stubs:
    """Compiled drivers, and a folder where each test puts those that it wants."""

    built: Path
    folder: Path

    def __call__(self, *names) -> dict[str, str]:
        """Return an environment in which these libraries are there, and no other of NVIDIA's.

        What is not wanted is an empty file: it hides the machine's own and cannot be loaded.
        """
        self.folder.mkdir(exist_ok=True)
        for name, source in LINKS.items():
            file = self.folder / name
            file.unlink(missing_ok=True)
            if name in names:
                file.symlink_to(self.built / f"{source}.so")
            else:
                file.touch()
        before = os.environ.get("LD_LIBRARY_PATH")
        path = os.pathsep.join([str(self.folder), *([before] if before else [])])
        return {"LD_LIBRARY_PATH": path}


def build(folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) for the stub drivers: apt-get install gcc libc6-dev")
    for source in SOURCES.glob("*.c"):
        library = folder / f"{source.stem}.so"
        command = [compiler, "-shared", "-fPIC", "-Wall", "-o", library, source, "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the stub drivers do not compile: {done.stderr.strip()}")
        assert done.stderr == ""
    return folder
