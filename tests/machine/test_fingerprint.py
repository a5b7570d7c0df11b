import platform

import pytest
from tables import table

from gpumap.machine.fingerprint import VARIABLES, _system, environment, fingerprint
from gpumap.machine.topology import Cpu, Topology
from gpumap.model import Device, DeviceRef, Fingerprint, Kind, replace
from gpumap.model.io import digest, plain

TOPOLOGY = Topology(
    cpus=(Cpu(0, (0,), 0), Cpu(1, (1,), 0)), online=4, quota=None, model="AMD EPYC",
    memory_total=2**30, memory_available=2**29,
)  # fmt: skip
CPU0 = Device("cpu:0", Kind.CPU, DeviceRef(Kind.CPU, 0), "AMD EPYC", "numpy")
CUDA0 = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "H200", "cupy", driver="580.65")
LIBRARIES = {"openblas": "0.3.31", "numpy": "2.4.6"}


def test_fingerprint():
    """The same machine has one hash, in whatever order its parts were found."""
    actual = fingerprint(TOPOLOGY, (CUDA0, CPU0), LIBRARIES)
    bare = Fingerprint(
        hash="", cpu="AMD EPYC", cores=2, os=_system(platform.system(), platform.release()),
        python=platform.python_version(), libraries=LIBRARIES,
        devices=("cpu:0", "cuda:0"), drivers={"cuda:0": "580.65"},
    )  # fmt: skip
    other = fingerprint(TOPOLOGY, (CPU0, CUDA0), dict(sorted(LIBRARIES.items())))
    assert actual == other == replace(bare, hash=digest(plain(bare), "hash"))


def test_the_hash_is_stable():
    """The canonical form does not drift between releases: stored reports are compared by it."""
    bare = Fingerprint("", "Z\u00fcrich \ud800", 2, "Linux 6.1", "3.11.7", {}, (), {})
    assert digest(plain(bare), "hash") == (
        "sha256:0c3f009ce3a33395e81eb8097f88d09d5a06568fc86ed0e6c84569d1ae4a6689"
    )


@pytest.mark.parametrize(("name", "release", "expected"), table(__file__)["systems"])
def test_system(name, release, expected):
    """A kernel is its first two numbers."""
    assert _system(name, release) == expected


def test_environment_is_an_allow_list():
    """Every name on the list is told, set or not; nothing else is; long values are cut."""
    actual = environment(
        {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_PLACES": "x" * 5000, "AWS_SECRET_ACCESS_KEY": "s"}
    )
    assert list(VARIABLES) == sorted(set(VARIABLES))
    unset = dict.fromkeys(VARIABLES)
    assert actual == unset | {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_PLACES": "x" * 1000}
