"""Which devices the names of a map stand for, and how data comes to one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gpumap.bench.scripted import is_hollow
from gpumap.errors import WrongDataError
from gpumap.lazy_numpy import np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.backends.base import Session
    from gpumap.model import Binding


_PART = 1 << 24  # bytes that are compared at a time


def one_of_each(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the first name of each device: another name of it would tell the same."""
    found: dict[str, Binding] = {}
    for binding in bindings:
        found.setdefault(binding.device.id, binding)
    return list(found.values())


def moved(array: Any, session: Session, *, proved: bool = True) -> Any:
    """Return a copy of a host array on a device, when it is there.

    Raises:
        WrongDataError: it is `proved`, and a byte of it did not arrive.
    """
    buffer = session.empty(array.shape, array.dtype.name)
    session.upload(array, buffer)
    session.synchronize()
    if proved:
        prove(array, buffer)
    return buffer


def prove(right: Any, buffer: Any) -> None:
    """Fetch an operand in parts, and compare every byte: a result hides one in its rounding.

    Raises:
        WrongDataError: one is another than on the host.
    """
    session = buffer.session
    if is_hollow(session, sys.maxsize) or not right.size:  # a script's faults: `Played`
        return
    step = max(_PART // (right.nbytes // right.shape[0]), 1)
    for start in range(0, right.shape[0], step):
        wanted = np.ascontiguousarray(right[start : start + step])
        landed = np.invert(wanted.reshape(-1).view(np.uint8)).view(wanted.dtype)
        landed = landed.reshape(wanted.shape)
        session.download(buffer[start : start + step], landed)
        session.synchronize()
        if landed.tobytes() != wanted.tobytes():
            where = f"{session.device.ref} ({session.device.backend})"
            raise WrongDataError(f"{where}: an operand of {right.nbytes} bytes arrived wrong")
