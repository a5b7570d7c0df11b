"""What Linux tells of the pages that memory of this process was asked to have."""

from pathlib import Path


def asked_for_large(address: int) -> bool:
    """Return whether large pages were asked for what is at an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, stop = (int(end, 16) for end in first.split("-"))
            inside = start <= address < stop
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise LookupError(f"{address:#x} is not mapped")
