"""How the examples of a batch are split over devices."""

from __future__ import annotations

from math import fsum, inf
from typing import TYPE_CHECKING

from gpumap.comm.algorithms import balanced
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Sequence

SPLITS = ("balanced", "weighted", "keras", "drop")


def split(
    total: int, parts: int, policy: str = "balanced", rates: Sequence[float] | None = None
) -> tuple[int, ...]:
    """Return how many of `total` examples each of `parts` devices takes.

    Args:
        total: examples of a batch.
        parts: devices.
        policy: `balanced`: as even as can be, the first ones take one more; `weighted`: so that
            all end as soon as can be at their `rates`; `keras`: the last one takes the remainder
            too, as `multi_gpu_model` does; `drop`: it is left out, as in `make_parallel`.
        rates: of `weighted`: examples per second of each device, or anything in proportion to it.

    Raises:
        QuestionError: there is no such policy, a count is not a whole number, or the rates are
            not as many positive numbers.
    """
    if policy not in SPLITS:
        raise QuestionError(f'no split is called "{policy}"', f"it is one of {', '.join(SPLITS)}")
    if not (hasattr(total, "__index__") and hasattr(parts, "__index__")) or total < 0 or parts < 1:
        message = f"{total!r} examples cannot be split over {parts!r} devices"
        raise QuestionError(message, "give whole numbers: 0 examples or more, and 1 device or more")
    if policy == "balanced":
        return balanced(total, parts)
    if policy != "weighted":
        each, more = divmod(total, parts)
        return (each,) * (parts - 1) + (each + (more if policy == "keras" else 0),)
    if rates is None or len(rates) != parts or not all(0 < rate < inf for rate in rates):
        message = f"weighted takes {parts} rates above 0, one of each device, not {rates}"
        raise QuestionError(message, "give a positive number for each device")
    counts = [int(total * (rate / fsum(rates))) for rate in rates]
    for _ in range(total - sum(counts)):  # to whoever ends first with one more
        counts[min(range(parts), key=lambda n: (counts[n] + 1) / rates[n])] += 1
    return tuple(counts)
