"""What the kernel's log says of GPUs since the machine was started: NVIDIA's Xid errors."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from gpumap.machine.topology import pci_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOG = "/dev/kmsg"
_RECORD = 8192  # bytes of one at most
_MOST = 1 << 20  # records
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


def records(path: str = _LOG) -> tuple[str, ...]:
    """Return the records that the kernel keeps, the oldest first.

    Raises:
        OSError: this process may not read them.
    """
    number, found = os.open(path, os.O_RDONLY | os.O_NONBLOCK), list[str]()
    try:
        with suppress(BlockingIOError):  # that was the last one
            while len(found) < _MOST and (record := _next(number)):
                found.append(record.decode(errors="replace"))
    finally:
        os.close(number)
    return tuple(found)


def _next(number: int) -> bytes:
    """Return a record; one that was overwritten meanwhile is passed over."""
    while True:
        with suppress(BrokenPipeError):
            return os.read(number, _RECORD)


def xids(log: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the numbers of Xid errors by the PCI address of their device, each once."""
    found: dict[str, list[int]] = {}
    for address, number in (match.groups() for line in log for match in _XID.finditer(line)):
        whole = address if "." in address else f"{address}.0"
        found.setdefault(pci_address(whole) or whole, []).append(int(number))
    return {address: tuple(dict.fromkeys(numbers)) for address, numbers in found.items()}
