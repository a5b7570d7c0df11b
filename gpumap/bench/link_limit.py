"""The limit of the links of devices: what they carry, by the generation and width of PCIe.

Payload of a lane after its encoding, one way. Source: PCI Express Base Specification, 8b/10b up to
generation 2, 128b/130b to 5, and FLITs of 242 in 256 bytes in 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Device

_TRANSFERS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}  # bits a second of a lane
_ENCODED = {1: 8 / 10, 2: 8 / 10, 6: 242 / 256}
_MODERN = 128 / 130


def lane(generation: int) -> float | None:
    """Return the B/s of one lane in one direction; None for a generation that is not known."""
    rate = _TRANSFERS.get(generation)
    return None if rate is None else rate * _ENCODED.get(generation, _MODERN) / 8


def limit(devices: Iterable[Device], directions: int = 1) -> Limit | None:
    """Return what the links of these devices carry together; None where one is not known.

    By the widest and fastest that a link can be: one that idles is slower until it is used. Its
    driver reports that, and may know only a part of the way: NVLink to the host is no PCIe link.
    Where host and device share page tables, copies do not go over the link that NVML reports.
    """
    whole, sources = 0.0, []
    for device in {device.pci or device.id: device for device in devices}.values():
        generation, width = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
        rate = lane(generation) if isinstance(generation, int) else None
        if rate is None or not isinstance(width, int) or device.facts.get("host_page_tables"):
            return None
        whole += rate * width * directions
        sources.append(f"PCIe {generation} x{width}")
    ways = " both ways" if directions > 1 else ""
    source = f"reported: {', '.join(dict.fromkeys(sources))}{ways}"
    return Limit("bandwidth", whole, "B/s", source, "reported")
