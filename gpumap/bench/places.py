"""Which devices the names of a map stand for, and how data comes to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.backends.base import Session
    from gpumap.model import Binding


def one_of_each(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the first name of each device: another name of it would tell the same."""
    found: dict[str, Binding] = {}
    for binding in bindings:
        found.setdefault(binding.device.id, binding)
    return list(found.values())


def moved(array: Any, session: Session) -> Any:
    """Return a copy of a host array on a device, when it is there."""
    buffer = session.empty(array.shape, array.dtype.name)
    session.upload(array, buffer)
    session.synchronize()
    return buffer
