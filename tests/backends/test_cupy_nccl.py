"""NCCL through CuPy: what is true without a GPU, with a scripted library in NCCL's place."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from gpumap.backends import cupy_nccl
from gpumap.backends.fake_script import FakeDevice, device_of
from gpumap.bench.exchanges import Job, LibraryRanks
from gpumap.errors import AbsentError, QuestionError
from gpumap.extras import install, pip


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
    there = find_spec("cupy") is not None  # else that comes first
    fix = pip("install", "nvidia-nccl-cu13") if there else install("cuda13")
    assert told.hint.startswith(fix)
