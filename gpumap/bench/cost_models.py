"""Cost models of copies, fitted to a size sweep.

The size that was held back is predicted: a model that only describes what it was fitted to would
not be worth the name.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.keys import is_call
from gpumap.dtypes import np
from gpumap.model import Fit
from gpumap.model.measurements import fit_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.model import Measurement

HELD_BACK = 1 << 17  # bytes: measured, and left out of the fit to see what that predicts
_FEWEST = 4  # sizes: two parameters, and something to be wrong about


def fits(rows: Iterable[Measurement], confidence: float, seed: int) -> tuple[Fit, ...]:
    """Return a model for whatever has a size sweep: rows that differ in their bytes alone."""
    sweeps: defaultdict[str, list[Measurement]] = defaultdict(list)
    for row in rows:
        if row.case.swept and row.samples and not is_call(row.case):
            sweeps[fit_id(row.case)].append(row)
    found = (_fit(id_, sweep, confidence, seed) for id_, sweep in sweeps.items())
    return tuple(fit for fit in found if fit is not None)


def _fit(id_: str, sweep: Sequence[Measurement], confidence: float, seed: int) -> Fit | None:
    from gpumap.engine.fit import FITS, fitted, intervals

    good = sorted(
        (row for row in sweep if row.status == "ok"), key=lambda row: int(row.case.params["bytes"])
    )
    used = [row for row in good if row.case.params["bytes"] != HELD_BACK]
    blocks = set.intersection(*(set(_blocks(row)) for row in used)) if used else set()
    if len(used) < _FEWEST or not blocks:
        return None
    sizes = [int(row.case.params["bytes"]) for row in used]
    samples = np.array([[_blocks(row)[block] for row in used] for block in sorted(blocks)])
    model = fitted(sizes, np.median(samples, axis=0))
    held = [row for row in good if row.case.params["bytes"] == HELD_BACK]
    times = [median(_blocks(row).values()) for row in held]
    predicted = model.seconds(HELD_BACK)
    good_for = model.fits and all(abs(predicted - time) <= FITS * time for time in times)
    return Fit(
        id_,
        used[0].case,
        good_for,
        tuple(sizes),
        model.residual,
        intervals(sizes, samples, model, confidence, seed) if good_for else {},
        model.lines,
    )


def _blocks(row: Measurement) -> dict[int, float]:
    assert row.samples is not None
    return dict(zip(row.samples.blocks, row.samples.seconds, strict=True))
