"""NCCL's own allreduce between the CUDA devices of one process, by CuPy.

What stands here follows CuPy's and NCCL's documentation; it has not run on a GPU yet.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from gpumap.backends.cupy import INSTALL, NAME
from gpumap.backends.foreign import foreign
from gpumap.errors import AbsentError, QuestionError
from gpumap.extras import pip

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIBRARY = (
    f"{pip('install', 'nvidia-nccl-cu13')} (nvidia-nccl-cu12 with CUDA 12), "
    "or apt-get install libnccl2"
)
_DEVICES = "map every name to a CUDA device of its own, driven by cupy"


class Nccl:
    """A communicator for each of several sessions of CuPy, in their order."""

    def __init__(self, sessions: Sequence[Any]) -> None:
        """Connect the devices.

        Raises:
            AbsentError: CuPy or NCCL is not there.
            QuestionError: a device is no CUDA device of CuPy's, or is listed twice, where
                NCCL would hang.
            DeviceError: NCCL cannot connect them.
        """
        _check(sessions)
        self._nccl = library()
        self._sessions = tuple(sessions)
        ordinals = [session.ordinal for session in sessions]
        with foreign(sessions[0].device):
            self._comms = self._nccl.NcclCommunicator.initAll(ordinals)

    def exchange(self, buffers: Sequence[Any]) -> NcclExchange:
        """Return the exchange of one float32 buffer of each session; the sums take their place."""
        ends = list(zip(self._comms, self._sessions, buffers, strict=True))
        return NcclExchange(self._nccl, ends)


class NcclExchange:
    """One allreduce, ready to be queued again and again."""

    def __init__(self, nccl: Any, ends: list[tuple[Any, Any, Any]]) -> None:
        self._nccl = nccl
        self._ends = ends

    def queue(self) -> frozenset[Any]:
        """Queue it on every device, in its session's stream."""
        nccl = self._nccl
        with foreign(self._ends[0][1].device):
            nccl.groupStart()  # or the first call would wait for the others
            for comm, session, buffer in self._ends:
                place, count = buffer.address, buffer.shape[0]
                comm.allReduce(
                    place, place, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, session.stream
                )
            nccl.groupEnd()
        return frozenset()


def library() -> Any:
    """Return CuPy's module of NCCL.

    Raises:
        AbsentError: CuPy is not installed, or finds no NCCL.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy warns where it finds none: we say so ourselves
            from cupy.cuda import nccl
    except ImportError as error:
        raise AbsentError("NCCL is used by CuPy, which is not installed", INSTALL) from error
    if not nccl.available:
        raise AbsentError("CuPy finds no NCCL: libnccl.so.2 cannot be loaded", _LIBRARY)
    return nccl


def _check(sessions: Sequence[Any]) -> None:
    others = [s.device for s in sessions if s.device.backend != NAME]
    if others:
        said = f"NCCL is for CUDA devices of cupy, and {others[0].ref} is driven by"
        raise QuestionError(f"{said} {others[0].backend}", _DEVICES)
    ids = [session.device.id for session in sessions]
    twice = next((id_ for n, id_ in enumerate(ids) if id_ in ids[:n]), None)
    if twice is not None:
        raise QuestionError(f"{twice} has two names, and NCCL takes a device once", _DEVICES)
