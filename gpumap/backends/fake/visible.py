"""The scripted devices that variables leave visible, as real drivers read CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from gpumap.model import Device, DeviceRef, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def visible(devices: Iterable[Device], env: Mapping[str, str]) -> tuple[Device, ...]:
    """Return what the variables of each kind leave over, numbered anew from 0.

    A variable counts within what the one before it has left, as HIP's does within ROCR's.

    Args:
        devices: all of a script.
        env: of the process.
    """
    every = tuple(devices)
    found: list[Device] = []
    for kind in dict.fromkeys(device.kind for device in every):
        own = [device for device in every if device.kind is kind]
        hiding = [env[name] for name in kind.row.hides if name in env]
        for text in hiding:
            own = _listed(own, text)
        if hiding:
            own = [replace(d, ref=DeviceRef(kind, n)) for n, d in enumerate(own)]
        found += own
    return tuple(found)


def _listed(devices: Sequence[Device], text: str) -> list[Device]:
    """Return the devices that a variable lists; the first entry that is none ends the list."""
    known = {str(number): device for number, device in enumerate(devices)}
    known |= {device.uuid: device for device in devices if device.uuid}
    words = (part.strip() for part in text.split(","))
    return [known[word] for word in takewhile(known.__contains__, words)]
