"""OpenCL by PyOpenCL: device clocks, the table of errors, parts of a device."""

import os
import time

import numpy as np
import pytest

from gpumap.backends.base import Host, SystemClock
from gpumap.backends.pyopencl import _ERRORS, PyopenclBackend, _foreign
from gpumap.errors import AbsentError, DeviceError, DeviceLost, OutOfMemory, Unsupported
from gpumap.machine import topology
from gpumap.model import Device, DeviceRef, Kind

cl = pytest.importorskip("pyopencl", reason="pyopencl: not installed")
MACHINE = topology.read()
STATUS = {
    name: getattr(cl.status_code, name)
    for name in dir(cl.status_code)
    if name.isupper() and isinstance(getattr(cl.status_code, name), int)
}
FAILURES = sorted(name for name, code in STATUS.items() if code < 0)
DEVICE = Device("opencl:0:0", Kind.OPENCL, DeviceRef(Kind.OPENCL, 0, 0), "\x1b[1m", "pyopencl")


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


def raised(code, kind=cl.Error):
    """Return what gpumap makes of a status."""
    with pytest.raises(DeviceError) as error, _foreign(DEVICE):
        raise kind(cl._cl._ErrorRecord("it broke", code, "clDo"))
    return error.value


@pytest.mark.parametrize("name", FAILURES)
def test_every_status_is_an_error_of_ours(name):
    """Memory and loss are told apart, all else is a failing device; exit code 3, and printable."""
    error = raised(STATUS[name])
    memory = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY",
              "INVALID_BUFFER_SIZE")  # fmt: skip
    lost = ("DEVICE_NOT_AVAILABLE", "INVALID_COMMAND_QUEUE")

    expected = OutOfMemory if name in memory else DeviceLost if name in lost else DeviceError
    assert (type(error), error.exit_code) == (expected, 3)
    assert error.diagnostics[0].message.isprintable()
    assert error.diagnostics[0].message.startswith(r"opencl0:0 (\x1b[1m): ")
    assert isinstance(error.__cause__, cl.Error)


@pytest.mark.parametrize("kind", [cl.Error, cl.LogicError, cl.RuntimeError, cl.MemoryError])
def test_every_class_of_pyopencl_is_caught(kind):
    """They have one root."""
    assert type(raised(-4, kind)) is OutOfMemory


def test_the_table_names_real_statuses():
    """No number in it is a slip of the pen."""
    assert set(_ERRORS) <= set(STATUS.values())


def test_a_status_that_no_one_knows():
    """Drivers invent their own."""
    assert type(raised(-9999)) is DeviceError


def test_other_errors_pass():
    """A mistake of the caller is not the device's."""
    with pytest.raises(ValueError, match="mine"), _foreign(DEVICE):
        raise ValueError("mine")


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


# --- devices and parts


def test_parts_are_devices_of_one_unit(backend):
    """Numbered from nought, within the silicon of the whole; each with a place of its own."""
    for whole in (d for d in backend.found if d.ref.part is None):
        parts = [d for d in backend.found
                 if d.ref.part is not None and d.id.startswith(f"{whole.id}.")]  # fmt: skip
        assert [d.ref.part for d in parts] == list(range(len(parts)))
        assert all(d.units == 1 and d.silicon <= whole.silicon for d in parts)
        assert len(parts) in (0, whole.units)


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


@pytest.mark.parametrize("ref", [DeviceRef(Kind.OPENCL, 0, 99), DeviceRef(Kind.OPENCL, 99, 0)])
def test_a_device_that_is_gone(backend, ref):
    """Between probe and open a driver may lose it."""
    gone = Device(f"opencl:{ref.platform}:{ref.index}", Kind.OPENCL, ref, "gone", "pyopencl")

    with pytest.raises(AbsentError, match=f"{ref} is no longer there"):
        backend.open(gone, SystemClock())
