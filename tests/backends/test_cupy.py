"""CUDA by CuPy, and NCCL: what is true without a device; with one, conformance says the rest."""

import importlib.util
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest
from refusals import refusal

from gpumap.backends import cupy as cupy_nccl
from gpumap.backends.cupy import INSTALL
from gpumap.backends.cupy.launch import Kernels
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.backends.third_party import Current
from gpumap.errors import DeviceError, QuestionError, Unsupported
from gpumap.kernels import KERNELS

INSTALLED = importlib.util.find_spec("cupy") is not None


def test_a_stream_of_another_device_leaves_the_device_as_it_was():
    """CuPy refuses it after the device was made current; its words become an error of gpumap's."""
    on = MagicMock()
    stream = MagicMock(__enter__=Mock(side_effect=RuntimeError("the stream is of another device")))
    with pytest.raises(DeviceError), Current(SimpleNamespace(ref="cuda0", name=""), on, stream):
        pass
    assert [call for call, *_ in on.mock_calls] == ["__enter__", "__exit__"]


@pytest.mark.skipif(not INSTALLED, reason=f"cupy: not installed ({INSTALL})")
def test_a_type_without_kernels_is_unsupported():
    """CUDA has products of bfloat16, and gpumap no kernels of it."""
    with pytest.raises(Unsupported):
        Kernels(SimpleNamespace(ref="cuda0"), nullcontext(), 0, 0).prepared(
            KERNELS["fill"], "bfloat16", [((), 4)], {}
        )


def session(number, backend="cupy"):
    device = device_of(FakeDevice(f"cuda{number}"))
    return SimpleNamespace(
        ordinal=number, device=SimpleNamespace(id=device.id, ref=device.ref, backend=backend)
    )


@pytest.mark.parametrize(("sessions", "said"), [
    ([session(0), session(1, "fake")], "cuda1 is driven by fake"),
    ([session(0), session(0)], "has two names, and NCCL takes a device once"),
])  # fmt: skip
def test_what_nccl_would_hang_on_is_refused(sessions, said):
    assert said in refusal(QuestionError, cupy_nccl.nccl, sessions).message
