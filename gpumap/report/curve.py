"""The bandwidth of copies over their size, as a curve for a terminal; both scales logarithmic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.bench.registry import charted, in_sweep
from gpumap.cut import briefly
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Case, Measurement

    Points = list[tuple[float, float]]  # bytes, and B/s

_HEIGHT, _WIDEST, _NARROWEST = 9, 60, 24
_MARKS = "●○▲△"  # one for each curve; more of them in one picture nobody can tell apart
_FEWEST = 3  # points of a curve
_LARGEST = 10**30  # bytes; beyond, a file was edited
_AXIS = 12  # columns of what stands left of the picture


def lines(measurements: Sequence[Measurement], columns: int) -> Iterator[str]:
    """Yield the curves of the first device that has some; none where there is no room for them."""
    curves = _curves(measurements)
    space = min(_WIDEST, columns - _AXIS - 2)
    if not curves or space < _NARROWEST:
        return
    marks = ", ".join(
        f"{mark} {printable(label)}" for mark, label in zip(_MARKS, curves, strict=False)
    )
    yield f"bandwidth over bytes: {marks}"
    every = [point for points in curves.values() for point in points]
    (left, right), (low, high) = (
        (min(scale), max(scale))
        for scale in (list(map(math.log, s)) for s in zip(*every, strict=True))
    )
    grid = [[" "] * space for _ in range(_HEIGHT)]
    for mark, points in zip(_MARKS, curves.values(), strict=False):
        for nbytes, bandwidth in points:
            x = _place(math.log(nbytes), left, right, space)
            y = _place(math.log(bandwidth), low, high, _HEIGHT)
            grid[_HEIGHT - 1 - y][x] = mark
    for number, row in enumerate(grid):
        edge = {0: high, _HEIGHT - 1: low}.get(number)
        label = "" if edge is None else _told(math.exp(edge), "B/s")
        yield f"{label:>{_AXIS - 1}} ┤{''.join(row).rstrip()}"
    first, last = (_told(math.exp(edge), "B") for edge in (left, right))
    yield f"{'':{_AXIS}}└{'─' * space}"
    yield f"{'':{_AXIS + 1}}{first}{last:>{space - len(first)}}"


def _told(value: float, unit: str) -> str:
    (text,) = units.together((value,), unit)
    return text


def _place(value: float, low: float, high: float, count: int) -> int:
    return 0 if high <= low else round((value - low) / (high - low) * (count - 1))


def _curves(measurements: Sequence[Measurement]) -> Mapping[str, Points]:
    """Return the copies of the ladder, waited for one by one, of one name and of one pair."""
    found: dict[str, Points] = {}
    whose: dict[str, tuple[str, ...]] = {}
    for row in measurements:
        bandwidth = row.metrics.get("bandwidth")
        if not _of_ladder(row.case) or bandwidth is None or not bandwidth.has_interval:
            continue
        if not 0.0 < bandwidth.value < math.inf:
            continue
        nbytes = row.case.params.get("bytes")
        if not isinstance(nbytes, int) or not 0 < nbytes < _LARGEST:
            continue
        if whose.setdefault(row.case.name, row.case.names) != row.case.names:
            continue
        label = f"{row.case.name} {briefly(row.case)}"
        found.setdefault(label, []).append((float(nbytes), bandwidth.value))
    telling = {label: points for label, points in found.items() if len(points) >= _FEWEST}
    return dict(list(telling.items())[: len(_MARKS)])


def _of_ladder(case: Case) -> bool:
    keys = case.params
    plain = keys.get("memory") in ("pageable", "device") and keys.get("mode") == "sync"
    return charted(case, "curve") and in_sweep(case) and plain
