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

_MODERN = 128 / 130
LANES = {  # by generation: B/s of one lane in one direction
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * _MODERN / 8,
    4: 16e9 * _MODERN / 8,
    5: 32e9 * _MODERN / 8,
    6: 64e9 * 242 / 256 / 8,
}


def limit(devices: Iterable[Device], directions: int = 1) -> Limit | None:
    """Return what the links of these devices carry together; None where one is not known.

    By the widest and fastest that a link can be: one that idles is slower until it is used. Its
    driver reports that, and may know only a part of the way: NVLink to the host is no PCIe link.
    Where host and device share page tables, copies do not go over the link that NVML reports.
    """
    whole, sources = 0.0, []
    for device in {device.pci or device.id: device for device in devices}.values():
        generation, width = (device.facts.get(f"max_link_{key}") for key in ("generation", "width"))
        rate = LANES.get(generation) if isinstance(generation, int) else None
        if rate is None or not isinstance(width, int) or device.facts.get("host_page_tables"):
            return None
        whole += rate * width * directions
        sources.append(f"PCIe {generation} x{width}")
    ways = " both ways" if directions > 1 else ""
    source = f"reported: {', '.join(dict.fromkeys(sources))}{ways}"
    return Limit("bandwidth", whole, "B/s", source, "reported")
