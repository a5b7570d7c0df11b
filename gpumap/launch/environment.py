"""What each process is told by its environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.launch.places import Place
    from gpumap.model import Device

TOKEN = "GPUMAP_RUN"  # noqa: S105 - the name of a variable: by its value a run knows its processes
HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all processes of a run are told alike."""

    token: str
    port: int
    address: str = HERE
    backend: str | None = None  # what was asked to drive the devices


def environments(
    places: Sequence[Place], shared: Shared, given: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return for each place the variables that its process gets beside those that were `given`."""
    world = ";".join(f"{place.name}->{identity(place.device)}" for place in places)
    return tuple(
        _environment(place, rank, len(places), world, shared, given)
        for rank, place in enumerate(places)
    )


def identity(device: Device) -> str:
    """Return a device as a map may name it, by what stays the same whatever is visible."""
    if device.kind is Kind.CUDA and (known := device.uuid or device.pci):
        return f"{Kind.CUDA}@{known}"
    return str(device.ref)


def inside(place: Place) -> str:
    """Return the device of a place as it is named in the process that is bound there."""
    one_core = place.device.kind is Kind.CPU and place.device.ref.index is not None
    if one_core and place.cores:
        return f"{Kind.CPU}0"
    return identity(place.device)


def visible(device: Device) -> str | None:
    """Return what CUDA_VISIBLE_DEVICES must be for just this device; None: it is left alone.

    OpenCL drivers of NVIDIA read it too, so that it must not hide what OpenCL is to drive.
    """
    if device.kind is Kind.CUDA:
        return device.uuid
    return "" if device.in_host_memory else None


def _environment(
    place: Place, rank: int, size: int, world: str, shared: Shared, given: Mapping[str, str]
) -> dict[str, str]:
    outer = given.get(TOKEN)
    found = {
        "GPUMAP_NAME": place.name,
        "GPUMAP_DEVICE": identity(place.device),
        "GPUMAP_CONTEXTS": f"{place.name}->{inside(place)}",
        "GPUMAP_WORLD": world,
        TOKEN: f"{outer}:{shared.token}" if outer else shared.token,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": shared.address,
        "MASTER_PORT": str(shared.port),
    }
    if not given.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = str(place.threads)
    if (devices := visible(place.device)) is not None:
        found["CUDA_VISIBLE_DEVICES"] = devices
    if shared.backend is not None:
        found["GPUMAP_BACKEND"] = shared.backend
    return found
