"""The variables that leave a process its own devices alone.

CUDA's devices are named by UUID. Those of the other kinds have numbers only, which count what a
variable has left over: AMD's HIP_VISIBLE_DEVICES counts within ROCR_VISIBLE_DEVICES. So the last
variable of a kind is set, to what it has named so far at those places, and the ones before it stay
as they are; in the process its devices are numbered from 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.model import Device, Kind

_CUDA = "CUDA_VISIBLE_DEVICES"


class Visible(NamedTuple):
    """What a process may see.

    Attributes:
        variables: To be set in its environment.
        numbered: Its devices as they are numbered there, by id; those that keep their number and
            those with an identity are left out.
    """

    variables: Mapping[str, str]
    numbered: Mapping[str, str]


def visible(devices: Sequence[Device], given: Mapping[str, str]) -> Visible:
    """Return what hides all other devices of the same kinds, of CUDA's too where none is used.

    Args:
        devices: those of the process.
        given: the environment in which they were found.
    """
    variables = _cuda(devices)
    numbered: dict[str, str] = {}
    for kind in dict.fromkeys(device.kind for device in devices):
        own = list(dict.fromkeys(device for device in devices if device.kind is kind))
        if (found := _by_number(kind, own, given)) is not None:
            variables |= found
            numbered |= {device.id: f"{kind}{place}" for place, device in enumerate(own)}
    return Visible(variables, numbered)


def _cuda(devices: Iterable[Device]) -> dict[str, str]:
    """Return CUDA's variable: the UUIDs; nothing where a device has none.

    OpenCL drivers of NVIDIA read it too, so that it must not hide what OpenCL is to drive.
    """
    found = []
    for device in devices:
        if _CUDA in device.kind.row.hides:
            found.append(device.uuid)
        else:
            found.append("" if device.in_host_memory else None)
    return {} if None in found else {_CUDA: ",".join(filter(None, found))}


def _by_number(
    kind: Kind, devices: Sequence[Device], given: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the variables of a kind without identities; None where they cannot be told."""
    row = kind.row
    if not row.hides or "identity" in row.forms or (row.alone and len(devices) > 1):
        return None
    variable = row.hides[-1]
    text = next((given[name] for name in (variable, *row.reads) if given.get(name)), None)
    numbers = [device.ref.index for device in devices]
    if text is None:
        names = [str(number) for number in numbers]
    else:
        listed = [name.strip() for name in text.split(",")]
        if any(number is None or number >= len(listed) for number in numbers):
            return None  # the variable was not read as it stands there
        names = [listed[number or 0] for number in numbers]
    return {variable: ",".join(names), **dict(row.alone)}
