"""The environment in which a stand-in for CuPy drives devices that are not there: cuda_standin."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from stubs import LINKS, build

FOLDER = Path(__file__).parent / "cuda_standin"
ROOT = Path(__file__).parents[1]
DRIVERS = ("libcuda.so.1", "libnvidia-ml.so.1")
needs_standin = pytest.mark.skipif(
    find_spec("cupy") is None or shutil.which("g++") is None,
    reason="the stand-in for CuPy needs the CuPy that it is compared with, and g++",
)


def gpu_command(out, *arguments):
    """Return `make gpu` with small sizes and short budgets, its record in a folder."""
    small = ("--budget", "3", "--dot-sizes", "64,256", "--copy-sizes", "1MiB",
             "--memory-size", "1MiB", "--limit", "1500")  # fmt: skip
    return [sys.executable, "-m", "benchmarks.gpu", "--output", str(out), *small, *arguments]


def went_well(step):
    """Return whether a step passed, lacks a library, or has no pinned copies for want of time."""
    left_out = step["key"] == "pinned" and step["why"] == ["no time was left: raise --budget"]
    missing = step["why"] in (["torch: not installed"], ["jax: not installed"])
    return step["verdict"] == "passed" or (step["verdict"] == "skipped" and (left_out or missing))


def environment(folder, devices=1, fault="", base=None, eager=""):
    """Return the variables: stub drivers for the real pynvml, and as many devices everywhere.

    `folder` keeps drivers and built kernels; `fault` is planted as `_gpu.py` has it; the streams of
    the device `eager` run at once, while those of the others run late.
    """
    drivers = folder / "drivers"
    if not drivers.exists():
        drivers.mkdir(parents=True)
        build(drivers)
        for name in DRIVERS:
            (drivers / name).symlink_to(f"{LINKS[name]}.so")
    base = dict(os.environ if base is None else base)
    measured = {key: os.environ[key] for key in os.environ if key.startswith("COVERAGE_")}
    return {
        **base,
        **measured,  # which lines of the product it runs
        "PYTHONPATH": str(FOLDER),
        "LD_LIBRARY_PATH": os.pathsep.join([str(drivers), base.get("LD_LIBRARY_PATH", "")]),
        "GPUMAP_STANDIN_DEVICES": str(devices),
        "GPUMAP_STANDIN_FAULT": fault,
        "GPUMAP_STANDIN_EAGER": eager,
        "GPUMAP_STANDIN_CACHE": str(drivers),
        "GPUMAP_STUB_CUDA_DEVICES": str(devices),
        "GPUMAP_STUB_NVML_DEVICES": str(devices),
        "MALLOC_PERTURB_": "165",  # what the host frees is other bytes at once
    }
