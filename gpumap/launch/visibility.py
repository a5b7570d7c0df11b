"""The variables that leave a process its own devices alone.

CUDA's devices are named by UUID. Those of the other kinds have numbers only, which count what a
variable has left over: AMD's HIP_VISIBLE_DEVICES counts within ROCR_VISIBLE_DEVICES. So one
variable of a kind is set, the first that is there, to what it has named so far at those places, and
the others are removed; in the process its devices are numbered from 0.
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
        removed: Other variables of its kinds, which its environment must not have.
    """

    variables: Mapping[str, str]
    numbered: Mapping[str, str]
    removed: tuple[str, ...] = ()


def visible(devices: Sequence[Device], given: Mapping[str, str]) -> Visible:
    """Return what hides all other devices of the same kinds, of CUDA's too where none is used.

    Args:
        devices: those of the process.
        given: the environment in which they were found.
    """
    variables, removed = _cuda(devices), list[str]()
    numbered: dict[str, str] = {}
    for kind in dict.fromkeys(device.kind for device in devices):
        own = list(dict.fromkeys(device for device in devices if device.kind is kind))
        if (found := _by_number(kind, own, given)) is not None:
            variables |= found
            numbered |= {device.id: f"{kind}{place}" for place, device in enumerate(own)}
            removed += [*kind.row.hides, *kind.row.reads]
    left = (name for name in removed if name in given and name not in variables)
    return Visible(variables, numbered, tuple(left))


def kept(devices: Sequence[Device], given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that a process with these devices must not have.

    Args:
        devices: those of the process.
        given: the environment in which they were found.
    """
    removed = visible(devices, given).removed
    return {name: value for name, value in given.items() if name not in removed}


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
    names = [str(device.ref.index or 0) for device in devices]
    # The last is read in the place of others (CUDA's, of AMD's), and counts in what is before it.
    last = next((name for name in (row.hides[-1], *row.reads) if given.get(name)), None)
    chain = [last, *(name for name in row.hides[:-1] if given.get(name))]
    for variable in filter(None, chain):
        listed = [name.strip() for name in given[variable].split(",")]
        places = [int(name) if name.isdecimal() else len(listed) for name in names]
        if any(place >= len(listed) for place in places):
            return None  # the variable was not read as it stands there
        names = [listed[place] for place in places]
    first = next((name for name in row.hides[:-1] if given.get(name)), row.hides[-1])
    return {first: ",".join(names), **dict(row.alone)}
