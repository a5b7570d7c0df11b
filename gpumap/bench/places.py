"""Which names of a map stand for which devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Binding


def one_of_each(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the first name of each device: another name of it would tell the same."""
    found: dict[str, Binding] = {}
    for binding in bindings:
        found.setdefault(binding.device.id, binding)
    return list(found.values())
