"""Why there is no CUDA device: the real CuPy before drivers of our own (tests/drivers)."""

import json
from importlib.metadata import version
from importlib.util import find_spec

import pytest
from tables import table

from gpumap.backends.cupy import INSTALL
from gpumap.extras import install, pip
from gpumap.machine.cuda import no_driver

UNKNOWN = ("the NVIDIA driver answers with an unknown error",
           "look at `dmesg` for NVRM lines; restart the machine")  # fmt: skip
DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
NO_OPENCL = "; opencl: it finds no device"
WHOLE = (*DRIVER, "libcuda.so", "libnvrtc.so")
pytestmark = pytest.mark.skipif(
    find_spec("cupy") is None, reason=f"cupy: not installed ({INSTALL})"
)


def stub(**numbers):
    """Return the stubs' variables: cuda=100 is GPUMAP_STUB_CUDA=100; there are two GPUs."""
    given = {"nvml_devices": 2, **numbers}
    return {f"GPUMAP_STUB_{name.upper()}": str(value) for name, value in given.items()}


@pytest.fixture
def devices(gpumap, stubs):
    """Run `gpumap devices` with one backend before these drivers, no OpenCL unless it is said."""

    def run(backend, *libraries, **env):
        there = {**stubs(*libraries), "OCL_ICD_VENDORS": "/nonexistent", **env}
        answer = gpumap("devices", "--backend", backend, "--format", "json", **there)
        (found,) = json.loads(answer.out)["backends"]
        assert (found["name"], answer.code) == (backend, 0 if found["usable"] else 3)
        return found

    return run


@pytest.mark.parametrize(("there", "env", "reason", "fix"), table(__file__)["silent"])
def test_a_driver_that_shows_no_device(devices, there, env, reason, fix):
    """The user reads what is wrong, and the fix; CUDA's words where there are none of ours."""
    found = devices("cupy", *(WHOLE if there else ()), **stub(), **(env or {}))
    if not there:
        reason, fix, _ = no_driver()  # by what is on the bus of this machine
    assert (found["usable"], found["reason"], found["fix"]) == (False, reason, fix)


@pytest.mark.parametrize(
    ("version", "shown", "extra"), [(12020, "12.2", "cuda12"), (11080, "11.8", None)]
)
def test_a_driver_too_old_for_this_cupy(devices, version, shown, extra):
    """CuPy says the same of a missing driver; the driver's own version tells them apart."""
    import cupy

    built = cupy.cuda.runtime.runtimeGetVersion() // 1000
    if version // 1000 >= built:
        pytest.skip(f"this CuPy is for CUDA {built}: a driver for {shown} is not too old")
    newer = {12: "525", 13: "580"}[built]
    found = devices("cupy", *DRIVER, **stub(cuda_version=version, cuda_devices=2))
    assert found["reason"] == (
        f"the NVIDIA driver is too old: it is for CUDA {shown}, this CuPy for CUDA {built}"
    )
    update = f"install a driver for CUDA {built} ({newer} or newer)"
    other = f"{pip('uninstall', f'cupy-cuda{built}x')} && {install(extra)}; or " if extra else ""
    assert found["fix"] == other + update


def _of_framework(name):
    """Return why a framework has no CUDA device here: builds for processors know of none."""
    if find_spec(name) is None:
        return "not installed"
    built = f"PyTorch {version(name)} is not built for CUDA"
    return built if name == "torch" else "it finds no cuda device"


def test_check_says_it_of_every_backend(gpumap, stubs):
    """The reasons stand side by side in the order of preference; the fix is the first one's."""
    env = {**stubs(*WHOLE), **stub(cuda=999), "OCL_ICD_VENDORS": "/nonexistent"}
    answer = gpumap("check", "dev0->cuda0", **env)
    pygpu = f"cuda: {UNKNOWN[0]}{NO_OPENCL}" if find_spec("pygpu") else "not installed"
    frameworks = "".join(f"{name}: {_of_framework(name)}; " for name in ("torch", "jax"))
    told = f"cupy: {UNKNOWN[0]}; {frameworks}pygpu: {pygpu}"
    line, *_, fix = answer.err.splitlines()
    assert (answer.code, answer.out[:24]) == (3, "The name is not mapped: ")
    assert line == f"error in entry 1: dev0: no backend can drive cuda0: {told}"
    assert fix == f"  fix: {UNKNOWN[1]}"
