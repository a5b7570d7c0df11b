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
from gpumap.engine.estimates import by_block
from gpumap.model import Fit
from gpumap.model.measurements import fit_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumap.model import Case, Measurement

    Sweep = dict[int, tuple[Case, dict[int, float]]]  # by bytes: the seconds of each block

HELD_BACK = 1 << 17  # bytes: measured, and left out of the fit to see what that predicts
_FEWEST = 4  # sizes: two parameters, and something to be wrong about


def fits(rows: Iterable[Measurement], confidence: float, seed: int) -> tuple[Fit, ...]:
    """Return a model for whatever has a size sweep: rows that differ in their bytes alone."""
    sweeps: defaultdict[str, Sweep] = defaultdict(dict)
    for row in rows:
        if row.case.swept and row.status == "ok" and row.samples and not is_call(row.case):
            times = by_block(row.samples)
            sweeps[fit_id(row.case)][int(row.case.params["bytes"])] = row.case, times
    found = (_fit(id_, sweep, confidence, seed) for id_, sweep in sweeps.items())
    return tuple(fit for fit in found if fit is not None)


def _fit(id_: str, sweep: Sweep, confidence: float, seed: int) -> Fit | None:
    from gpumap.engine.fit import FITS, fitted, intervals

    _, held = sweep.pop(HELD_BACK, (None, {}))
    sizes = sorted(sweep)
    blocks = set.intersection(*(set(times) for _, times in sweep.values())) if sweep else set()
    if len(sizes) < _FEWEST or not blocks:
        return None
    samples = np.array([[sweep[size][1][block] for size in sizes] for block in sorted(blocks)])
    model = fitted(sizes, np.median(samples, axis=0))
    predicted = model.seconds(HELD_BACK)
    time = median(held.values()) if held else predicted
    good = model.fits and abs(predicted - time) <= FITS * time
    figures = intervals(sizes, samples, model, confidence, seed) if good else {}
    case, _ = sweep[sizes[0]]
    return Fit(id_, case, good, tuple(sizes), model.residual, figures, model.lines)
