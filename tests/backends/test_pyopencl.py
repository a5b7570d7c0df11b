"""OpenCL by PyOpenCL: its errors, device clocks, and sessions on parts of one device."""

import re
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from buffers import got, sent
from sessions import opened, usable
from tables import table

from gpumap.backends.base import Clock
from gpumap.backends.device_clock import DeviceClock
from gpumap.backends.pyopencl import launch as pyopencl_launch
from gpumap.errors import DeviceError, OutOfMemory
from gpumap.kernels import KERNELS

PROGRAMS = table(__file__)
pyopencl = pytest.importorskip("pyopencl", reason="pyopencl: not installed")


@pytest.fixture(scope="module")
def backend():
    made, made.found = usable("pyopencl")
    return made


@pytest.fixture(params=["whole", "part"])
def session(request, backend):
    device = next(
        (d for d in backend.found if (d.ref.part is not None) == (request.param == "part")), None
    )
    if device is None:
        pytest.skip("the device has no parts")
    with backend.open(device, Clock()) as session:
        yield session


def test_a_copy_onto_a_part_of_itself_is_refused(session):
    buffer = sent(session, np.zeros(5000, "f4"))
    for source, target in ((slice(0, 4000), slice(32, 4032)), (slice(32, 64), slice(32, 64))):
        with pytest.raises(DeviceError, match="MEM_COPY_OVERLAP"):
            session.copy(buffer[source], buffer[target])
    assert session.copy(buffer[:2496], buffer[2496:4992]) == "same"
    session.synchronize()


def test_more_than_the_device_has_is_out_of_memory(session):
    """NVIDIA's driver grants a buffer of any size, and fails at its first use."""
    session.device = msgspec.structs.replace(session.device, memory_total=4096)
    assert session.empty((4096,), "uint8").nbytes == 4096
    with pytest.raises(OutOfMemory, match="4097 of 4096 bytes"):
        session.empty((4097,), "uint8")


def ran(text):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS["opened"] + text], capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    # what PoCL's compiler says of a kernel that no run before has built is none of ours
    said = re.sub(r"(?m)^\d+ warnings? generated\.\n", "", done.stderr)
    assert (done.returncode, said) == (0, "")
    return done.stdout


def test_a_processor_without_memory_says_so(backend):
    """And goes on with what it has: PoCL alone would end the process at the first use."""
    if "gpu" in backend.found[0].facts.values():
        pytest.skip("its memory is not this process's")
    assert ran(PROGRAMS["filled"]).startswith("opencl")


@pytest.mark.parametrize("register", [16, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["add", "log_each", "relu", "sum", "chain"])
def test_kernels_without_wide_vectors(session, kernel, dtype, register):
    """As they are built where the compiler fails at vectors that are wider than its registers."""
    if dtype not in (*session.features, "float32"):
        pytest.skip(f"this device has no {dtype}")
    session._facts = session._facts._replace(register=register, narrow=True)
    rng, rows = np.random.default_rng(5), 1000
    shapes = {"chain": [(rows, 10), (10, 5), (5,), (rows, 5)], "sum": [(rows,), (1,)]}
    every = [(rows,)] * len(KERNELS[kernel].arguments)
    arrays = [rng.uniform(0.5, 2.0, shape).astype(dtype) for shape in shapes.get(kernel, every)]
    buffers = [sent(session, array) for array in arrays]
    session.run(kernel, *buffers, size=rows)
    KERNELS[kernel].reference(*arrays)
    assert np.allclose(got(buffers[-1]), arrays[-1], rtol=16 * np.finfo(dtype).eps * rows**0.5)


@pytest.mark.parametrize(("said", "compiled", "register", "narrow"), PROGRAMS["compilers"])
def test_a_compiler_that_knows_the_processor_less_well(
    monkeypatch, said, compiled, register, narrow
):
    """What it compiles for is what counts, and not what the driver says of the registers."""
    import pyopencl as cl

    native = SimpleNamespace(
        type=cl.device_type.CPU, native_vector_width_float=said, max_compute_units=2,
        local_mem_size=1 << 20, global_mem_cache_size=1 << 25, name="x", driver_version="1",
        platform=SimpleNamespace(name="p"), max_work_group_size=4096, vendor_id=0x8086,
    )  # fmt: skip
    program = SimpleNamespace(kernel_names=compiled)
    monkeypatch.setattr(pyopencl_launch, "built", lambda *_given: program)
    monkeypatch.setattr(pyopencl_launch, "_COMPILED_FOR", {})
    facts = pyopencl_launch.Facts.of(native, None)
    assert (facts.register, facts.narrow, facts.sums) == (register, narrow, 32)
    assert facts.lanes(4) == (min(16, register // 4) if narrow else 16)


@pytest.mark.parametrize("at", [0, 32, 3])
@pytest.mark.parametrize("kernel", ["add", "exp_each", "fill"])
def test_beyond_the_caches_a_kernel_writes_past_them(session, kernel, at):
    """What comes out is the same, wherever the buffers begin, and what stands around it stays."""
    session._facts = session._facts._replace(cache=0)
    size = 4 * 1021
    before = np.random.default_rng(3).uniform(-1, 1, 5000).astype("f4")
    source, target = sent(session, before)[at:], sent(session, before)
    given, made = {
        "add": ((source, source, target[at:]), before + before),
        "exp_each": ((source, target[at:]), np.exp(before)),
        "fill": ((target[at:], 0.5), np.full_like(before, 0.5)),
    }[kernel]
    session.run(kernel, *given, size=size)
    expected = before.copy()
    expected[at : at + size] = made[at : at + size]
    np.testing.assert_allclose(got(target), expected, rtol=1e-6)
    assert session._streams(given[:1]) == (at != 3)


def test_clocks_that_drift_are_brought_together_again():
    """After a while `at` takes their common moment anew; until then it only counts on."""
    both = SimpleNamespace(time=10.0, ahead=5.0, looks=0, now=lambda: both.time)

    def mark():
        both.looks += 1
        return both.time + both.ahead  # by a clock of the device's own

    session = SimpleNamespace(
        mark=mark, synchronize=lambda: None, seconds=lambda start, stop: stop - start
    )
    times = DeviceClock(session, both)
    first, both.time = both.looks, 10.5
    assert (times.at(15.5), both.looks) == (pytest.approx(10.5), first)
    both.time, both.ahead = 11.5, both.ahead + 2e-6
    assert (times.at(16.500002), both.looks) == (pytest.approx(11.5, abs=1e-9), 2 * first)


@pytest.mark.parametrize("end", ["session.synchronize()", "session.close()", "pass"])
@pytest.mark.usefixtures("backend")
def test_what_is_queued_needs_no_name_for_its_buffers(end):
    """Their memory stays until the device is done with it, also when the program ends before."""
    assert ran(PROGRAMS["dropped"] + end) == ""


@pytest.mark.usefixtures("backend")
def test_a_copy_waits_for_what_its_target_still_does():
    """A long product that was queued into the target before the copy cannot overwrite it."""
    with opened("pyopencl", "pyopencl") as (one, two):  # two parts of a device, if it has some
        n = 384
        source, factor = (sent(session, np.ones((n, n), "f4")) for session in (one, two))
        target = two.empty((n, n), "float32")
        two.gemm(factor, factor, target)  # compiles
        one.synchronize()
        two.synchronize()
        two.gemm(factor, factor, target)
        route = one.copy(source, target)  # in one context: not by way of the host
        assert route in ("same", "peer")
        assert (got(target) == 1).all()
