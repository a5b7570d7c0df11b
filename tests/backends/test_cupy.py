"""CUDA by CuPy, and NCCL: what is true without a device; with one, conformance says the rest."""

import importlib.util
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import here
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.backends.cupy import nccl as cupy_nccl
from gpumap.backends.cupy.devices import INSTALL, CupyBackend
from gpumap.backends.cupy.launch import Current, Kernels
from gpumap.backends.cupy.memory import in_words
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.bench.exchanges import Job, LibraryRanks
from gpumap.dtypes import ITEMSIZE
from gpumap.errors import AbsentError, DeviceError, QuestionError, Unsupported
from gpumap.extras import install, pip
from gpumap.model import Probe

INSTALLED = importlib.util.find_spec("cupy") is not None


def test_a_probe_has_devices_with_an_identity_or_a_reason():
    """The fix is the command that installs it; never a traceback."""
    probe = CupyBackend(here.HOST).probe()
    if not INSTALLED:
        assert probe == Probe("cupy", usable=False, reason="not installed", fix=INSTALL,
                              lack="no-library")  # fmt: skip
    elif not probe.usable:
        pytest.skip(f"cupy: {probe.reason}")
    own = {d.id: f"mig:{d.uuid}" if (d.uuid or "").startswith("MIG-") else f"pci:{d.pci}"
           for d in probe.devices}  # fmt: skip
    assert all(d.pci and d.uuid and d.hardware == {own[d.id]} for d in probe.devices)


@given(st.integers(0, 1 << 48), st.integers(0, 1 << 48), st.integers(0, 1 << 33))
def test_a_kernel_copies_every_byte_once(target, source, nbytes):
    """Words as far as both sides are aligned to them, then bytes; no gap, and nothing behind."""
    words, rest = in_words(target, source, nbytes)
    assert (words[0], words[1], rest[0]) == ("uint32", 0, "uint8")
    assert rest[1] == words[2] * ITEMSIZE["uint32"]
    assert rest[1] + rest[2] == nbytes
    assert words[2] == (0 if target % 4 or source % 4 else nbytes // 4)


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
        Kernels(SimpleNamespace(ref="cuda0"), nullcontext()).prepared(
            [("fill", "bfloat16", (), 4)], 1, {}
        )


class _Scripted:
    """NCCL as its documentation has it: a group's calls take place together, at its end."""

    NCCL_FLOAT32, NCCL_SUM = 7, 0

    def __init__(self, memory):
        self.memory, self.asked, self.group = memory, [], None
        self.NcclCommunicator = SimpleNamespace(initAll=self.connected)

    def connected(self, ordinals):
        self.asked = list(ordinals)
        return [SimpleNamespace(allReduce=self.all_reduce) for _ in ordinals]

    def groupStart(self):  # noqa: N802 - NCCL's name
        self.group = []

    def all_reduce(self, source, target, count, dtype, operation, stream):
        """Collect a call; outside of a group it would wait for the others for ever."""
        assert (source, dtype, operation) == (target, self.NCCL_FLOAT32, self.NCCL_SUM)
        assert self.memory[source].size == count
        self.group.append((source, stream))

    def groupEnd(self):  # noqa: N802
        """Sum up, once every device has called."""
        assert len(self.group) == len(self.asked)
        assert len({stream for _, stream in self.group}) == len(self.group)
        total = sum(self.memory[address].copy() for address, _ in self.group)
        for address, _ in self.group:
            self.memory[address][:] = total


class _Session:
    """A session of CuPy's, in host memory."""

    features = frozenset()

    def __init__(self, number, memory, backend="cupy"):
        self.ordinal, self.stream, self._memory = number, 1000 + number, memory
        device = device_of(FakeDevice(f"cuda{number}"))
        self.device = SimpleNamespace(id=device.id, ref=device.ref, backend=backend)

    def empty(self, shape, _):
        address = len(self._memory) + 1
        self._memory[address] = np.full(shape, np.nan, np.float32)
        return SimpleNamespace(address=address, shape=shape)

    def upload(self, source, target):
        self._memory[target.address][:] = source

    def download(self, source, target):
        target[:] = self._memory[source.address]

    def synchronize(self):
        """Do nothing: a copy is there when it returns."""


def test_an_exchange_is_one_group_on_every_device(monkeypatch):
    """In each session's own stream and in place; the sums are exact."""
    memory = {}
    nccl = _Scripted(memory)
    monkeypatch.setattr(cupy_nccl, "library", lambda: nccl)
    sessions = [_Session(number, memory) for number in (3, 0, 1)]
    work = LibraryRanks(sessions, cupy_nccl.Nccl(sessions)).round(Job("native", 1000))
    work.poison()
    work.queue()
    assert nccl.asked == [3, 0, 1]
    assert work.check().passed


@pytest.mark.parametrize(("sessions", "said"), [
    ([_Session(0, {}), _Session(1, {}, "fake")], "cuda1 is driven by fake"),
    ([_Session(0, {}), _Session(0, {})], "has two names, and NCCL takes a device once"),
])  # fmt: skip
def test_what_nccl_would_hang_on_is_refused(sessions, said):
    """Before it is asked."""
    with pytest.raises(QuestionError) as raised:
        cupy_nccl.Nccl(sessions)
    (told,) = raised.value.diagnostics
    assert said in told.message
    assert told.hint


def test_without_it_the_fix_is_said():
    """One line, and no warning of CuPy's."""
    try:
        cupy_nccl.library()
    except AbsentError as error:
        (told,) = error.diagnostics
    else:
        pytest.skip("NCCL is there")
    assert "NCCL" in told.message
    fix = pip("install", "nvidia-nccl-cu13") if INSTALLED else install("cuda13")
    assert told.hint.startswith(fix)
