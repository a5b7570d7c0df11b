"""Where an operation runs, by one rule.

On the device that holds most bytes of its operands; the first operand decides a tie. What is in
host memory counts nothing: it is copied to the device. Only where no operand is on a device does
the host compute. The order of operands decides nothing else, and what has to be moved for the rule
is moved visibly: it stands in the trace as implicit; under ``policy="strict"`` it is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

HOST = "cpu"  # the target that means host memory, never a cpu device


def place(operands: Sequence[tuple[str, Hashable, int]]) -> str:
    """Return the target on which an operation runs.

    Args:
        operands: for each its target, what tells its device from others (two names may stand for
            one), and its bytes. The target of host memory is HOST.
    """
    held: dict[Hashable, int] = {}
    first: dict[Hashable, str] = {}
    for target, device, nbytes in operands:
        if target != HOST:
            held[device] = held.get(device, 0) + nbytes
            first.setdefault(device, target)
    if not held:
        return HOST
    return first[max(held, key=lambda device: held[device])]  # of equal ones the first
