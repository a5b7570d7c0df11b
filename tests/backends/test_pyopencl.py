"""OpenCL by PyOpenCL: its errors, device clocks, and sessions on parts of one device."""

import os
import time

import numpy as np
import pytest

from gpumap.backends.base import Host, SystemClock
from gpumap.backends.pyopencl import PyopenclBackend
from gpumap.errors import OutOfMemory, Unsupported
from gpumap.machine import topology

pytest.importorskip("pyopencl", reason="pyopencl: not installed")
MACHINE = topology.read()


@pytest.fixture(scope="module")
def backend():
    """PyOpenCL with whatever drivers are here."""
    made = PyopenclBackend(Host(dict(os.environ), MACHINE))
    probe = made.probe()
    if not probe.usable:
        pytest.skip(f"pyopencl: {probe.reason}")
    made.found = probe.devices
    return made


@pytest.fixture(params=["whole", "part"])
def session(request, backend):
    """Open the first device, and its first part."""
    device = next(
        (d for d in backend.found if (d.ref.part is not None) == (request.param == "part")), None
    )
    if device is None:
        pytest.skip("the device has no parts")
    with backend.open(device, SystemClock()) as session:
        yield session


# --- errors


def test_a_drivers_error_is_one_of_ours(session):
    """No device has a pebibyte: the words are the driver's, the class is ours."""
    with pytest.raises(OutOfMemory, match=r"^opencl[0-9:.]+ \(.+\): create_buffer failed"):
        session.empty((1 << 50,), "uint8")


def test_arithmetic_that_a_device_has_not_is_unsupported(session):
    """Without float16 a product of it is refused by name, and not by a compiler's log."""
    if "float16" in session.features:
        pytest.skip("this device has float16")
    buffer = session.empty((4, 4), "float16")

    with pytest.raises(Unsupported, match="float16 arithmetic is not there on opencl"):
        session.gemm(buffer, buffer, session.empty((4, 4), "float16"))


# --- clocks


def test_a_kernels_marks_lie_between_host_times_around_it(session):
    """Within half a millisecond: the device's clock is found, not assumed."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((256, 256)).astype("f4")
    matrix, out = session.empty(a.shape, "float32"), session.empty(a.shape, "float32")
    session.upload(a, matrix)
    session.gemm(matrix, matrix, out)
    session.synchronize()
    for _ in range(5):
        before = time.perf_counter()
        start = session.mark()
        session.gemm(matrix, matrix, out)
        stop = session.mark()
        session.synchronize()
        after = time.perf_counter()

        assert before - 5e-4 <= session.at(start) < session.at(stop) <= after + 5e-4
        assert session.seconds(start, stop) <= after - before + 5e-4
        assert session.at(stop) - session.at(start) == pytest.approx(session.seconds(start, stop))


def test_clocks_that_drift_are_brought_together_again(session, monkeypatch):
    """After a while `at` takes their common moment anew; no timed call does."""
    first = session._base
    session.at(session.mark())
    assert session._base is first

    monkeypatch.setattr("gpumap.backends.pyopencl._REBASE", 0.0)
    session.synchronize()
    assert session._base is first
    session.at(session.mark())
    assert session._base > first


# --- parts of one device


def test_parts_of_one_device_share_a_context(backend):
    """So a copy between two of them needs no host, and each waits for the other on the device."""
    parts = [d for d in backend.found if d.ref.part is not None][:2]
    if len(parts) < 2:
        pytest.skip("no device has two parts")
    clock = SystemClock()
    with backend.open(parts[0], clock) as one, backend.open(parts[1], clock) as two:
        source, target = one.empty((1000,), "float32"), two.empty((1000,), "float32")
        one.upload(np.arange(1000, dtype="f4"), source)
        two.upload(np.full(1000, np.nan, "f4"), target)

        route = one.copy(source, target)

        back = np.full(1000, np.nan, "f4")
        two.download(target, back)
        two.synchronize()
        assert one.context == two.context
    assert (back == np.arange(1000)).all()
    assert route == ("same" if parts[0].silicon == parts[1].silicon else "peer")


def test_a_copy_waits_for_what_its_target_still_does(backend):
    """A long product that was queued into the target before the copy cannot overwrite it."""
    parts = [d for d in backend.found if d.ref.part is not None][:2]
    if len(parts) < 2:
        pytest.skip("no device has two parts")
    clock, n = SystemClock(), 384
    with backend.open(parts[0], clock) as one, backend.open(parts[1], clock) as two:
        source, factor, target = (s.empty((n, n), "float32") for s in (one, two, two))
        ones = np.ones((n, n), "f4")
        one.upload(ones, source)
        two.upload(ones, factor)
        two.gemm(factor, factor, target)  # compiles
        one.synchronize()
        two.synchronize()
        two.gemm(factor, factor, target)

        one.copy(source, target)

        back = np.full((n, n), np.nan, "f4")
        two.download(target, back)
        two.synchronize()
    assert (back == 1).all()
